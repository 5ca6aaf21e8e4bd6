// Attention and its gradients on a device by cuDNN, where it is found: of f16 and bf16, whole, and a floating mask
// that is added to the scores and needs no gradient. Of lengths that are known; batch and heads may be symbols.
// Operands are read where they lie, if their features lie side by side and rows begin at multiples of 16 bytes.
#include <algorithm>
#include <string_view>

#include "base/options.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/attention.hpp"
#include "schedule/layout.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::Attended;
using runtime::cuda::attended_values;
using runtime::cuda::AttentionSizes;
using runtime::cuda::LibraryAttention;

constexpr std::int64_t elements_a_read = 8;  // 16 bytes of 16-bit floats

// A call as the library sees it: what is fixed, and the values in its order.
struct AttentionNode {
  AttentionSizes fixed;
  std::vector<Type> types;
};

// Nothing where it is another call, or one that the library has no form of.
std::optional<AttentionNode> attention_of(const Node& node) {
  if (node.op != Op::call || node.definition || &node.attributes().type() != &attribute_type<AttentionCall>) return {};
  const std::string_view name = name_of(node);
  AttentionNode made;
  AttentionSizes& fixed = made.fixed;
  fixed.is_backward = name == "scaled_dot_product_attention_backward";
  if (!fixed.is_backward && name != "scaled_dot_product_attention") return {};
  const std::size_t operands = fixed.is_backward ? 6 : 3, results = fixed.is_backward ? 3 : 2;
  if (node.operand_count - operands > 1 || node.output_count != results) return {};
  fixed.has_mask = node.operand_count > operands;
  const auto& called = node.attributes().as<AttentionCall>();
  if (called.has_mods()) return {};
  fixed.scale = static_cast<float>(called.scale);
  fixed.is_causal = called.is_causal;
  fixed.is_deterministic = !options().unordered_sums;
  for (const Tensor& operand : node.inputs()) made.types.push_back(type_of(operand));
  made.types.push_back(node.type);
  for (const Type& type : node.more_types()) made.types.push_back(type);
  const Type &query = made.types[0], &key = made.types[1], &value = made.types[2];
  const int rank = query.shape.rank();
  fixed.dtype = query.dtype;
  if ((fixed.dtype != DType::f16 && fixed.dtype != DType::bf16) || rank < 2 || rank > 4) return {};
  if (fixed.has_mask) fixed.mask_dtype = made.types[3].dtype;
  if (fixed.has_mask && (!is_floating(fixed.mask_dtype) || fixed.mask_dtype == DType::f64)) return {};
  for (const Type& type : {key, value})
    if (type.shape.rank() != rank || type.dtype != fixed.dtype) return {};
  // Each size is a plan of its own, which the library compiles for a third of a second: batches of several sizes are
  // worth it, lengths that vary from call to call are not.
  if (!query.shape[rank - 2].is_constant() || !key.shape[rank - 2].is_constant()) return {};
  const Dim features[] = {query.shape[rank - 1], value.shape[rank - 1]};
  for (const Dim each : features)
    if (!each.is_constant() || each.constant() == 0 || each.constant() % elements_a_read != 0) return {};
  fixed.features = features[0].constant(), fixed.value_features = features[1].constant();
  return made;
}

// Batch, heads, key heads, queries and keys.
std::vector<Dim> sizes_of(const AttentionNode& node) {
  const Shape &query = node.types[0].shape, &key = node.types[1].shape;
  const int rank = query.rank();
  return {rank > 3 ? query[0] : Dim(1), rank > 2 ? query[rank - 3] : Dim(1), rank > 2 ? key[rank - 3] : Dim(1),
          query[rank - 2], key[rank - 2]};
}

// The strides of four axes: [batch, heads, rows, features], or [batch, heads, rows, 1] of stats.
void add_strides(std::vector<Dim>& to, const Type& type, std::vector<Dim> strides, bool is_stats) {
  if (is_stats) strides.push_back(1);
  const Dim whole = type.shape.element_count();
  strides.insert(strides.begin(), 4 - strides.size(), whole);  // of one element
  to.insert(to.end(), strides.begin(), strides.end());
}

// Sizes to ask the library about: a symbol counts as its hint, memory as in order.
AttentionSizes expected(const AttentionNode& node) {
  std::vector<Dim> wanted = sizes_of(node);
  std::size_t place = 0;
  for (std::size_t i = 0; i < attended_values; ++i)
    if (const auto value = static_cast<Attended>(i); node.fixed.has(value)) {
      const Type& type = node.types[place++];
      add_strides(wanted, type, contiguous_strides(type.shape), value == Attended::stats);
    }
  std::vector<std::int64_t> values;
  for (const Dim dim : wanted) values.push_back(dims::at_hints(dim));
  return attention_sizes(node.fixed, values);
}

class AttentionPayload final : public Payload {
 public:
  explicit AttentionPayload(const Candidate& candidate)
      : device_(candidate.device), node_(*attention_of(candidate.node)), dims_(sizes_of(node_)) {
    const Dim pairs = dims_[0] * dims_[1] * dims_[3] * dims_[4];
    text_ = " " + to_string(node_.types[0]) + " to " + to_string(node_.types[1].shape) +
            (node_.fixed.is_causal ? ", causal" : "");
    std::vector<const PlacedValue*> values;
    for (const auto* list : {&candidate.operands, &candidate.results})
      for (const PlacedValue& each : *list) values.push_back(&each);
    Dim bytes = 0;
    for (std::size_t i = 0, place = 0; i < attended_values; ++i) {
      const auto value = static_cast<Attended>(i);
      if (!node_.fixed.has(value)) continue;
      const PlacedValue& at = *values[place++];
      add_strides(dims_, at.type, at.strides, value == Attended::stats);
      offsets_.push_back(at.offset);
      bytes = bytes + storage_bytes(info(at.type.dtype), at.type.shape.element_count());
    }
    // Products of queries with keys and of weights with values, and of what follows backward.
    const Dim e = node_.fixed.features, f = node_.fixed.value_features;
    const Dim operations = pairs * (node_.fixed.is_backward ? Dim(6) * e + Dim(4) * f : Dim(2) * (e + f));
    cost_ = {bytes, node_.fixed.is_causal ? operations / Dim(2) : operations};
    results_ = candidate.results.size();
  }
  std::string details() const override { return text_; }
  std::string by() const override { return "cuDNN"; }
  loop::Cost cost() const override { return cost_; }
  bool may_fail() const override {  // of sizes that it does not take
    return !std::all_of(dims_.begin(), dims_.end(), [](const Dim dim) { return dim.is_constant(); });
  }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, false);
    std::fill(all.end() - static_cast<std::ptrdiff_t>(results_), all.end(), true);
    return all;
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceAttention>(device_, node_.fixed, dims_, offsets_, preparation.numbers);
  }

 private:
  Device device_;
  AttentionNode node_;
  std::vector<Dim> dims_, offsets_;
  std::string text_;
  loop::Cost cost_;
  std::size_t results_;
};

class AttentionProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda || !options().cudnn) return false;
    const std::optional<AttentionNode> call = attention_of(node);
    if (!call) return false;
    const AttentionSizes sizes = expected(*call);
    return !sizes.is_empty() && LibraryAttention::is_offered(device, sizes);
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    if (is_row_major(shape, strides)) return true;
    if (!strides.back().same(Dim(1))) return false;
    for (std::size_t axis = 0; axis + 1 < strides.size(); ++axis)
      if (!shape[static_cast<int>(axis)].same(Dim(1)) && !(strides[axis] % Dim(elements_a_read)).same(Dim(0)))
        return false;
    return true;
  }
  int alignment() const override { return elements_a_read; }
  bool writes_in_any_order() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<AttentionPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(300000), std::move(payload)};
  }
};

}  // namespace

const Provider& cudnn_attention() {
  static constinit const AttentionProvider provider;
  return provider;
}

}  // namespace weft::providers
