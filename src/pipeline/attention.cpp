#include "pipeline/attention.hpp"

#include <algorithm>

#include "autograd/attention.hpp"
#include "base/options.hpp"
#include "fusions/attention.hpp"
#include "pipeline.hpp"
#include "providers/provider.hpp"

namespace weft {
namespace {

bool is_left_out() { return std::ranges::count(options().skip_passes, "fuse_attention") > 0; }

bool is_whole(const Node& node) { return node.op == Op::call && providers::all().takes(node, node.type.device); }
// Whether its weights and values may be those of attention that somebody does whole.
bool may_end_attention(const Node& product) {
  return product.op == Op::matmul && providers::all().attends(product.type.device);
}

}  // namespace

Graph fuse_attention_by_hand(const Graph& graph, const PassContext& context) {
  return providers::all().attends(context.device) ? fuse_attention_where(graph, is_whole) : graph;
}

Graph before_derivatives(Graph graph) {
  const auto may_end = [](const Tensor& value) { return may_end_attention(*value.node()); };
  return is_left_out() || std::ranges::none_of(graph.nodes, may_end) ? graph : fuse_attention_where(graph, is_whole);
}

Tensor attention_to_differentiate(const Node& product, const std::function<bool(const Node&)>& has_one_reader) {
  if (!may_end_attention(product) || is_left_out()) return {};
  const std::optional<AttentionByHand> found = find_attention(product);
  if (!found || !is_read_once(*found, has_one_reader)) return {};
  const Tensor made = attention_of(*found);
  return is_whole(*made.node()) && type_of(made).same(product.type) ? made : Tensor();
}

bool is_done_whole(const Node& call) { return is_whole(call); }

}  // namespace weft
