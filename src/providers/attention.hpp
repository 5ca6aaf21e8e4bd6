// Calls of attention and of its gradients, as those see them who do one whole on a device. In: a node. Out: its sizes
// and values in the order of runtime::cuda::Attended.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda_attention.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/attention.hpp"

namespace weft::providers {

constexpr std::int64_t attention_alignment = 8;  // elements: 16 bytes of 16-bit floats
// Operations over this are the rank of an offer for a call.
constexpr std::int64_t attention_rate = 300000;

struct AttentionNode {
  runtime::cuda::AttentionSizes fixed;  // what is no size of an axis, but for features
  std::vector<Type> types;              // of operands, then results
  double dropout = 0;                   // its probability
  std::size_t captured =
      0;  // operands that its mods read, after query, key and value, and seed and offset of its dropout
};
// Of f16 and bf16, features known and multiples of 8, four axes at most. Nothing where it is another call.
std::optional<AttentionNode> attention_node(const Node& node);
// Batch, heads, key heads, queries and keys.
std::vector<Dim> attention_dims(const AttentionNode& node);
// Of gradients on Hopper: whether our nest is expected to be faster than cuDNN's kernel. Sizes that are not known count
// as large.
bool has_faster_nest(const AttentionNode& node);
// Of a forward call on Hopper: whether it is so short that our kernel is expected to be faster than cuDNN's.
bool is_short_attention(const AttentionNode& node);
// The strides of four axes: [batch, heads, rows, features], or [batch, heads, rows, 1] of stats.
void add_attention_strides(std::vector<Dim>& to, const Type& type, std::vector<Dim> strides, bool is_stats);
// Where an operand's rows may be read from: features side by side, all else at multiples of 16 bytes.
bool reads_attention_operand(const Shape& shape, std::span<const Dim> strides);

// " bf16[2,8,64,64] to [2,8,64,64], causal"
std::string attention_text(const AttentionNode& node);
// Of our own kernels: their sources, and how each is queued.
runtime::EntryPoint attention_entry(std::span<const codegen::CudaAttentionKernel> kernels, Sources& sources);

// What a payload knows of the call's memory.
struct PlacedAttention {
  PlacedAttention(const AttentionNode& node, const Candidate& candidate);
  std::vector<Dim> dims, offsets;  // as runtime::cuda::DeviceAttention takes them; offsets of captured values too
  loop::Cost cost;
  std::size_t results;
  std::vector<bool> writes(std::size_t buffers) const;
};

}  // namespace weft::providers
