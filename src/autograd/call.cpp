#include "autograd/call.hpp"

#include <algorithm>

#include "autograd/backward.hpp"
#include "base/fail.hpp"
#include "batching/batch.hpp"
#include "record/composite.hpp"
#include "record/computed_call.hpp"

namespace weft {
namespace {

// Only what the body needs of its inputs is read, so that the rest is not kept alive for it; all, if a provider may do
// it whole.
void drop_unread_inputs(Callee& callee, bool is_whole) {
  std::vector<bool> read(callee.body.inputs.size(), is_whole);
  const auto note = [&](const Tensor& value) {
    const Node& node = *value.node();
    if (node.op == Op::input) read[static_cast<std::size_t>(node.attributes<Parameter>().slot)] = true;
  };
  for (const Tensor& value : callee.body.nodes)
    for (const Tensor& operand : value.node()->inputs()) note(operand);
  for (const Tensor& output : callee.body.outputs) note(output);
  for (std::size_t i = 0; i < read.size(); ++i)
    if (read[i]) callee.reads.push_back(static_cast<std::uint32_t>(i));
  callee.body.effects.clear();
  callee.body = with_inputs(callee.body, callee.reads, callee.body.outputs);
}

void differentiate_body(const Callee& of, std::span<Tensor> arguments, std::span<const Tensor> gradients,
                        std::span<const unsigned char> wanted, const Place& place, std::span<Tensor> given) {
  std::vector<Tensor> variables, values, seeds, effects;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (wanted[i]) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, place.loc));
  const auto keep = [](const Node&) { return false; };
  const std::vector<Tensor> results = apply_body(of.body, arguments, place, keep, effects);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) values.push_back(results[i]), seeds.push_back(gradients[i]);
  const std::vector<Tensor> found = pull_back(values, seeds, variables, "grad", place.loc);
  for (std::size_t i = 0, next = 0; i < arguments.size(); ++i)
    if (wanted[i]) given[i] = found[next++];
}

// `gradients` of the results; undefined ones are zero.
Callee make_derivative(const Node& call, std::span<const Tensor> gradients, std::span<const unsigned char> wanted) {
  const std::shared_ptr<const Callee>& of = call.more->callee;
  Callee made{with_called_name(of->called, interned_text(called_name(of->called).id) + "_backward"), {}, nullptr, of};
  CallBody scope(made.called);
  const std::uint32_t trace = recorder().trace()->id;
  std::vector<Tensor> arguments, results, seeds(gradients.size()), given(call.operand_count), outputs;
  for (const Tensor& operand : call.inputs()) arguments.push_back(scope.input(type_of(operand)));
  results.push_back(scope.input(call.type));
  for (const Type& type : call.more_types()) results.push_back(scope.input(type));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) seeds[i] = scope.input(type_of(gradients[i]));
  bool is_whole = false;
  const CallValues values{of->called, arguments, results, seeds, wanted, is_whole};
  if (of->derivative)
    of->derivative(values, given);
  else if (is_batch_with_derivative(*of))
    differentiate_batch(*of, values, given);
  else
    differentiate_body(*of, arguments, seeds, wanted, {call.loc, recorder().scope, trace}, given);
  made.gradient_at.assign(call.operand_count, -1);
  for (std::size_t i = 0; i < call.operand_count; ++i) {
    if (!wanted[i] || !given[i].defined()) continue;
    made.gradient_at[i] = static_cast<int>(outputs.size());
    outputs.push_back(given[i]);
  }
  made.body = scope.take(std::move(outputs));
  drop_unread_inputs(made, is_whole);
  return made;
}

}  // namespace

void differentiate_call(const Pullback& p) {
  const Node& node = p.node();
  WEFT_CHECK(node.callee(), "a call that was not recorded is differentiated");
  if (const ComputedCallee* const computed = computed_callee(node))
    return computed->differentiate(node, p.gradients, p.wanted, p.results);
  if (const DisabledTape* const tape = disabled_tape(node)) return differentiate_disabled(p, *tape);
  Signature signature(reinterpret_cast<std::uintptr_t>(node.callee()));
  std::vector<Tensor> gradients, values(node.inputs().begin(), node.inputs().end());
  for (const Tensor& gradient : p.gradients)
    gradients.push_back(gradient.defined() ? with_plain_ones(gradient, node.loc) : gradient);
  for (const unsigned char each : p.wanted) signature.add(each);
  for (const Tensor& operand : values) signature.add(type_of(operand));
  for (unsigned i = 0; i < node.output_count; ++i) values.emplace_back(p.value.node(), i);
  for (const Tensor& gradient : gradients) {
    signature.add(gradient.defined());
    if (!gradient.defined()) continue;
    signature.add(type_of(gradient));
    values.push_back(gradient);
  }
  const std::shared_ptr<const Callee> callee =
      shared_callee(signature, [&] { return make_derivative(node, gradients, p.wanted); });
  if (callee->body.outputs.empty()) return;
  std::vector<Tensor> operands;
  for (const std::uint32_t read : callee->reads) operands.push_back(values[read]);
  const Tensor value = record_call(callee, operands, node.loc);
  for (std::size_t i = 0; i < p.results.size(); ++i)
    if (callee->gradient_at[i] >= 0) p.results[i] = Tensor(value.node(), static_cast<unsigned>(callee->gradient_at[i]));
}

}  // namespace weft
