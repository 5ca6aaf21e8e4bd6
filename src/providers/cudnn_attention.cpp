// Attention and its gradients on a device by cuDNN, where it is found: of f16 and bf16, whole, and a floating mask
// that is added to the scores and needs no gradient. Of lengths that are known; batch and heads may be symbols.
// Operands are read where they lie, if their features lie side by side and rows begin at multiples of 16 bytes.
#include <algorithm>

#include "base/options.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "providers/attention.hpp"
#include "schedule/layout.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::Attended;
using runtime::cuda::attended_values;
using runtime::cuda::AttentionSizes;
using runtime::cuda::LibraryAttention;

// Nothing where the library has no form of it. Each size is a plan of its own, which the library compiles for a third
// of a second: batches of several sizes are worth it, lengths that vary from call to call are not.
std::optional<AttentionNode> library_attention(const Node& node) {
  std::optional<AttentionNode> call = attention_node(node);
  if (!call || call->dropout > 0 || node.attributes().as<AttentionCall>().has_mods()) return {};
  const DType mask = call->fixed.mask_dtype;
  if (call->fixed.has_mask && (!is_floating(mask) || mask == DType::f64)) return {};
  const std::vector<Dim> dims = attention_dims(*call);
  if (!dims[3].is_constant() || !dims[4].is_constant()) return {};
  return call;
}

// Sizes to ask the library about: a symbol counts as its hint, memory as in order.
AttentionSizes expected(const AttentionNode& node) {
  std::vector<Dim> wanted = attention_dims(node);
  std::size_t place = 0;
  for (std::size_t i = 0; i < attended_values; ++i)
    if (const auto value = static_cast<Attended>(i); node.fixed.has(value)) {
      const Type& type = node.types[place++];
      add_attention_strides(wanted, type, contiguous_strides(type.shape), value == Attended::stats);
    }
  std::vector<std::int64_t> values;
  for (const Dim dim : wanted) values.push_back(dims::at_hints(dim));
  return attention_sizes(node.fixed, values);
}

class AttentionPayload final : public Payload {
 public:
  explicit AttentionPayload(const Candidate& candidate)
      : device_(candidate.device), node_(*library_attention(candidate.node)), placed_(node_, candidate) {}
  std::string details() const override { return attention_text(node_); }
  std::string by() const override { return "cuDNN"; }
  loop::Cost cost() const override { return placed_.cost; }
  bool may_fail() const override {  // of sizes that it does not take
    return !std::all_of(placed_.dims.begin(), placed_.dims.end(), [](const Dim dim) { return dim.is_constant(); });
  }
  std::vector<bool> writes(std::size_t buffers) const override { return placed_.writes(buffers); }
  bool makes_ahead() const override { return true; }
  void make_ahead() const override { runtime::cuda::DeviceAttention::make_ahead(device_, node_.fixed, placed_.dims); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceAttention>(device_, node_.fixed, placed_.dims, placed_.offsets,
                                                            preparation.numbers);
  }

 private:
  Device device_;
  AttentionNode node_;
  PlacedAttention placed_;
};

// What the library is asked about. Nothing where it has no form of it.
std::optional<AttentionSizes> asked(const Node& node, Device device) {
  if (device.type != Device::Type::cuda || !options().cudnn) return {};
  const std::optional<AttentionNode> call = library_attention(node);
  if (!call) return {};
  AttentionSizes sizes = expected(*call);
  if (sizes.is_empty()) return {};
  return sizes;
}

class AttentionProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  bool attends(Device device) const override { return device.type == Device::Type::cuda; }
  bool takes(const Node& node, Device device) const override {
    const std::optional<AttentionSizes> sizes = asked(node, device);
    return sizes && LibraryAttention::is_offered(device, *sizes);
  }
  void add_questions(const Node& node, Device device, Providers::Questions& to) const override {
    if (auto sizes = asked(node, device))
      to.emplace_back([device, sizes = *std::move(sizes)] {
        if (LibraryAttention::is_offered(device, sizes, true)) LibraryAttention::open(device);
      });
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    return reads_attention_operand(shape, strides);
  }
  int alignment() const override { return attention_alignment; }
  bool writes_in_any_order() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<AttentionPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(attention_rate), std::move(payload)};
  }
};

}  // namespace

const Provider& cudnn_attention() {
  static constinit const AttentionProvider provider;
  return provider;
}

}  // namespace weft::providers
