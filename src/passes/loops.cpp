#include "passes/loops.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/any_node.hpp"
#include "ir/callee.hpp"
#include "ir/graph_copy.hpp"
#include "ir/host_function.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

bool any_loop(const Graph& graph) {
  return any_node(graph, [](const Node& node) { return is_loop(node.op); });
}

bool same_call(const Node& a, const Node& b) {
  return a.attributes() == b.attributes() &&
         std::ranges::equal(a.inputs(), b.inputs(), [](const Tensor& x, const Tensor& y) { return x.same(y); });
}

// The longer body with the effects of the first: the program's code is called by the first alone. What both compute is
// merged later.
Graph with_effects_of(const Graph& first, const Graph& longer) {
  std::vector<Tensor> inputs, effects;
  for (const Tensor& input : longer.inputs)
    inputs.push_back(Builder(*input.node()).input(inputs.size(), type_of(input)));
  const auto outputs_of = [&](const Graph& body) {
    effects.clear();
    const GraphCopy copies(body, [&](const Node& node, std::span<const Tensor> operands) {
      const bool is_input = node.op == Op::input;
      const Tensor made = is_input ? inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)]
                                   : Builder::copy(node, operands);
      if (is_effect(node)) effects.push_back(made);
      return results_of(made);
    });
    return copies.of(body.outputs);
  };
  std::vector<Tensor> outputs = outputs_of(longer);
  outputs_of(first);
  Graph made = make_graph(std::move(inputs), std::move(outputs), std::move(effects));
  made.symbols = longer.symbols;
  made.conditions = longer.conditions;
  return made;
}

}  // namespace

Graph merge_loops(const Graph& graph, const PassContext& context) {
  if (!any_loop(graph)) return graph;
  std::unordered_map<const Graph*, const Node*> longer;  // by the body that it extends: the first
  for (const Tensor& value : graph.nodes)
    if (const Node& node = *value.node(); node.more && node.more->extends)
      longer.try_emplace(node.more->extends.get(), &node);
  std::unordered_map<const Node*, Tensor> made;
  return rewrite(graph, [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
    const bool inside = std::ranges::any_of(node.bodies(), [](const auto& body) { return any_loop(*body); });
    if (!is_loop(node.op) && !inside) return {};
    const Node* last = &node;
    for (auto next = longer.find(node.bodies()[0].get());
         next != longer.end() && same_call(*next->second, node) && next->second != last;
         next = longer.find(last->bodies()[0].get()))
      last = next->second;
    const auto first_results = [&](const Tensor& value) {
      std::vector<Tensor> results = results_of(value);
      results.resize(node.output_count);
      return results;
    };
    if (const auto found = made.find(last); found != made.end()) return first_results(found->second);
    const Tensor value = Builder::copy(*last, operands);
    value.node()->loc = node.loc;
    value.node()->more->extends = {};
    if (inside) value.node()->more->callee = {};
    if (last != &node && calls_host(*node.bodies()[0])) {
      auto& body = value.node()->more->bodies[0];
      body = std::make_shared<const Graph>(with_effects_of(*node.bodies()[0], *body));
    }
    for (auto& body : value.node()->more->bodies)  // a copy: rewriting numbers the nodes that stay, which others share
      if (any_loop(*body)) body = std::make_shared<const Graph>(merge_loops(copy_graph(*body), context));
    made.emplace(last, value);
    return first_results(value);
  });
}

// ---- pruning --------------------------------------------------------------------------------------------------------

namespace {

// By node of a body: whether these outputs, or an effect, need it.
std::vector<bool> needed_by(const Graph& body, const std::vector<bool>& outputs) {
  std::vector<bool> needed(body.nodes.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) needed[body.number(body.outputs[i])] = true;
  for (const Tensor& effect : body.effects) needed[body.number(effect)] = true;
  for (std::size_t i = body.nodes.size(); i-- > 0;)
    if (needed[i])
      for (const Tensor& operand : body.nodes[i].node()->inputs()) needed[body.number(operand)] = true;
  return needed;
}

struct Pruning {
  std::vector<std::size_t> operands;  // that stay, in their new order
  std::vector<bool> results;          // that stay
  std::vector<bool> handed_on;        // by carry: a capture from here on, which is its own result
  std::size_t carries = 0, scanned = 0;
};

Pruning prune(const Node& node, std::vector<bool> read) {
  const bool scan = node.op == Op::scan;
  const std::size_t before = scan ? 0 : 1;  // operands that the bodies do not take
  const auto carries = scan ? static_cast<std::size_t>(node.attributes<Scan>().carries) : 0;
  const auto scanned = scan ? static_cast<std::size_t>(node.attributes<Scan>().scanned) : 0;
  Pruning result;
  result.handed_on.resize(carries);
  std::vector<bool> inputs(node.operand_count - before);
  for (std::size_t k = 0; k < carries; ++k)
    result.handed_on[k] = node.bodies()[0]->outputs[k].same(node.bodies()[0]->inputs[k]);
  if (std::ranges::none_of(read, [](bool each) { return each; }) && is_effect(node)) read[0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& body : node.bodies()) {
      const std::vector<bool> needed = needed_by(*body, read);
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs[i] || needed[body->number(body->inputs[i])];
    }
    for (std::size_t k = 0; k < carries; ++k)
      if (inputs[k] && !read[k]) changed = read[k] = true;
  }
  // At least one result stays.
  std::size_t left = 0;
  for (std::size_t i = 0; i < read.size(); ++i) left += read[i] && !(i < carries && result.handed_on[i]);
  if (left == 0) std::fill(result.handed_on.begin(), result.handed_on.end(), false);
  result.results = read;
  for (std::size_t k = 0; k < carries; ++k)
    if (result.handed_on[k]) result.results[k] = false;
  if (before) result.operands.push_back(0);
  for (std::size_t i = 0; i < carries; ++i)
    if (result.results[i]) result.operands.push_back(i), ++result.carries;
  for (std::size_t i = carries; i < carries + scanned; ++i)
    if (inputs[i]) result.operands.push_back(i), ++result.scanned;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool capture = i >= carries + scanned || (i < carries && result.handed_on[i]);
    if (capture && inputs[i]) result.operands.push_back(i + before);
  }
  return result;
}

}  // namespace

Graph prune_loops(const Graph& given, const PassContext& context) {
  if (!any_loop(given)) return given;
  const Graph graph = in_bodies(given, prune_loops, context);
  std::unordered_map<const Node*, std::vector<bool>> read;
  const auto note = [&](const Tensor& value) {
    std::vector<bool>& results = read[value.node()];
    results.resize(value.node()->output_count);
    results[value.output()] = true;
  };
  for (const Tensor& output : graph.outputs) note(output);
  for (const Tensor& value : graph.nodes)
    for (const Tensor& operand : value.node()->inputs()) note(operand);
  return rewrite(graph, [&](const Node& node, std::span<const Tensor> operands) {
    Rewritten made;  // a result that nobody reads is undefined
    if (node.op != Op::scan && node.op != Op::cond) return made;
    std::vector<bool>& used = read[&node];
    used.resize(node.output_count);
    const Pruning kept = prune(node, used);
    const std::size_t before = node.op == Op::cond ? 1 : 0;
    const bool same_results = std::ranges::all_of(kept.results, [](bool each) { return each; });
    if (same_results && kept.operands.size() == node.operand_count) return made;
    std::vector<Tensor> kept_operands;
    std::vector<std::uint32_t> inputs;
    for (const std::size_t i : kept.operands) {
      kept_operands.push_back(operands[i]);
      if (i >= before) inputs.push_back(static_cast<std::uint32_t>(i - before));
    }
    std::vector<Type> types;
    for (unsigned i = 0; i < node.output_count; ++i)
      if (kept.results[i]) types.push_back(i == 0 ? node.type : node.more_types()[i - 1]);
    if (types.empty()) return made;
    Attributes attributes = node.attributes();
    if (node.op == Op::scan) {
      Scan scan = node.attributes<Scan>();
      scan.carries = static_cast<std::int64_t>(kept.carries);
      scan.scanned = static_cast<std::int64_t>(kept.scanned);
      attributes = scan;
    }
    const Tensor value = Builder(node).make(node.op, kept_operands, attributes, types[0]);
    set_more_results(*value.node(), std::span(types).subspan(1));
    for (const auto& body : node.bodies()) {
      std::vector<Tensor> outputs;
      for (std::size_t i = 0; i < kept.results.size(); ++i)
        if (kept.results[i]) outputs.push_back(body->outputs[i]);
      value.node()->make_more().bodies.push_back(std::make_shared<const Graph>(with_inputs(*body, inputs, outputs)));
    }
    unsigned next = 0;
    for (unsigned i = 0; i < node.output_count; ++i) {
      const bool handed_on = i < kept.handed_on.size() && kept.handed_on[i];
      made.results.push_back(kept.results[i] ? Tensor(value.node(), next++) : handed_on ? operands[i] : Tensor());
    }
    if (is_effect(*value.node())) made.effects.push_back(value);
    return made;
  });
}

}  // namespace weft
