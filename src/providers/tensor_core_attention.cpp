// Attention and its gradients on a device, whole, by our own kernels for tensor cores, with the functions of a
// score_mod and a mask_mod in their holes; without a mask. Lengths may be symbols. What is captured is read where it
// lies, in order. Without mods cuDNN's kernels come first where they are found, but for gradients that
// take longer by them.
#include "runtime/cuda/tensor_core_attention.hpp"
#include "base/options.hpp"
#include "codegen/cuda_attention_functions.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "providers/attention.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::TensorCoreAttentionCall;

struct OwnAttention {
  AttentionNode node;
  codegen::CudaAttentionDropout dropout;
  codegen::CudaAttentionFunctions functions;
  bool on_hopper;

  codegen::CudaAttention kernels() const {
    const auto& fixed = node.fixed;
    return {.dtype = fixed.dtype,
            .features = fixed.features,
            .value_features = fixed.value_features,
            .is_backward = fixed.is_backward,
            .masks = functions.masks,
            .changes_scores = functions.changes_scores,
            .kept = codegen::kept_by(dropout),
            .on_hopper = on_hopper,
            .functions = functions.text};
  }
};

std::optional<OwnAttention> own_attention(const Node& node, Device device) {
  std::optional<AttentionNode> call = attention_node(node);
  if (!call || call->fixed.has_mask) return {};
  const auto& called = node.attributes().as<AttentionCall>();
  const auto& fixed = call->fixed;
  if (!(called.scale > 0) || !codegen::fits_cuda_attention(fixed.features, fixed.value_features)) return {};
  const std::optional<bool> on_hopper = runtime::cuda::attends_on_hopper(device, fixed.features, fixed.value_features);
  if (!on_hopper) return {};
  const std::vector<Dim> dims = attention_dims(*call);
  const Dim weights = dims[0] * dims[1] * dims[3] * dims[4];
  const codegen::CudaAttentionDropout dropout{
      .probability = call->dropout,
      .draws_together = (dims[4] % Dim(4)).same(Dim(0)),
      .is_short = weights.is_constant() && weights.constant() <= std::int64_t{1} << 33};
  auto functions = codegen::cuda_attention_functions(called.has_mods() ? attention_mods(called.mods) : AttentionMods(),
                                                     called.is_causal, fixed.is_backward, dropout);
  if (!functions) return {};
  return OwnAttention{std::move(*call), dropout, std::move(*functions), *on_hopper};
}

// Than cuDNN's kernel.
bool is_faster(const OwnAttention& own) {
  return own.on_hopper && (own.node.fixed.is_backward ? has_faster_nest(own.node) : is_short_attention(own.node));
}

class TensorCorePayload final : public Payload {
 public:
  TensorCorePayload(const Candidate& candidate, OwnAttention own)
      : own_(std::move(own)), kernels_(codegen::cuda_attention(own_.kernels())), placed_(own_.node, candidate) {
    const auto& called = candidate.node.attributes().as<AttentionCall>();
    text_ = attention_text(own_.node);
    if (called.has_mods()) text_ += ", " + to_words(attention_mods(called.mods));
    for (std::size_t i = 0; i < own_.node.captured; ++i)
      captured_bytes_.push_back(storage_bytes(info(own_.node.types[3 + i].dtype), 1));
  }
  std::string details() const override { return text_; }
  std::string by() const override { return "tensor cores"; }
  loop::Cost cost() const override { return placed_.cost; }
  std::vector<bool> writes(std::size_t buffers) const override { return placed_.writes(buffers); }
  runtime::EntryPoint emit(providers::Sources& sources) const override { return attention_entry(kernels_, sources); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    const TensorCoreAttentionCall call{
        .sizes = own_.node.fixed,
        .captured = own_.node.captured,
        .has_mask_mod = own_.functions.masks,
        .mask_reads_batch = own_.functions.mask_reads_batch,
        .mask_reads_head = own_.functions.mask_reads_head,
        .on_hopper = own_.on_hopper,
        .values_apart = kernels_.back().part == codegen::CudaAttentionKernel::Part::by_values,
        .tile = {kernels_[0].rows, kernels_[0].columns}};
    return std::make_unique<runtime::cuda::TensorCoreAttention>(call, placed_.dims, placed_.offsets, captured_bytes_,
                                                                preparation);
  }

 private:
  OwnAttention own_;
  std::vector<codegen::CudaAttentionKernel> kernels_;
  PlacedAttention placed_;
  std::vector<std::int64_t> captured_bytes_;
  std::string text_;
};

class TensorCoreProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  bool attends(Device device) const override { return device.type == Device::Type::cuda; }
  bool takes(const Node& node, Device device) const override {
    return device.type == Device::Type::cuda && options().own_kernels != 0 && own_attention(node, device).has_value();
  }
  // The copy engine takes no rows that lie on each other.
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    for (std::size_t axis = 0; axis < strides.size(); ++axis)
      if (strides[axis].same(Dim(0)) && !shape[static_cast<int>(axis)].same(Dim(1))) return false;
    return reads_attention_operand(shape, strides);
  }
  int alignment() const override { return attention_alignment; }
  bool writes_in_any_order() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    std::optional<OwnAttention> own = own_attention(candidate.node, candidate.device);
    if (!own) return {};
    // The kernels read stats in order.
    constexpr std::size_t stats_from_end = 2;
    if (own->node.fixed.is_backward) {
      const PlacedValue& stats = candidate.operands[candidate.operands.size() - stats_from_end];
      if (!is_row_major(stats.type.shape, stats.strides)) return {};
    }
    auto payload = std::make_shared<TensorCorePayload>(candidate, *own);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(is_faster(*own) ? 2 * attention_rate : attention_rate / 2), std::move(payload)};
  }
};

}  // namespace

const Provider& tensor_core_attention() {
  static constinit const TensorCoreProvider provider;
  return provider;
}

}  // namespace weft::providers
