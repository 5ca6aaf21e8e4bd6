#include "passes/regions.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/seeded_bug.hpp"
#include "ir/builder.hpp"

namespace weft {

Graph in_bodies(const Graph& graph, const std::function<Graph(const Graph&)>& pass) {
  bool any = false;
  for (const Tensor& value : graph.nodes) any |= !value.node()->bodies().empty();
  if (!any) return graph;
  return rewrite(graph, [&pass](const Node& node, std::span<const Tensor> operands) {
    if (node.bodies().empty()) return Tensor();
    Tensor copy = Builder::copy(node, operands);
    for (auto& body : copy.node()->more->bodies) body = std::make_shared<const Graph>(pass(*body));
    return copy;
  });
}

namespace {

// Value by value, since a call may have several results.
class Inliner {
 public:
  // Copies `graph` with `arguments` in the place of its inputs (its own inputs when there are none). The effects of a
  // call stand where the call did.
  std::vector<Tensor> copy(const Graph& graph, std::span<const Tensor> arguments) {
    std::vector<std::vector<Tensor>> mapped(graph.nodes.size());
    auto map = [&](const Tensor& value) { return mapped[value.node()->index][value.output()]; };
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = *graph.nodes[i].node();
      std::vector<Tensor> operands;
      for (const Tensor& operand : node.inputs()) operands.push_back(map(operand));
      if (node.op == Op::input && !arguments.empty()) {
        mapped[i] = {arguments[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
      } else if (node.op == Op::call) {
        WEFT_CHECK(node.bodies().size() == 1 && node.bodies()[0]->inputs.size() == operands.size(),
                   "call without a fitting body");
        mapped[i] = copy(*node.bodies()[0], operands);
        if (seeded(SeededBug::results_of_body_reversed)) std::reverse(mapped[i].begin(), mapped[i].end());
      } else {
        Tensor value = node.operand_count == 0 && arguments.empty() ? graph.nodes[i] : Builder::copy(node, operands);
        for (unsigned output = 0; output < node.output_count; ++output) mapped[i].emplace_back(value.node(), output);
        if (is_effect(node)) effects.push_back(value);
      }
    }
    std::vector<Tensor> outputs;
    for (const Tensor& output : graph.outputs) outputs.push_back(map(output));
    return outputs;
  }

  std::vector<Tensor> effects;
};

}  // namespace

Graph inline_calls(const Graph& graph) {
  bool any = false;
  for (const Tensor& value : graph.nodes) any |= value.node()->op == Op::call;
  if (!any) return graph;
  Inliner inliner;
  std::vector<Tensor> outputs = inliner.copy(graph, {});
  Graph result = make_graph(graph.inputs, std::move(outputs), std::move(inliner.effects));
  result.symbols = graph.symbols;
  result.conditions = graph.conditions;
  return result;
}

}  // namespace weft
