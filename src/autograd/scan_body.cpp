#include "autograd/scan_body.hpp"

#include <algorithm>

#include "autograd/backward.hpp"
#include "autograd/custom.hpp"
#include "autograd/dependence.hpp"
#include "batching/batch.hpp"
#include "ir/callee.hpp"

namespace weft {
namespace {

bool has_derivative_of_while(const Callee& callee) {
  return (callee.derivative || is_batch_with_derivative(callee)) &&
         std::ranges::any_of(callee.body.nodes, [](const Tensor& value) { return value.node()->op == Op::while_loop; });
}

}  // namespace

JointBody::JointBody(const Pullback& p, LoopBody& scope)
    : p_(p),
      scan_(p.node().attributes<Scan>()),
      carries_(static_cast<std::size_t>(scan_.carries)),
      scanned_(static_cast<std::size_t>(scan_.scanned)) {
  const Graph& body = *node().bodies()[0];
  choose_carries(body);
  is_zero_ = !record_body(body, scope);
  if (!is_zero_) classify();
}

// Those that depend on what is wanted, and that reach a result with a gradient.
void JointBody::choose_carries(const Graph& body) {
  const std::vector<std::vector<bool>> depends = dependences(body);
  std::vector<bool> varies(node().operand_count), reaches(carries_);
  for (std::size_t i = 0; i < varies.size(); ++i) varies[i] = p_.wanted[i];
  for (std::size_t k = 0; k < carries_; ++k) reaches[k] = p_.gradients[k].defined();
  const auto note = [&](std::size_t output) {
    bool changed = false;
    for (std::size_t k = 0; k < carries_; ++k)
      if (depends[output][k] && !reaches[k]) changed = reaches[k] = true;
    return changed;
  };
  for (std::size_t y = carries_; y < depends.size(); ++y)
    if (p_.gradients[y].defined()) note(y);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t k = 0; k < carries_; ++k) {
      bool now = varies[k];
      for (std::size_t i = 0; i < varies.size(); ++i) now = now || (varies[i] && depends[k][i]);
      changed = changed || now != varies[k];
      varies[k] = now;
      changed = (reaches[k] && note(k)) || changed;
    }
  }
  for (std::size_t k = 0; k < carries_; ++k)
    active_.push_back(varies[k] && reaches[k] && is_floating(type_of(body.inputs[k]).dtype));
}

// False where every gradient is zero.
bool JointBody::record_body(const Graph& body, LoopBody& scope) {
  const std::uint32_t trace = scope.id();
  std::vector<Tensor> arguments, variables, effects, values, gradients;
  for (const Tensor& input : body.inputs) inputs_.push_back(scope.input(type_of(input)));
  seeds_.resize(node().output_count);
  for (std::size_t i = 0; i < seeds_.size(); ++i)
    if (i < carries_ ? active_[i] : p_.gradients[i].defined()) seeds_[i] = scope.input(type_of(body.outputs[i]));
  arguments = inputs_;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (has_gradient(i)) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, node().loc));
  if (variables.empty()) return false;
  const std::vector<Tensor> results = apply_body(
      body, arguments, {node().loc, node().scope, trace}, [](const Node&) { return false; }, effects);
  for (std::size_t i = 0; i < seeds_.size(); ++i)
    if (seeds_[i].defined()) values.push_back(results[i]), gradients.push_back(seeds_[i]);
  if (values.empty()) return false;
  const std::vector<Tensor> found = pull_back(values, gradients, variables, "grad", node().loc);
  std::vector<Tensor> outputs = results, all_inputs = inputs_;
  for (const Tensor& gradient : found)
    if (gradient.defined()) outputs.push_back(gradient);
  for (const Tensor& seed : seeds_)
    if (seed.defined()) all_inputs.push_back(seed);
  const Graph recorded = make_graph(all_inputs, outputs, effects);
  // Scalar expressions that the host has a kernel for stay one node, and so does what has a rule of the program, and
  // what only its own derivative can differentiate again.
  joint_ = with_calls_inlined(recorded, [](const Node& node) {
    return node.op == Op::call && !node.definition && !custom_callee(node) && !has_derivative_of_while(*node.callee());
  });
  results_.assign(joint_.outputs.begin(), joint_.outputs.begin() + node().output_count);
  gradients_.resize(node().operand_count);
  std::size_t next = node().output_count;
  for (std::size_t i = 0, v = 0; i < gradients_.size(); ++i)
    if (has_gradient(i) && found[v++].defined()) gradients_[i] = joint_.outputs[next++];
  return true;
}

// What depends on a gradient is computed in the backward loop, and so is what a checkpoint computes again for it; all
// else the forward loop has. A body that computes something again itself, as a backward loop does, has that for its own
// results.
void JointBody::classify() {
  std::unordered_set<const Node*> own;  // what the results read
  std::vector<Tensor> open = results_;
  while (!open.empty()) {
    const Node& node = *open.back().node();
    open.pop_back();
    if (!own.insert(&node).second) continue;
    open.insert(open.end(), node.inputs().begin(), node.inputs().end());
  }
  for (const Tensor& seed : seeds_)
    if (seed.defined()) backward_[seed.node()] = true;
  for (const Tensor& value : joint_.nodes) {
    const Node& node = *value.node();
    if (node.recomputation && !own.contains(&node)) recomputed_.insert(&node);
    bool& behind = backward_[&node];
    behind = behind || recomputed_.contains(&node);
    for (const Tensor& operand : node.inputs()) behind = behind || backward_[operand.node()];
  }
}
Tensor below_variables(Tensor value) {
  while (value.node()->op == Op::variable) value = value.node()->input(0);
  return value;
}
std::size_t JointBody::slot(const Tensor& input) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].node() == input.node()) return i;
  return inputs_.size();
}

}  // namespace weft
