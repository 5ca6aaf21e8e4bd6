#include "ir/callee.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/fail.hpp"
#include "ir/graph_copy.hpp"
#include "ir/offload_mark.hpp"
#include "ir/remade.hpp"

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

namespace {

// Numbers of recomputations where calls give way to their bodies. One inside of a call that is a recomputation itself
// gets a number that depends on both, so that it is the same in every graph, and that nothing else has in this one.
class NestedRecomputations {
 public:
  void reserve(const Graph& graph) {
    for (const Tensor& value : graph.nodes)
      if (const std::uint32_t number = value.node()->recomputation) owners_.try_emplace(number, 0, number);
  }
  std::uint32_t number(std::uint32_t call, std::uint32_t inside) {
    if (call == 0 || inside == 0) return call | inside;
    const std::pair owner(call, inside);
    for (std::uint32_t number = inside * 0x9e3779b1u + call;; ++number)
      if (number != 0 && owners_.try_emplace(number, owner).first->second == owner) return number;
  }

 private:
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> owners_;  // of a number: 0 and itself
};

std::vector<Tensor> apply(const Graph& body, std::span<const Tensor> arguments, const Place& place,
                          const std::function<bool(const Node&)>& inlines, std::vector<Tensor>& effects,
                          NestedRecomputations& recomputations) {
  WEFT_CHECK(body.inputs.size() == arguments.size(), "a call without a fitting body");
  const auto copy = [&](const Node& node, std::span<const Tensor> operands) -> std::vector<Tensor> {
    if (node.op == Op::input) return {arguments[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
    if (node.op == Op::call && inlines(node)) {
      Place inside = place;
      inside.recomputation = recomputations.number(place.recomputation, node.recomputation);
      return apply(*node.bodies()[0], operands, inside, inlines, effects, recomputations);
    }
    const Tensor value = Builder::copy(node, operands);
    Node& made = *value.node();
    if (!made.loc.file || made.op == Op::data) {  // of a body that all calls of a signature share
      made.loc = place.loc;
      made.scope = place.scope;
    }
    made.trace = place.trace;
    made.region |= region_of(made) ? place.region & offload_mark : place.region;
    made.recomputation = recomputations.number(place.recomputation, made.recomputation);
    if (is_effect(node)) effects.push_back(value);
    return results_of(value);
  };
  return GraphCopy(body, copy).of(body.outputs);
}

}  // namespace

std::vector<Tensor> apply_body(const Graph& body, std::span<const Tensor> arguments, const Place& place,
                               const std::function<bool(const Node&)>& inlines, std::vector<Tensor>& effects) {
  NestedRecomputations recomputations;
  return apply(body, arguments, place, inlines, effects, recomputations);
}

Graph with_calls_inlined(const Graph& graph, const std::function<bool(const Node&)>& inlines) {
  bool any = false;
  for (const Tensor& value : graph.nodes) any |= inlines(*value.node());
  if (!any) return graph;
  NestedRecomputations recomputations;
  recomputations.reserve(graph);
  return rewrite(graph, [&](const Node& node, std::span<const Tensor> operands) {
    Rewritten body;
    if (!inlines(node)) return body;
    WEFT_CHECK(node.bodies().size() == 1, "call without a fitting body");
    const Place place{node.loc, node.scope, node.trace, node.recomputation, node.region};
    body.results = apply(*node.bodies()[0], operands, place, inlines, body.effects, recomputations);
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
  return remade(graph, std::move(inputs), copies.of(graph.outputs), std::move(effects));
}

Tensor copy_with_sizes(const Node& node, std::span<const Tensor> operands, std::span<const std::int64_t> symbols) {
  const auto number = [&](Dim dim) { return dim.is_constant() ? dim : Dim(dims::evaluate(dim, symbols)); };
  const auto set_sizes = [&](Type& type) {
    for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape[axis] = number(type.shape[axis]);
  };
  const Tensor copy = Builder::copy(node, operands);
  Node& made = *copy.node();
  set_sizes(made.type);
  made.attributes_ = made.attributes().with_sizes(number);
  if (!made.more) return copy;
  std::ranges::for_each(made.more->types, set_sizes);
  made.more->callee = nullptr;
  made.more->extends = nullptr;
  for (std::shared_ptr<const Graph>& body : made.more->bodies) {
    std::vector<Tensor> inputs(body->inputs.size()), effects;
    const GraphCopy copies(*body, [&](const Node& inner, std::span<const Tensor> given) {
      const Tensor value = copy_with_sizes(inner, given, symbols);
      if (inner.op == Op::input) inputs[static_cast<std::size_t>(inner.attributes<Parameter>().slot)] = value;
      if (is_effect(inner)) effects.push_back(value);
      return results_of(value);
    });
    body = std::make_shared<const Graph>(make_graph(std::move(inputs), copies.of(body->outputs), std::move(effects)));
  }
  return copy;
}

}  // namespace weft
