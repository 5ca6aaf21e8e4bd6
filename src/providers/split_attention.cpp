// Attention of few queries on a device, as a decoder has it for each token: by our own kernels, whose blocks share the
// keys (weft/detail/cuda_attention_split.inc). Of f16 and bf16, whole, with a floating mask or causal. Lengths may be
// symbols but for that of the queries.
#include "base/device_target.hpp"
#include "base/options.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "providers/attention.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/cuda/tensor_core_attention.hpp"

namespace weft::providers {

namespace {

constexpr std::int64_t most_queries = 16;
// Up to so many key heads in all no other kernel is as fast: with more, one block each fills the device however it
// reads. With a mask, or two tiles of rows, which both read the keys, fewer.
constexpr std::int64_t few_rows = 16, few_key_heads = 256, fewer_key_heads = 64;

bool is_faster(const AttentionNode& node) {
  const std::vector<Dim> dims = attention_dims(node);
  const Dim key_heads = dims[0] * dims[2];
  const std::int64_t rows = dims[1].constant() / dims[2].constant() * dims[3].constant();  // that share keys
  const std::int64_t most = node.fixed.has_mask || rows > few_rows ? fewer_key_heads : few_key_heads;
  return rows <= 2 * few_rows && (!key_heads.is_constant() || key_heads.constant() <= most);
}

std::optional<AttentionNode> split_attention_node(const Node& node, Device device) {
  std::optional<AttentionNode> call = attention_node(node);
  if (!call || call->fixed.is_backward || call->dropout > 0 || node.attributes().as<AttentionCall>().has_mods())
    return {};
  const auto& fixed = call->fixed;
  const DType mask = fixed.mask_dtype;
  if (fixed.has_mask && mask != DType::f32 && mask != DType::f16 && mask != DType::bf16) return {};
  const std::vector<Dim> dims = attention_dims(*call);
  for (const Dim dim : {dims[1], dims[2], dims[3]})  // heads, key heads, queries
    if (!dim.is_constant() || dim.constant() == 0) return {};
  if (dims[3].constant() > most_queries || dims[1].constant() % dims[2].constant() != 0) return {};
  if (!codegen::fits_cuda_attention(fixed.features, fixed.value_features)) return {};
  // All that a package is made for have what the kernels want.
  if (!current_device_target() && !runtime::cuda::attends_on_hopper(device, fixed.features, fixed.value_features))
    return {};
  return call;
}

runtime::cuda::StoredSplitAttention stored(const AttentionNode& node, const PlacedAttention& placed) {
  const auto& fixed = node.fixed;
  return runtime::cuda::StoredSplitAttention({.dtype = fixed.dtype,
                                              .mask_dtype = fixed.mask_dtype,
                                              .is_causal = fixed.is_causal,
                                              .has_mask = fixed.has_mask,
                                              .scale = fixed.scale,
                                              .features = fixed.features,
                                              .value_features = fixed.value_features,
                                              .dims = placed.dims,
                                              .offsets = placed.offsets,
                                              .cost = {placed.cost.bytes, placed.cost.operations}});
}

class SplitPayload final : public StoredPayload<runtime::cuda::StoredSplitAttention> {
 public:
  SplitPayload(const AttentionNode& node, const PlacedAttention& placed)
      : StoredPayload(stored(node, placed)), placed_(placed), text_(attention_text(node)) {}
  std::string details() const override { return text_; }
  std::vector<bool> writes(std::size_t buffers) const override { return placed_.writes(buffers); }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const auto& what = stored_.what;
    return attention_entry(
        codegen::cuda_split_attention({what.dtype, what.features, what.value_features,
                                       what.has_mask ? std::optional(what.mask_dtype) : std::nullopt}),
        sources);
  }

 private:
  PlacedAttention placed_;
  std::string text_;
};

class SplitProvider final : public Provider {
 public:
  bool attends(Device device) const override { return device.type == Device::Type::cuda; }
  bool takes(const Node& node, Device device) const override {
    return device.type == Device::Type::cuda && options().own_kernels != 0 &&
           split_attention_node(node, device).has_value();
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    return reads_attention_operand(shape, strides);
  }
  int alignment() const override { return attention_alignment; }
  bool writes_in_any_order() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const std::optional<AttentionNode> node = split_attention_node(candidate.node, candidate.device);
    if (!node) return {};
    // A better offer than the other kernels' where it is faster, and a worse one where it is not.
    const std::int64_t rate = is_faster(*node) ? 2 * attention_rate : attention_rate * 2 / 3;
    const PlacedAttention placed(*node, candidate);
    return Offer{placed.cost.operations / Dim(rate), std::make_shared<SplitPayload>(*node, placed)};
  }
};

}  // namespace

const Provider& split_attention() {
  static constinit const SplitProvider provider;
  return provider;
}

}  // namespace weft::providers
