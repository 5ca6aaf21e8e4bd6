#include "autograd/dependence.hpp"

#include <unordered_map>

#include "autograd/walk.hpp"
#include "record/computed_call.hpp"
#include "record/record_body.hpp"

namespace weft {
namespace {

using Table = std::vector<std::vector<bool>>;

void add_to(std::vector<bool>& all, const std::vector<bool>& more) {
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
}

// Of the results of a loop: a carry depends on itself, and on what the carries do that it depends on.
Table over_iterations(const Graph& body, std::size_t carries) {
  Table table = dependences(body);
  for (std::size_t k = 0; k < carries; ++k) table[k][k] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::vector<bool>& result : table)
      for (std::size_t k = 0; k < carries; ++k) {
        if (!result[k]) continue;
        const std::vector<bool> before = result;
        add_to(result, table[k]);
        changed = changed || result != before;
      }
  }
  return table;
}

// Of either branch, whose inputs are the operands after the predicate.
Table of_branches(const Node& node) {
  Table table(node.output_count, std::vector<bool>(node.operand_count));
  for (const auto& branch : node.bodies()) {
    const Table own = dependences(*branch);
    for (std::size_t result = 0; result < own.size(); ++result)
      for (std::size_t i = 0; i < own[result].size(); ++i)
        if (own[result][i]) table[result][i + 1] = true;
  }
  return table;
}

}  // namespace

NodeDependence::NodeDependence(const Node& node)
    : computed_(computed_callee(node)), none_(node.op == Op::stop_gradient) {
  if (node.op == Op::scan)
    table_ = over_iterations(*node.bodies()[0], static_cast<std::size_t>(node.attributes<Scan>().carries));
  else if (node.op == Op::cond)
    table_ = of_branches(node);
  else if (node.op == Op::call && node.callee() && is_checkpoint(*node.callee()))
    table_ = dependences(node.callee()->body);
}

bool NodeDependence::operator()(unsigned result, std::size_t operand) const {
  if (computed_) return computed_->depends(result, operand);
  return table_.empty() ? !none_ : table_[result][operand];
}

Table dependences(const Graph& graph) {
  const std::size_t inputs = graph.inputs.size();
  std::unordered_map<const Node*, Table> of;
  const auto at = [&](const Tensor& value) -> const std::vector<bool>& { return of.at(value.node())[value.output()]; };
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    Table& results = of[&node];
    results.assign(node.output_count, std::vector<bool>(inputs));
    if (node.op == Op::input && is_differentiable(value))
      results[0][static_cast<std::size_t>(node.attributes<Parameter>().slot)] = true;
    const NodeDependence depends(node);
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      if (!is_differentiable(node.input(i))) continue;
      for (unsigned result = 0; result < node.output_count; ++result)
        if (depends(result, i)) add_to(results[result], at(node.input(i)));
    }
  }
  Table outputs;
  for (const Tensor& output : graph.outputs)
    outputs.push_back(is_differentiable(output) ? at(output) : std::vector<bool>(inputs));
  return outputs;
}

}  // namespace weft
