// Attention of few queries on a device, as a decoder has it for each token: by our own kernels, whose blocks share the
// keys (weft/detail/cuda_attention_split.inc). Of f16 and bf16, whole, with a floating mask or causal. Lengths may be
// symbols but for that of the queries. Their keys may lie in pages, as nn::PagedKeyValueCache has them.
#include "runtime/cuda/split_attention.hpp"

#include "base/device_target.hpp"
#include "base/options.hpp"
#include "ir/attention_mods.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "providers/attention.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
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

// A call that reads pages: query, pages of keys and of values, the table and the positions, which count as captured.
struct PagedNode {
  AttentionNode call;  // of keys and values as they would be without pages: [texts, key_heads, keys, features]
  runtime::cuda::KeyPages pages;
};
std::optional<PagedNode> paged_attention_node(const Node& node) {
  if (node.op != Op::call || node.definition || &node.attributes().type() != &attribute_type<AttentionCall> ||
      std::string_view(name_of(node)) != "paged_attention" || node.operand_count != 5 || node.output_count != 2)
    return {};
  const auto& called = node.attributes().as<AttentionCall>();
  if (called.has_mods() || called.is_causal || called.dropout > 0) return {};
  PagedNode made;
  std::vector<Type>& types = made.call.types;
  for (const Tensor& operand : node.inputs()) types.push_back(type_of(operand));
  types.push_back(node.type);
  for (const Type& type : node.more_types()) types.push_back(type);
  const auto is = [](const Type& type, DType dtype, const Shape& shape) {
    bool same = type.dtype == dtype && type.shape.rank() == shape.rank();
    for (int i = 0; same && i < shape.rank(); ++i) same = type.shape[i] == shape[i];
    return same;
  };
  const Shape query = types[0].shape, pages = types[1].shape, values = types[2].shape, table = types[3].shape;
  const DType dtype = types[0].dtype;
  if (!attention_may_be_whole(types[0]) || query.rank() != 4 || pages.rank() != 4 || values.rank() != 4 ||
      table.rank() != 2)
    return {};
  const Dim texts = query[0], heads = query[1], tokens = query[2], key_heads = pages[1], size = pages[2];
  if (!is(types[1], dtype, Shape::of(pages[0], key_heads, size, query[3])) ||
      !is(types[2], dtype, Shape::of(pages[0], key_heads, size, values[3])) ||
      !is(types[3], DType::i64, Shape::of(texts, table[1])) || !is(types[4], DType::i64, Shape::of(texts)) ||
      !is(types[5], dtype, Shape::of(texts, heads, tokens, values[3])) ||
      !is(types[6], DType::f32, Shape::of(texts, heads, tokens)))
    return {};
  for (const Dim dim : {heads, key_heads, tokens, size, pages[0], query[3], values[3]})
    if (!dim.is_constant() || dim.constant() < 1) return {};
  if (heads.constant() % key_heads.constant() != 0 || tokens.constant() > most_queries ||
      size.constant() % runtime::cuda::SplitAttentionTile::keys_of_warp != 0 ||
      !codegen::fits_cuda_attention(query[3].constant(), values[3].constant()))
    return {};
  runtime::cuda::AttentionSizes& fixed = made.call.fixed;
  fixed.dtype = dtype, fixed.scale = static_cast<float>(called.scale);
  fixed.features = query[3].constant(), fixed.value_features = values[3].constant();
  made.call.captured = 2;
  types[1].shape = Shape::of(texts, key_heads, table[1] * size, query[3]);
  types[2].shape = Shape::of(texts, key_heads, table[1] * size, values[3]);
  made.pages = {size.constant(), pages[0], table[1]};
  return made;
}

runtime::cuda::StoredSplitAttention stored(const AttentionNode& node, const PlacedAttention& placed,
                                           const runtime::cuda::KeyPages& pages = {}) {
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
                                              .page_size = pages.size,
                                              .pages = pages.count,
                                              .pages_of_text = pages.of_text,
                                              .cost = {placed.cost.bytes, placed.cost.operations}});
}

class SplitPayload final : public StoredPayload<runtime::cuda::StoredSplitAttention> {
 public:
  SplitPayload(const AttentionNode& node, const PlacedAttention& placed, const runtime::cuda::KeyPages& pages = {})
      : StoredPayload(stored(node, placed, pages)), placed_(placed), text_(attention_text(node)) {
    if (pages.size > 0) text_ += concat_text(" in pages of ", pages.size);
  }
  std::string details() const override { return text_; }
  std::vector<bool> writes(std::size_t buffers) const override { return placed_.writes(buffers); }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const auto& what = stored_.what;
    return attention_entry(codegen::cuda_split_attention({what.dtype, what.features, what.value_features,
                                                          what.has_mask ? std::optional(what.mask_dtype) : std::nullopt,
                                                          what.page_size > 0}),
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

// Its kernels are right on every device that Weft takes: without them all pages of a text are put in a row first.
class PagedProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    return device.type == Device::Type::cuda && options().own_kernels != 0 && paged_attention_node(node).has_value();
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  int alignment() const override { return attention_alignment; }
  bool writes_in_any_order() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const std::optional<PagedNode> node = paged_attention_node(candidate.node);
    if (!node) return {};
    const PlacedAttention placed(node->call, candidate);
    return Offer{placed.cost.operations / Dim(attention_rate),
                 std::make_shared<SplitPayload>(node->call, placed, node->pages)};
  }
};

}  // namespace

const Provider& split_attention() {
  static constinit const SplitProvider provider;
  return provider;
}
const Provider& paged_attention() {
  static constinit const PagedProvider provider;
  return provider;
}

}  // namespace weft::providers
