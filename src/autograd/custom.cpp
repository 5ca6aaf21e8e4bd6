#include "autograd/custom.hpp"

#include <optional>

#include "autograd/backward.hpp"
#include "autograd/zeros.hpp"
#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/evaluate.hpp"
#include "record/loops.hpp"
#include "record/record_body.hpp"
#include "weft/transforms.hpp"

namespace weft {
namespace {

bool is_float(const Tensor& value) { return is_floating(type_of(value).dtype); }

const char* name_of_custom(const CustomCallee& custom) { return custom.is_forward ? "custom_jvp" : "custom_vjp"; }

// What is captured has no place in the rule: it would get a wrong derivative of zero.
void require_own(const CustomCallee& custom, const Node& node, std::size_t operand) {
  if (operand < custom.operand_count) return;
  const Tensor& value = node.input(operand);
  const Loc made = value.node()->loc;
  fail(name_of_custom(custom), node.loc, "the function or its rule captures a value (", to_string(type_of(value)),
       made.file ? ", made at " + to_string(made) : "", ") that is differentiated: make it an operand");
}

}  // namespace

void differentiate_custom(const CustomCallee& custom, const Pullback& p) {
  const Node& node = p.node();
  std::vector<Tensor> arguments(node.inputs().begin(), node.inputs().end()), variables;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (p.wanted[i]) require_own(custom, node, i);
  if (!custom.is_forward) {
    for (unsigned i = 0; i < node.output_count; ++i)
      if (const Tensor result(p.value.node(), i); is_float(result))
        arguments.push_back(p.gradients[i].defined() ? p.gradients[i] : zeros_of(result, node.loc));
    const std::vector<Tensor> found = record_body(*custom.rule, arguments);
    for (std::size_t i = 0; i < custom.operand_count; ++i)
      if (p.wanted[i] && custom.rule_output[i] >= 0)
        p.results[i] = found[static_cast<std::size_t>(custom.rule_output[i])];
    return;
  }
  // The rule is linear in the tangents: its gradient by them, wherever they are, is that of the function. They are one,
  // since rules may choose by the sign of what is linear.
  std::vector<Tensor> values, seeds;
  for (std::size_t i = 0; i < custom.operand_count; ++i)
    if (is_float(node.input(i))) {
      Type type = type_of(node.input(i));
      type.weak = false;
      const Tensor tangent = constant_like(p.wanted[i] ? 1 : 0, type, node.loc);
      arguments.push_back(p.wanted[i] ? variables.emplace_back(record(Op::variable, {tangent}, {}, {}, node.loc))
                                      : tangent);
    }
  const std::vector<Tensor> found = record_body(*custom.rule, arguments);
  for (std::size_t i = 0; i < custom.rule_output.size(); ++i)
    if (p.gradients[i].defined() && custom.rule_output[i] >= 0) {
      values.push_back(found[static_cast<std::size_t>(custom.rule_output[i])]);
      seeds.push_back(p.gradients[i]);
    }
  if (variables.empty() || values.empty()) return;
  const std::vector<Tensor> gradients = pull_back(values, seeds, variables, "grad", node.loc);
  for (std::size_t i = 0, next = 0; i < custom.operand_count; ++i)
    if (p.wanted[i]) p.results[i] = gradients[next++];
}

void differentiate_custom_forward(const CustomCallee& custom, const Pushforward& p) {
  const Node& node = p.node();
  for (std::size_t i = 0; i < p.tangents.size(); ++i)
    if (p.tangents[i].defined()) require_own(custom, node, i);
  if (!custom.is_forward) return transpose_twice(p);
  std::vector<Tensor> arguments(node.inputs().begin(), node.inputs().end());
  for (std::size_t i = 0; i < custom.operand_count; ++i)
    if (is_float(node.input(i)))
      arguments.push_back(p.tangents[i].defined() ? p.tangents[i] : zeros_of(node.input(i), node.loc));
  const std::vector<Tensor> found = record_body(*custom.rule, arguments);
  for (std::size_t i = 0; i < p.results.size(); ++i)
    if (custom.rule_output[i] >= 0) p.results[i] = found[static_cast<std::size_t>(custom.rule_output[i])];
}

// ---- recording ------------------------------------------------------------------------------------------------------

namespace detail {

struct CustomRecorder::State {
  Operation call;
  std::shared_ptr<CustomCallee> callee;
  std::vector<Tensor> operands, results;
  std::vector<std::size_t> places;  // of the results among the leaves of what the function returned
  std::optional<LoopBody> function, rule;
  std::vector<Tensor> inputs, rule_inputs, rule_outputs;

  State(const char* operation, Loc loc) : call(operation, loc) {}
  const char* name() const { return name_of_custom(*callee); }

  std::vector<Tensor> open(std::optional<LoopBody>& scope, std::vector<Tensor>& own) {
    scope.emplace(BodyPlace{call.loc(), name()}, call.loc());
    for (const Tensor& operand : operands) own.push_back(scope->input(type_of(operand)));
    return own;
  }
  std::vector<Tensor> returned(const LeafList& leaves, std::vector<std::size_t>* at) const {
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < leaves.leaves.size(); ++i) {
      const Leaf& leaf = leaves.leaves[i];
      if (!holds_tensor(leaf.kind)) continue;
      if (at && !leaf.tensor().defined()) fail(name(), call.loc(), "the function returns an undefined tensor");
      if (at) at->push_back(i);
      values.push_back(leaf.tensor().defined() ? admitted(leaf.tensor(), name(), call.loc()) : Tensor());
    }
    return values;
  }
  void require_type(const Tensor& found, const Tensor& like, const char* what, std::size_t i, const char* of) const {
    const Type &type = type_of(found), &wanted = type_of(like);
    if (type.dtype != wanted.dtype || !(type.shape == wanted.shape))
      fail(name(), call.loc(), what, " gives ", to_string(type), " for ", of, " ", i, ", which is ", to_string(wanted));
  }
};

CustomRecorder::CustomRecorder(const char* operation, bool is_forward, std::span<const Tensor> operands, Loc loc)
    : state_(new State(operation, loc)) {
  State& s = *state_;
  s.callee = std::make_shared<CustomCallee>(Attributes(called(operation)));
  s.callee->is_forward = is_forward;
  s.callee->operand_count = operands.size();
  try {
    for (const Tensor& operand : operands)
      s.operands.push_back(with_plain_ones(resolve(At(operand, s.call.loc()), operation), s.call.loc()));
  } catch (...) {
    delete state_;
    throw;
  }
}
CustomRecorder::~CustomRecorder() { delete state_; }

void CustomRecorder::begin_function(std::span<Tensor> arguments) {
  const std::vector<Tensor> own = state_->open(state_->function, state_->inputs);
  std::copy(own.begin(), own.end(), arguments.begin());
}
void CustomRecorder::end_function(const LeafList& returned) {
  State& s = *state_;
  s.results = s.returned(returned, &s.places);
  s.function->close();
  if (s.results.empty()) fail(s.name(), s.call.loc(), "the function returns no tensor");
  if (!s.function->generators().empty())
    fail(s.name(), s.call.loc(), "the function draws random numbers: draw outside, and make them an operand");
}

void CustomRecorder::begin_rule(std::span<Tensor> arguments) {
  const std::vector<Tensor> own = state_->open(state_->rule, state_->rule_inputs);
  std::copy(own.begin(), own.end(), arguments.begin());
}
void CustomRecorder::cotangents(const LeafList& returned) {
  State& s = *state_;
  std::vector<std::size_t> places;
  const std::vector<Tensor> values = s.returned(returned, &places);
  if (values.size() != s.results.size())
    fail(s.name(), s.call.loc(), "forward returns ",
         counted(static_cast<std::int64_t>(values.size()), "tensor", "tensors"), " as the value, the function returns ",
         s.results.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    s.require_type(values[i], s.results[i], "forward", i, "result");
    Tensor& place = returned.leaves[places[i]].tensor();
    if (!is_float(values[i])) {
      place = Tensor();
      continue;
    }
    s.rule_inputs.push_back(s.rule->input(type_of(s.results[i])));
    place = s.rule_inputs.back();
  }
}
void CustomRecorder::tangents(std::span<Tensor> tangents) {
  State& s = *state_;
  for (std::size_t i = 0; i < tangents.size(); ++i)
    if (is_float(s.operands[i])) {
      s.rule_inputs.push_back(s.rule->input(type_of(s.operands[i])));
      tangents[i] = s.rule_inputs.back();
    }
}
void CustomRecorder::end_rule(const LeafList& given) {
  State& s = *state_;
  const std::vector<Tensor> found = s.returned(given, nullptr);
  const bool forward = s.callee->is_forward;
  const std::vector<Tensor>& like = forward ? s.results : s.operands;
  const char* const what = forward ? "the rule" : "backward";
  if (found.size() != like.size())
    fail(s.name(), s.call.loc(), what, " gives ", counted(static_cast<std::int64_t>(found.size()), "tensor", "tensors"),
         ", there ", like.size() == 1 ? "is " : "are ",
         forward ? counted(static_cast<std::int64_t>(like.size()), "result", "results")
                 : counted(static_cast<std::int64_t>(like.size()), "operand", "operands"));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool counts = found[i].defined() && is_float(like[i]);
    if (counts) s.require_type(found[i], like[i], what, i, forward ? "result" : "operand");
    s.callee->rule_output.push_back(counts ? static_cast<int>(s.rule_outputs.size()) : -1);
    if (counts) s.rule_outputs.push_back(RecordingBuilder().reshape(found[i], type_of(like[i]).shape));
  }
  s.rule->close();
  if (!s.rule->generators().empty())
    fail(s.name(), s.call.loc(), what, " draws random numbers: draw outside, and make them an operand");
}

void CustomRecorder::record(const LeafList& returned) {
  State& s = *state_;
  // What the two bodies capture, each once.
  std::vector<Tensor> captured(s.function->captured().begin(), s.function->captured().end());
  for (const Tensor& each : s.rule->captured())
    if (std::none_of(captured.begin(), captured.end(), [&](const Tensor& known) { return known.same(each); }))
      captured.push_back(each);
  const std::size_t count = s.operands.size();
  std::vector<Tensor> rule_inputs(s.rule_inputs.begin(), s.rule_inputs.begin() + static_cast<std::ptrdiff_t>(count));
  for (const Tensor& each : captured) {
    s.operands.push_back(each);
    for (const auto& [scope, inputs] : {std::pair{&*s.function, &s.inputs}, {&*s.rule, &rule_inputs}}) {
      const Tensor input = scope->input_of(each);
      inputs->push_back(input.defined() ? input : scope->input(type_of(each)));
    }
  }
  rule_inputs.insert(rule_inputs.end(), s.rule_inputs.begin() + static_cast<std::ptrdiff_t>(count),
                     s.rule_inputs.end());
  s.callee->body = *s.function->take(std::move(s.inputs), std::move(s.results));
  s.callee->rule = s.rule->take(std::move(rule_inputs), std::move(s.rule_outputs));
  s.rule_inputs.clear();
  const Tensor value = record_call(s.callee, s.operands, s.call.loc());
  for (std::size_t i = 0; i < s.places.size(); ++i)
    returned.leaves[s.places[i]].tensor() = Tensor(value.node(), static_cast<unsigned>(i));
}

}  // namespace detail
}  // namespace weft
