#include "ir/callee.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "ir/graph_copy.hpp"
#include "ir/offload_mark.hpp"

namespace weft {

InternedText called_name(const Attributes& called) {
  return *static_cast<const InternedText*>(called.type().fields.front().place(called.data()));
}
Attributes with_called_name(Attributes called, std::string_view name) {
  static_cast<InternedText*>(called.place(called.type().fields.front()))->id = intern_text(name);
  return called;
}

const char* name_of(const Node& node) {
  const std::uint32_t composite = node.op == Op::call ? called_name(node.attributes()).id : 0;
  return composite ? interned_text(composite).c_str() : info(node.op).name;
}

void set_callee(Node& node, std::shared_ptr<const Callee> callee) {
  Node::More& more = node.make_more();
  more.bodies.emplace_back(callee, &callee->body);
  more.callee = std::move(callee);
}

std::vector<Tensor> apply_body(const Graph& body, std::span<const Tensor> arguments, const Place& place,
                               const std::function<bool(const Node&)>& inlines, std::vector<Tensor>& effects) {
  WEFT_CHECK(body.inputs.size() == arguments.size(), "a call without a fitting body");
  const auto copy = [&](const Node& node, std::span<const Tensor> operands) -> std::vector<Tensor> {
    if (node.op == Op::input) return {arguments[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
    if (node.op == Op::call && inlines(node)) return apply_body(*node.bodies()[0], operands, place, inlines, effects);
    const Tensor value = Builder::copy(node, operands);
    Node& made = *value.node();
    if (!made.loc.file || made.op == Op::data) {  // of a body that all calls of a signature share
      made.loc = place.loc;
      made.scope = place.scope;
    }
    made.trace = place.trace;
    made.region |= region_of(made) ? place.region & offload_mark : place.region;
    // Inside of a recomputation one of another call is another one.
    if (place.recomputation)
      made.recomputation =
          made.recomputation ? made.recomputation * 0x9e3779b1u + place.recomputation : place.recomputation;
    if (is_effect(node)) effects.push_back(value);
    return results_of(value);
  };
  return GraphCopy(body, copy).of(body.outputs);
}

Graph with_calls_inlined(const Graph& graph, const std::function<bool(const Node&)>& inlines) {
  bool any = false;
  for (const Tensor& value : graph.nodes) any |= inlines(*value.node());
  if (!any) return graph;
  return rewrite(graph, [&](const Node& node, std::span<const Tensor> operands) {
    Rewritten body;
    if (!inlines(node)) return body;
    WEFT_CHECK(node.bodies().size() == 1, "call without a fitting body");
    const Place place{node.loc, node.scope, node.trace, node.recomputation, node.region};
    body.results = apply_body(*node.bodies()[0], operands, place, inlines, body.effects);
    return body;
  });
}

Graph copy_graph(const Graph& graph) {
  std::vector<Tensor> inputs(graph.inputs.size()), effects;
  const GraphCopy copies(graph, [&](const Node& node, std::span<const Tensor> operands) {
    const Tensor value = Builder::copy(node, operands);
    if (node.op == Op::input) inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)] = value;
    if (is_effect(node)) effects.push_back(value);
    return results_of(value);
  });
  Graph copy = make_graph(std::move(inputs), copies.of(graph.outputs), std::move(effects));
  copy.symbols = graph.symbols;
  copy.conditions = graph.conditions;
  return copy;
}

}  // namespace weft
