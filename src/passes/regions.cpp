#include "passes/regions.hpp"

#include "ir/builder.hpp"
#include "ir/callee.hpp"

namespace weft {

Graph in_bodies(const Graph& graph, const std::function<Graph(const Graph&)>& pass) {
  bool any = false;
  for (const Tensor& value : graph.nodes) any |= !value.node()->bodies().empty();
  if (!any) return graph;
  return rewrite(graph, [&pass](const Node& node, std::span<const Tensor> operands) {
    if (node.bodies().empty()) return Tensor();
    Tensor copy = Builder::copy(node, operands);
    copy.node()->more->callee = {};
    copy.node()->more->extends = {};
    for (auto& body : copy.node()->more->bodies) body = std::make_shared<const Graph>(pass(copy_graph(*body)));
    return copy;
  });
}

Graph in_bodies(const Graph& graph, Pass pass, const PassContext& context) {
  return in_bodies(graph, [&](const Graph& body) { return pass(body, context); });
}

Graph inline_calls(const Graph& graph, const PassContext& context) {
  const std::function<bool(const Node&)> inlines = [&](const Node& node) {
    return node.op == Op::call && !context.provides(node);
  };
  return in_bodies(with_calls_inlined(graph, inlines), inline_calls, context);
}

}  // namespace weft
