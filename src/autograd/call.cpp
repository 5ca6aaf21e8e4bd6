#include "autograd/call.hpp"

#include <algorithm>

#include "autograd/backward.hpp"
#include "autograd/custom.hpp"
#include "autograd/forward.hpp"
#include "base/fail.hpp"
#include "batching/batch.hpp"
#include "ir/attention_mods.hpp"
#include "record/composite.hpp"
#include "record/computed_call.hpp"
#include "record/groups.hpp"
#include "record/record_body.hpp"

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
  keep_recomputations_of(of.body);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) values.push_back(results[i]), seeds.push_back(gradients[i]);
  const std::vector<Tensor> found = pull_back(values, seeds, variables, "grad", place.loc);
  for (std::size_t i = 0, next = 0; i < arguments.size(); ++i)
    if (wanted[i]) given[i] = found[next++];
}

// A call that is made from another one: of the gradients of its operands, or of the tangents of its results.
enum class Direction : std::uint64_t { backward, forward };

// The operands that `found` gives an output of the body each.
void give_outputs(Callee& made, std::span<const Tensor> found, std::vector<Tensor>& outputs) {
  for (const Tensor& each : found) {
    made.gradient_at.push_back(each.defined() ? static_cast<int>(outputs.size()) : -1);
    if (each.defined()) outputs.push_back(each);
  }
}
// `gradients` of the results; undefined ones are zero.
Callee make_derivative(const Node& call, std::span<const Tensor> gradients, std::span<const unsigned char> wanted) {
  const Callee& of = *call.callee();
  const std::string name = interned_text(called_name(of.called).id) + "_backward";
  Callee made{with_called_name(of.called, name), {}, nullptr, call.more->callee};
  CallBody scope(made.called);
  const std::uint32_t trace = recorder().trace()->id;
  std::vector<Tensor> arguments, results, seeds(gradients.size()), given(call.operand_count), outputs;
  for (const Tensor& operand : call.inputs()) arguments.push_back(scope.input(type_of(operand)));
  results.push_back(scope.input(call.type));
  for (const Type& type : call.more_types()) results.push_back(scope.input(type));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) seeds[i] = scope.input(type_of(gradients[i]));
  bool is_whole = false;
  const CallValues values{of.called, arguments, results, seeds, wanted, is_whole};
  if (of.derivative) {
    of.derivative(values, given);
  } else if (is_batch_with_derivative(of)) {
    differentiate_batch(of, values, given);
  } else {
    is_whole = attention_may_be_whole(values);
    differentiate_body(of, arguments, seeds, wanted, {call.loc, recorder().scope, trace}, given);
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!wanted[i]) given[i] = Tensor();
  give_outputs(made, given, outputs);
  scope.drop_checks();
  made.body = scope.take(std::move(outputs));
  drop_unread_inputs(made, is_whole);
  return made;
}

// `tangents` of the operands; undefined ones are zero.
Callee make_tangent(const Node& call, std::span<const Tensor> tangents) {
  // Its numbers say nothing more: no provider does a tangent whole.
  const std::string name = interned_text(called_name(call.callee()->called).id) + "_tangent";
  Callee made{called(name), {}, nullptr, call.more->callee};
  CallBody scope(made.called);
  const Place place{call.loc, recorder().scope, recorder().trace()->id};
  std::vector<Tensor> arguments, variables, seeds, effects, outputs;
  for (const Tensor& operand : call.inputs()) arguments.push_back(scope.input(type_of(operand)));
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined()) continue;
    seeds.push_back(scope.input(type_of(tangents[i])));
    variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, call.loc));
  }
  const auto keep = [](const Node&) { return false; };
  const std::vector<Tensor> results = apply_body(call.callee()->body, arguments, place, keep, effects);
  give_outputs(made, push_forward(results, variables, seeds, "jvp", call.loc), outputs);
  scope.drop_checks();
  made.body = scope.take(std::move(outputs));
  drop_unread_inputs(made, false);
  return made;
}

// Records the call that `make` makes, once a signature; of a checkpoint each time, as its body is its own. `values`:
// what its body may read; `given`: gradients or tangents, of which the defined ones are such values too; `wanted`:
// operands, where not all are.
template <class Make>
void record_derived(Direction direction, const Node& node, std::vector<Tensor> values, std::span<const Tensor> given,
                    std::span<const unsigned char> wanted, std::span<Tensor> results, Make make) {
  std::vector<Tensor> plain;
  for (const Tensor& each : given) {
    plain.push_back(each.defined() ? with_plain_ones(each, node.loc) : each);
    if (each.defined()) values.push_back(plain.back());
  }
  const auto shared = [&] {
    Signature signature(reinterpret_cast<std::uintptr_t>(node.callee()));
    signature.add(static_cast<std::uint64_t>(direction));
    for (const unsigned char each : wanted) signature.add(each);
    for (const Tensor& operand : node.inputs()) signature.add(type_of(operand));
    for (const Tensor& each : plain) {
      signature.add(each.defined());
      if (each.defined()) signature.add(type_of(each));
    }
    return shared_callee(signature, [&] { return make(plain); });
  };
  const bool is_own = is_checkpoint(*node.callee());
  const bool again = is_own && direction == Direction::backward;
  const std::shared_ptr<const Callee> callee = is_own ? std::make_shared<const Callee>(make(plain)) : shared();
  if (callee->body.outputs.empty()) return;
  std::vector<Tensor> operands;
  for (const std::uint32_t read : callee->reads) operands.push_back(values[read]);
  const Tensor value = record_call(callee, operands, node.loc);
  if (again) mark_as_recomputation(value);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (callee->gradient_at[i] >= 0) results[i] = Tensor(value.node(), static_cast<unsigned>(callee->gradient_at[i]));
}

// The gradient of the exponential of a^T by a^T is the tangent of that of a: transposed twice it would be one of twice
// the size.
bool push_exponential(const Pushforward& p) {
  const Node& node = p.node();
  if (interned_text(called_name(node.callee()->called).id) != "matrix_exp") return false;
  const Tensor transposed = record(Op::variable, {transpose(At(node.input(0), node.loc))}, {}, {}, node.loc);
  const Tensor value = record_call(node.more->callee, std::span(&transposed, 1), node.loc);
  p.results[0] = pull_back(std::span(&value, 1), p.tangents, std::span(&transposed, 1), "jvp", node.loc)[0];
  return true;
}

}  // namespace

void differentiate_call(const Pullback& p) {
  const Node& node = p.node();
  WEFT_CHECK(node.callee(), "a call that was not recorded is differentiated");
  if (const ComputedCallee* const computed = computed_callee(node))
    return computed->differentiate(node, p.gradients, p.wanted, p.results);
  if (const DisabledTape* const tape = disabled_tape(node)) return differentiate_disabled(p, *tape);
  if (const CustomCallee* const custom = custom_callee(node)) return differentiate_custom(*custom, p);
  std::vector<Tensor> values(node.inputs().begin(), node.inputs().end());
  for (unsigned i = 0; i < node.output_count; ++i) values.emplace_back(p.value.node(), i);
  if (const Callee& of = *node.callee(); is_product_of_groups(of)) {
    bool is_whole = false;
    return of.derivative({of.called, std::span(values).first(node.operand_count),
                          std::span(values).subspan(node.operand_count), p.gradients, p.wanted, is_whole},
                         p.results);
  }
  record_derived(Direction::backward, node, std::move(values), p.gradients, p.wanted, p.results,
                 [&](std::span<const Tensor> gradients) { return make_derivative(node, gradients, p.wanted); });
}

void differentiate_call_forward(const Pushforward& p) {
  const Node& node = p.node();
  WEFT_CHECK(node.callee(), "a call that was not recorded is differentiated");
  if (const ComputedCallee* const computed = computed_callee(node))
    return computed->push(node, p.tangents, p.wanted, p.results);
  if (const CustomCallee* const custom = custom_callee(node)) return differentiate_custom_forward(*custom, p);
  if (push_exponential(p)) return;
  // A scalar expression or a composite with its own derivative is given by that alone.
  if (node.definition || node.callee()->derivative || disabled_tape(node) || is_batch_with_derivative(*node.callee()))
    return transpose_twice(p);
  record_derived(Direction::forward, node, {node.inputs().begin(), node.inputs().end()}, p.tangents, {}, p.results,
                 [&](std::span<const Tensor> tangents) { return make_tangent(node, tangents); });
}

}  // namespace weft
