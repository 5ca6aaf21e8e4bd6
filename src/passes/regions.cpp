#include "passes/regions.hpp"

#include "base/fail.hpp"
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

// What stays behind the inlining of a graph's own calls: those inside of its loops.
static Graph in_loops(const Graph& graph, const PassContext& context) { return in_bodies(graph, inline_calls, context); }

Graph inline_calls(const Graph& graph, const PassContext& context) {
  const std::function<bool(const Node&)> inlines = [&](const Node& node) {
    return node.op == Op::call && !context.provides(node);
  };
  bool any = false;
  for (const Tensor& value : graph.nodes) any |= inlines(*value.node());
  if (!any) return in_loops(graph, context);
  // Value by value, since a call may have several results. The effects of a call stand where the call did.
  std::vector<std::vector<Tensor>> mapped(graph.nodes.size());
  std::vector<Tensor> operands, outputs, effects;
  auto map = [&](const Tensor& value) { return mapped[value.node()->index][value.output()]; };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    operands.clear();
    for (const Tensor& operand : node.inputs()) operands.push_back(map(operand));
    if (inlines(node)) {
      WEFT_CHECK(node.bodies().size() == 1, "call without a fitting body");
      mapped[i] = apply_body(*node.bodies()[0], operands, {node.loc, node.scope, node.trace, node.recomputation},
                             inlines, effects);
      continue;
    }
    const Tensor value = node.operand_count == 0 ? graph.nodes[i] : Builder::copy(node, operands);
    for (unsigned output = 0; output < node.output_count; ++output) mapped[i].emplace_back(value.node(), output);
    if (is_effect(node)) effects.push_back(value);
  }
  for (const Tensor& output : graph.outputs) outputs.push_back(map(output));
  Graph result = make_graph(graph.inputs, std::move(outputs), std::move(effects));
  result.symbols = graph.symbols;
  result.conditions = graph.conditions;
  return in_loops(result, context);
}

}  // namespace weft
