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

bool is_whole(const Node& node) {
  const Device device = node.type.device;
  return device.type == Device::Type::cuda && node.op == Op::call && providers::all().takes(node, device);
}
bool is_on_device(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Tensor& value) {
    return value.node()->op == Op::matmul && value.node()->type.device.type == Device::Type::cuda;
  });
}

}  // namespace

Graph fuse_attention_by_hand(const Graph& graph, const PassContext& context) {
  return context.device.type == Device::Type::cuda ? fuse_attention_where(graph, is_whole) : graph;
}

Graph before_derivatives(Graph graph) {
  return is_left_out() || !is_on_device(graph) ? graph : fuse_attention_where(graph, is_whole);
}

Tensor attention_to_differentiate(const Node& product, const std::function<bool(const Node&)>& has_one_reader) {
  if (product.op != Op::matmul || product.type.device.type != Device::Type::cuda || is_left_out()) return {};
  const std::optional<AttentionByHand> found = find_attention(product);
  if (!found || !is_read_once(*found, has_one_reader)) return {};
  const Tensor made = attention_of(*found);
  return is_whole(*made.node()) && type_of(made).same(product.type) ? made : Tensor();
}

bool is_done_whole(const Node& call) { return is_whole(call); }

}  // namespace weft
