#include "record/record.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/dim_guards.hpp"
#include "base/fail.hpp"
#include "base/per_thread.hpp"
#include "record/composite.hpp"
#include "record/disable.hpp"
#include "record/dry_run.hpp"
#include "record/evaluate.hpp"

namespace weft {
namespace {

// What may hang unevaluated below one value before it is computed: bounds memory, not meaning.
constexpr std::uint32_t pending_limit = 4096;
constexpr std::uint32_t loop_bit = 1u << 31;

}  // namespace

Recorder& recorder() { return per_thread<Recorder>(); }

std::uint32_t new_trace_id() {
  static std::atomic<std::uint32_t> counter{0};
  std::uint32_t id = 0;
  while (id == 0) id = (counter.fetch_add(1, std::memory_order_relaxed) + 1) & ~loop_bit;
  return id;
}
std::uint32_t new_loop_id() { return new_trace_id() | loop_bit; }

TraceScope::TraceScope(Trace& trace) : saved_dims_(DimEnvironment::current()), saved_(recorder()) {
  recorder().traces.push_back(&trace);
  recorder().loc = {};
  recorder().scope = 0;
  recorder().region = 0;
  recorder().in_body = false;
  DimEnvironment::current() = &trace.dims;
  dims::are_guarded() = true;
}
TraceScope::~TraceScope() {
  drop_tapes(recorder().trace()->id);
  recorder() = std::move(saved_);
  DimEnvironment::current() = saved_dims_;
  dims::are_guarded() = !recorder().traces.empty();
}

OutsideTraces::OutsideTraces() : saved_dims_(DimEnvironment::current()), saved_(std::exchange(recorder(), {})) {
  DimEnvironment::current() = nullptr;
  dims::are_guarded() = false;
}
OutsideTraces::~OutsideTraces() {
  recorder() = std::move(saved_);
  DimEnvironment::current() = saved_dims_;
  dims::are_guarded() = !recorder().traces.empty();
}

void note_call(Loc loc) {
  Recorder& r = recorder();
  if (DimEnvironment* sizes = r.trace() ? DimEnvironment::current() : nullptr) sizes->last_call = outermost(loc);
}

Operation::Operation(const char* name, Loc loc) : saved_loc_(recorder().loc), saved_name_(called_operation()) {
  if (!saved_loc_.file) recorder().loc = loc;
  if (!saved_name_) called_operation() = name;
  note_call(loc);
}
Operation::~Operation() {
  recorder().loc = saved_loc_;
  called_operation() = saved_name_;
}
Loc Operation::loc() const { return recorder().loc; }

LooseComposite::LooseComposite(const char* name, Loc loc) : Operation(name, loc), saved_scope_(recorder().scope) {
  if (!saved_scope_) recorder().scope = intern_text(name);
}
LooseComposite::~LooseComposite() { recorder().scope = saved_scope_; }

static void refuse_count(const char* operation, const Type& type, Loc loc) {
  fail(operation, loc, "more elements than there can be: ", to_string(type));
}
void check_count(const char* operation, const Type& type, Loc loc) {
  std::int64_t count = 1;
  bool symbolic = false;
  for (Dim size : type.shape) {
    symbolic = symbolic || !size.is_constant();
    if (!size.is_constant()) continue;
    if (size.constant() < 0) [[unlikely]]
      fail(operation, loc, "a size is negative: ", to_string(type));
    const std::int64_t factor = std::max(size.constant(), std::int64_t{1});
    if (__builtin_mul_overflow(count, factor, &count) || count >= count_limit) [[unlikely]]
      refuse_count(operation, type, loc);
  }
  if (!symbolic) return;
  WEFT_CHECK(DimEnvironment::current(), "a symbolic size outside its trace");
  if (!DimEnvironment::current()->require_less(type.shape.element_count(), Dim(count_limit)))
    refuse_count(operation, type, loc);
}
void check_extent(const char* operation, const char* name, Dim extent, Loc loc) {
  if (extent.is_constant() && (extent.constant() >= count_limit || extent.constant() <= -count_limit))
    fail(operation, loc, name, " is beyond what can be counted: ", dims::to_string(extent));
}

namespace {

// The value as the trace at this depth sees it: its own, or, in the body of a loop, an input for a value of the traces
// around it. What reads nothing is recorded in the body again. Undefined where it belongs to none of them.
Tensor captured(const Recorder& r, std::size_t depth, const Tensor& value) {
  if (depth == 0) return value.node()->trace == 0 ? value : Tensor();
  Trace& trace = *r.traces[depth - 1];
  if (value.node()->trace == trace.id) return value;
  if (!trace.is_loop) return {};
  const Tensor outer = captured(r, depth - 1, value);
  if (!outer.defined()) return {};
  const Node& node = *outer.node();
  const auto [found, added] = trace.inputs_of_captured.try_emplace(outer.word());
  if (!added) return found->second;
  const Builder build(node.loc, node.scope, trace.id);
  if (node.op == Op::constant || node.op == Op::iota)
    return found->second = build.Builder::make(node.op, {}, node.attributes(), node.type);
  trace.captured.push_back(outer);
  return found->second = build.input(0, type_of(outer));
}

}  // namespace

Tensor admitted(const Tensor& operand, const char* operation, Loc loc) {
  const Recorder& r = recorder();
  loc = outermost(loc);
  if (!operand.defined()) fail(operation, loc, "an operand is an undefined tensor");
  const Node& node = *operand.node();
  const Trace* const trace = r.trace();
  if (node.trace == (trace ? trace->id : 0)) [[likely]]
    return operand;
  if (trace && trace->is_loop)
    if (Tensor input = captured(r, r.traces.size(), operand); input.defined()) return input;
  const std::string what = made_at(node);
  if (is_loop_id(node.trace))
    fail(operation, loc, "a tensor (", what,
         ") of the body of a loop, of vmap or of a checkpointed function is used outside it: what an iteration leaves "
         "behind "
         "is part of the state that the body takes and returns, what the others leave is what the function returns");
  if (node.trace == 0)
    fail(operation, loc, "a tensor from outside the trace (", what,
         ") is used in a compiled function: pass it as an argument, or use constant()");
  fail(operation, loc, "a tensor of a finished or of another trace (", what,
       ") is used outside it: return it from the compiled function instead");
}

namespace {

void check_operand(const Recorder& r, const Tensor& operand, const char* operation, Loc loc) {
  const bool own = operand.defined() && operand.node()->trace == (r.trace() ? r.trace()->id : 0);
  if (!own) [[unlikely]]
    admitted(operand, operation, loc);
}

const Tensor& plain_or_same(const Trace& trace, const Tensor& value) {
  const auto found = trace.plain_ones.find(value.word());
  return found == trace.plain_ones.end() ? value : found->second;
}

Tensor record_pending(Op op, std::span<const Tensor> given, const Attributes& attributes, const Type& wanted, Loc loc) {
  Recorder& r = recorder();
  if (r.loc.file) loc = r.loc;
  Trace* trace = r.trace();
  if (trace && trace->decider) trace->decider->before_record();
  std::vector<Tensor> mapped;
  if (trace && (trace->is_loop || !trace->plain_ones.empty()))
    for (const Tensor& operand : given) mapped.push_back(plain_or_same(*trace, admitted(operand, info(op).name, loc)));
  const std::span<const Tensor> operands = mapped.empty() ? given : mapped;
  std::uint32_t id = trace ? trace->id : 0;
  std::uint32_t pending = 0;
  for (const Tensor& operand : operands) {
    if (mapped.empty()) check_operand(r, operand, info(op).name, loc);
    pending += __atomic_load_n(&operand.node()->pending, __ATOMIC_RELAXED);  // another thread may be evaluating it
  }
  Tensor value = Builder(loc, r.scope, id, 0, r.region).make(op, operands, attributes, wanted);
  Node* node = value.node();
  if (operands.empty() || !node->type.shape.same(type_of(operands[0]).shape))
    check_count(info(op).name, node->type, loc);
  if (trace) {
    ++trace->recorded;
    if (is_effect(op)) trace->effects.push_back(value);
    if (trace->decider) trace->decider->recorded(value);
    return value;
  }
  node->pending = std::min<std::uint64_t>(std::uint64_t{pending} + 1, UINT32_MAX / 64);
  return value;
}

void bound_pending(const Tensor& value, Loc loc) {
  if (value.node()->pending > pending_limit && !is_dry_run) evaluate(std::span(&value, 1), loc);
}

}  // namespace

Tensor record(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted, Loc loc) {
  Tensor value = record_pending(op, operands, attributes, wanted, loc);
  if (info(op).kind == OpKind::collective && !recorder().trace() && !is_dry_run)
    evaluate(std::span(&value, 1), loc);  // the other processes come to it now, whenever its value is read
  else
    bound_pending(value, loc);
  return value;
}

// What is an effect by its bodies is one of the trace; outside a trace it runs now.
static void note_bodies(const Tensor& value, Loc loc) {
  const bool acts = is_effect(*value.node());
  if (Trace* const trace = recorder().trace(); trace && acts && !is_effect(value.node()->op))
    trace->effects.push_back(value);
  if (acts && !recorder().trace() && !is_dry_run)
    evaluate(std::span(&value, 1), loc);
  else
    bound_pending(value, loc);
}

Tensor record_call(std::shared_ptr<const Callee> callee, std::span<const Tensor> operands, Loc loc,
                   const ElementwiseDefinition* definition) {
  const std::vector<Tensor>& outputs = callee->body.outputs;
  Tensor value = record_pending(Op::call, operands, callee->called, type_of(outputs[0]), loc);
  Node* node = value.node();
  node->definition = definition;
  if (outputs.size() > 1) {
    std::vector<Type> more;
    for (std::size_t i = 1; i < outputs.size(); ++i) more.push_back(type_of(outputs[i]));
    set_more_results(*node, more);
  }
  set_callee(*node, std::move(callee));
  note_bodies(value, loc);
  return value;
}

Tensor record_region(Op op, std::span<const Tensor> operands, const Attributes& attributes, std::span<const Type> types,
                     std::vector<std::shared_ptr<const Graph>> bodies, Loc loc) {
  Tensor value = record_pending(op, operands, attributes, types[0], loc);
  Node* node = value.node();
  set_more_results(*node, types.subspan(1));
  node->make_more().bodies = std::move(bodies);
  for (const Type& type : types.subspan(1)) check_count(info(op).name, type, loc);
  note_bodies(value, loc);
  return value;
}

}  // namespace weft
