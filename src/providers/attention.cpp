#include "providers/attention.hpp"

#include <algorithm>
#include <string_view>

#include "base/device_target.hpp"
#include "base/fail.hpp"
#include "base/options.hpp"
#include "ir/attention_mods.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "schedule/layout.hpp"

namespace weft::providers {

using runtime::cuda::Attended;
using runtime::cuda::attended_values;
using runtime::cuda::AttentionSizes;

namespace {

// Whether the types are those of attention. The kernels read by them, and a graph that was imported may have given the
// name to something else. `types`: operands, then results.
bool have_shapes_of_attention(const AttentionNode& node, std::size_t operands) {
  const std::vector<Type>& types = node.types;
  const bool backward = node.fixed.is_backward;
  const Shape &query = types[0].shape, &key = types[1].shape, &value = types[2].shape;
  const int rank = query.rank();
  const auto same = [](const Shape& a, const Shape& b, int axes) {
    bool equal = a.rank() >= axes && b.rank() >= axes;
    for (int i = 0; equal && i < axes; ++i) equal = a[i] == b[i];
    return equal;
  };
  const auto is = [&](const Type& type, const Shape& shape) {
    return type.dtype == node.fixed.dtype && type.shape.rank() == shape.rank() && same(type.shape, shape, rank);
  };
  if (!same(query, key, rank - 3) || !same(key, value, rank - 1) || !(key[rank - 1] == query[rank - 1])) return false;
  Shape output = query;
  output[rank - 1] = value[rank - 1];
  const auto are_stats = [&](const Type& type) {
    return type.dtype == DType::f32 && type.shape.rank() == rank - 1 && same(type.shape, query, rank - 1);
  };
  const Type* const results = types.data() + operands;
  if (!backward) return is(results[0], output) && are_stats(results[1]);
  const Type* const last = results - 3;  // output, stats, gradient
  return is(last[0], output) && are_stats(last[1]) && is(last[2], output) && is(results[0], query) &&
         is(results[1], key) && is(results[2], value);
}

}  // namespace

std::optional<AttentionNode> attention_node(const Node& node) {
  if (node.op != Op::call || node.definition || &node.attributes().type() != &attribute_type<AttentionCall>) return {};
  const std::string_view name = name_of(node);
  AttentionNode made;
  AttentionSizes& fixed = made.fixed;
  fixed.is_backward = name == "scaled_dot_product_attention_backward";
  if (!fixed.is_backward && name != "scaled_dot_product_attention") return {};
  const auto& called = node.attributes().as<AttentionCall>();
  const std::size_t operands = fixed.is_backward ? 6 : 3, results = fixed.is_backward ? 3 : 2;
  if (node.operand_count < operands || node.output_count != results) return {};
  made.dropout = called.dropout;
  const std::size_t draws = made.dropout > 0 ? 2 : 0;  // seed and offset
  if (node.operand_count < operands + draws) return {};
  const std::size_t more = node.operand_count - operands - draws;
  made.captured = (called.has_mods() ? more : 0) + draws;
  if (!called.has_mods() && more > 1) return {};
  fixed.has_mask = !called.has_mods() && more == 1;
  fixed.scale = static_cast<float>(called.scale);
  fixed.is_causal = called.is_causal;
  if (fixed.has_mask && fixed.is_causal) return {};  // no kernel has both
  fixed.is_deterministic = !options().unordered_sums;
  for (const Tensor& operand : node.inputs()) made.types.push_back(type_of(operand));
  made.types.push_back(node.type);
  for (const Type& type : node.more_types()) made.types.push_back(type);
  const Type &query = made.types[0], &key = made.types[1], &value = made.types[2];
  const int rank = query.shape.rank();
  fixed.dtype = query.dtype;
  if (!attention_may_be_whole(query) || rank < 2 || rank > 4) return {};
  if (fixed.has_mask) fixed.mask_dtype = made.types[3].dtype;
  for (const Type& type : {key, value})
    if (type.shape.rank() != rank || type.dtype != fixed.dtype) return {};
  if (!have_shapes_of_attention(made, node.operand_count)) return {};
  for (std::size_t i = 0; i < draws; ++i)
    if (const Type& word = made.types[3 + more + i]; word.dtype != DType::i64 || word.shape.rank() != 0) return {};
  const Dim features[] = {query.shape[rank - 1], value.shape[rank - 1]};
  for (const Dim each : features)
    if (!each.is_constant() || each.constant() == 0 || each.constant() % attention_alignment != 0) return {};
  fixed.features = features[0].constant(), fixed.value_features = features[1].constant();
  return made;
}

std::vector<Dim> attention_dims(const AttentionNode& node) {
  const Shape &query = node.types[0].shape, &key = node.types[1].shape;
  const int rank = query.rank();
  return {rank > 3 ? query[0] : Dim(1), rank > 2 ? query[rank - 3] : Dim(1), rank > 2 ? key[rank - 3] : Dim(1),
          query[rank - 2], key[rank - 2]};
}

// By 89 sizes on an H200 (docs/performance_gpu_subjects.md, Gradients of attention). Our blocks own tiles of keys: few
// of them do not fill the device, and heads that share keys make each longer. Causal calls gain most. Where sums have
// an order cuDNN has the scores' gradient in memory, which costs calls of 64 features most.
bool has_faster_nest(const AttentionNode& node) {
  constexpr std::int64_t tile_of_keys = 128, enough_tiles = 2 * device_layout::multiprocessors;
  constexpr std::int64_t enough_pairs = std::int64_t{1} << 17;  // of queries and keys
  const auto may_reach = [](const Dim count, std::int64_t least) {
    return !count.is_constant() || count.constant() >= least;
  };
  const auto& fixed = node.fixed;
  const std::vector<Dim> dims = attention_dims(node);
  const Dim batch = dims[0], heads = dims[1], key_heads = dims[2], queries = dims[3], keys = dims[4];
  const bool is_wide = fixed.features > 64, in_order = fixed.is_deterministic;
  if (is_wide && in_order && !may_reach(queries * keys, enough_pairs)) return false;
  if (may_reach(batch * key_heads * ((keys + Dim(tile_of_keys - 1)) / Dim(tile_of_keys)), enough_tiles))
    return !is_wide || in_order || fixed.is_causal;
  return (!is_wide && in_order) || (fixed.is_causal && heads.same(key_heads));
}

// GPT-2's 12 heads of 64 tokens and 64 features: with cuDNN's kernel a layer takes 33.3 us on an H200, with ours 29.9.
// Ours is launched while the kernel in front of it ends, which counts where each head is one tile.
bool is_short_attention(const AttentionNode& node) {
  constexpr std::int64_t tile = 64;
  const std::vector<Dim> dims = attention_dims(node);
  const auto is_at_most = [](const Dim count, std::int64_t most) {
    return count.is_constant() && count.constant() <= most;
  };
  return node.fixed.features <= tile && is_at_most(dims[3], tile) && is_at_most(dims[4], tile) &&
         is_at_most(dims[0] * dims[1], device_layout::multiprocessors);
}

void add_attention_strides(std::vector<Dim>& to, const Type& type, std::vector<Dim> strides, bool is_stats) {
  if (is_stats) strides.push_back(1);
  const Dim whole = type.shape.element_count();
  strides.insert(strides.begin(), 4 - strides.size(), whole);  // of one element
  to.insert(to.end(), strides.begin(), strides.end());
}

bool reads_attention_operand(const Shape& shape, std::span<const Dim> strides) {
  if (is_row_major(shape, strides)) return true;
  if (!strides.back().same(Dim(1))) return false;
  for (std::size_t axis = 0; axis + 1 < strides.size(); ++axis)
    if (!shape[static_cast<int>(axis)].same(Dim(1)) && !(strides[axis] % Dim(attention_alignment)).same(Dim(0)))
      return false;
  return true;
}

std::string attention_text(const AttentionNode& node) {
  return " " + to_string(node.types[0]) + " to " + to_string(node.types[1].shape) +
         (node.fixed.is_causal ? ", causal" : "") + (node.dropout > 0 ? concat_text(", dropout ", node.dropout) : "");
}

runtime::EntryPoint attention_entry(std::span<const codegen::CudaAttentionKernel> kernels, Sources& sources) {
  runtime::EntryPoint entry;
  for (const codegen::CudaAttentionKernel& kernel : kernels) entry.inner.push_back(sources.add(kernel));
  return entry;
}

PlacedAttention::PlacedAttention(const AttentionNode& node, const Candidate& candidate)
    : dims(attention_dims(node)), results(candidate.results.size()) {
  const Dim pairs = dims[0] * dims[1] * dims[3] * dims[4];
  std::vector<const PlacedValue*> values;
  for (const auto* list : {&candidate.operands, &candidate.results})
    for (const PlacedValue& each : *list) values.push_back(&each);
  Dim bytes = 0;
  std::size_t place = 0;
  const auto next = [&]() -> const PlacedValue& {
    const PlacedValue& at = *values[place++];
    offsets.push_back(at.offset);
    bytes = bytes + storage_bytes(info(at.type.dtype), at.type.shape.element_count());
    return at;
  };
  for (std::size_t i = 0; i < attended_values; ++i) {
    const auto value = static_cast<Attended>(i);
    if (value == Attended::mask)
      for (std::size_t j = 0; j < node.captured; ++j) next();
    if (!node.fixed.has(value)) continue;
    const PlacedValue& at = next();
    add_attention_strides(dims, at.type, at.strides, value == Attended::stats);
  }
  // Products of queries with keys and of weights with values, and of what follows backward.
  const Dim e = node.fixed.features, f = node.fixed.value_features;
  const Dim operations = pairs * (node.fixed.is_backward ? Dim(6) * e + Dim(4) * f : Dim(2) * (e + f));
  cost = {bytes, node.fixed.is_causal ? operations / Dim(2) : operations};
}

std::vector<bool> PlacedAttention::writes(std::size_t buffers) const {
  std::vector<bool> all(buffers, false);
  std::fill(all.end() - static_cast<std::ptrdiff_t>(results), all.end(), true);
  return all;
}

}  // namespace weft::providers
