#include "trace/level_call.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "autograd/backward.hpp"
#include "autograd/forward.hpp"
#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "ir/graph_copy.hpp"
#include "ir/partition.hpp"
#include "record/composite.hpp"
#include "record/computed_call.hpp"
#include "record/row_gradients.hpp"
#include "trace/execution.hpp"
#include "trace/kernel_job.hpp"
#include "trace/names.hpp"
#include "trace/observer.hpp"
#include "trace/segments.hpp"
#include "trace/specialize.hpp"

namespace weft::detail {
namespace {

// The derivative of a graph, recorded in a trace of its own, over a copy of the graph's nodes.
struct Derivation {
  Trace trace;
  std::size_t operand_count, result_count;
  std::vector<Tensor> inputs;       // operands, results, gradients of the results or tangents of the operands
  std::optional<GraphCopy> copies;  // of the graph's nodes
  std::vector<Tensor> outputs;
  struct Gradient {
    std::size_t place, output;  // of an operand, or of a result whose tangent it is; the gradient is this output; of
                                // rows that is their index, and the next are the rows
    bool is_rows;
  };
  std::vector<Gradient> gradients;

  Derivation(const Graph& graph, const AskedDerivative& asked, std::span<const std::int64_t> symbols, Loc loc)
      : operand_count(graph.inputs.size()), result_count(graph.outputs.size()) {
    trace.id = new_trace_id();
    trace.dims.symbols = graph.symbols;
    trace.dims.conditions = graph.conditions;
    for (std::size_t i = 0; i < symbols.size(); ++i) trace.dims.symbols[i].hint = symbols[i];
    const TraceScope scope(trace);
    for (const Tensor& operand : graph.inputs) add_input(type_of(operand), loc);
    for (const Tensor& result : graph.outputs) add_input(type_of(result), loc);
    for (const Tensor& given : asked.forward ? graph.inputs : graph.outputs) add_input(type_of(given), loc);
    std::vector<Tensor> arguments(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(operand_count));
    std::vector<Tensor> variables, values, seeds;
    const std::span<const unsigned char> varies = asked.forward ? asked.given : asked.wanted,
                                         counts = asked.forward ? asked.wanted : asked.given;
    for (std::size_t i = 0; i < operand_count; ++i)
      if (varies[i]) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, loc));
    copies.emplace(graph, [&](const Node& node, std::span<const Tensor> operands) -> std::vector<Tensor> {
      if (node.op == Op::input) return {arguments[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
      const Tensor copy = Builder::copy(node, operands);
      copy.node()->trace = trace.id;
      return results_of(copy);
    });
    for (std::size_t i = 0; i < result_count; ++i)
      if (counts[i]) values.push_back(copies->of(graph.outputs[i]));
    for (std::size_t i = 0; i < asked.given.size(); ++i)
      if (asked.given[i]) seeds.push_back(inputs[operand_count + result_count + i]);
    if (variables.empty() || values.empty()) return;
    const std::vector<Tensor> found = asked.forward ? push_forward(values, variables, seeds, "jvp", loc)
                                                    : pull_back(values, seeds, variables, "grad", loc);
    for (std::size_t i = 0, next = 0; i < asked.wanted.size(); ++i) {
      if (!asked.wanted[i]) continue;
      const Tensor& gradient = found[next++];
      if (!gradient.defined()) continue;
      const auto rows = asked.forward ? std::nullopt : rows_of_gradient(gradient, loc);
      gradients.push_back({i, outputs.size(), rows.has_value()});
      outputs.push_back(rows ? rows->index : gradient);
      if (rows) outputs.push_back(rows->rows);
    }
  }

  // What it reads of the graph's values.
  ForwardReads reads(const Graph& graph) const {
    std::unordered_map<const Node*, Node*> originals;
    for (const Tensor& value : graph.nodes) originals.emplace(copies->of(value).node(), value.node());
    return forward_reads(outputs, [&](const Tensor& value) {
      const auto found = originals.find(value.node());
      return found == originals.end() ? Tensor() : Tensor(found->second, value.output());
    });
  }

 private:
  void add_input(const Type& type, Loc loc) { inputs.push_back(Builder(loc, 0, trace.id).input(inputs.size(), type)); }
};

// ---- calls ----------------------------------------------------------------------------------------------------------

class LevelCall final : public ComputedCallee {
 public:
  LevelCall(std::shared_ptr<const LevelBody> body, Function& function, std::span<const std::int64_t> symbols)
      : ComputedCallee(weft::called("compiled_function")),
        body_(std::move(body)),
        function_((retain(&function), &function)),
        symbols_(symbols.begin(), symbols.end()) {}
  void differentiate(const Node& call, std::span<const Tensor> gradients, std::span<const unsigned char> wanted,
                     std::span<Tensor> results) const override {
    body_->differentiate(*function_.get(), call, symbols_, false, gradients, wanted, results);
  }
  void push(const Node& call, std::span<const Tensor> tangents, std::span<const unsigned char> wanted,
            std::span<Tensor> results) const override {
    std::vector<unsigned char> floating(wanted.begin(), wanted.end());
    for (unsigned i = 0; i < call.output_count; ++i)
      if (!is_floating(type_of(Tensor(const_cast<Node*>(&call), i)).dtype)) floating[i] = 0;
    body_->differentiate(*function_.get(), call, symbols_, true, tangents, floating, results);
  }
  bool depends(unsigned result, std::size_t operand) const override { return body_->depends(result, operand); }

 private:
  std::shared_ptr<const LevelBody> body_;
  FunctionHandle function_;
  std::vector<std::int64_t> symbols_;
};

constexpr CallSignature no_signature{nullptr, 0, nullptr};

// The call of a derivative, in a scratch of its own.
class DerivativeCall {
 public:
  DerivativeCall(Function& function, std::uint64_t passes, std::span<const std::int64_t> symbols, Loc loc)
      : scratch_(take_scratch(function, loc)), context{function, no_signature, nullptr, nullptr,
                                                       loc,      *scratch_,    stance()} {
    *scratch_->words.room(1) = passes;
    scratch_->words.size = 1;
    scratch_->counts.assign(symbols.begin(), symbols.end());
  }
  ~DerivativeCall() { give_back(scratch_); }
  DerivativeCall(const DerivativeCall&) = delete;

 private:
  Scratch* const scratch_;

 public:
  const CallContext context;
};

bool hold(std::span<const DimCondition> conditions, std::span<const std::int64_t> symbols) {
  return std::ranges::all_of(conditions,
                             [&](const DimCondition& condition) { return is_satisfied(condition, symbols); });
}

}  // namespace

// ---- derivatives ----------------------------------------------------------------------------------------------------

struct LevelBody::Derivative {
  bool forward;
  std::vector<unsigned char> wanted, given;
  std::vector<DimCondition> conditions;  // decided on sizes while it was made
  std::vector<std::uint32_t> reads;      // of the operands, the results and what is given of a call
  struct Gradient {
    std::size_t place, result;
    bool is_rows;
  };
  std::vector<Gradient> gradients;
  std::shared_ptr<const Specialization> specialization;
  const Derivative* next = nullptr;
};

LevelBody::LevelBody(Graph graph, std::size_t visible, std::vector<SavedValue> saved, Backend backend,
                     std::uint64_t passes)
    : graph_(std::move(graph)),
      dependences_(weft::dependences(graph_)),
      visible_(visible),
      saved_(std::move(saved)),
      backend_(backend),
      passes_(passes) {}
LevelBody::~LevelBody() {
  for (const Derivative* each = derivatives_.load(); each;) delete std::exchange(each, each->next);
}

std::unique_ptr<LevelBody::Derivative> LevelBody::derive(CallContext call, const AskedDerivative& asked,
                                                         Backend backend, std::shared_ptr<KernelJob>& job) const {
  Derivation made(graph_, asked, call.scratch.counts, call.loc);
  auto derivative = std::make_unique<Derivative>();
  derivative->forward = asked.forward;
  derivative->wanted.assign(asked.wanted.begin(), asked.wanted.end());
  derivative->given.assign(asked.given.begin(), asked.given.end());
  if (made.outputs.empty()) return derivative;
  const std::vector<DimCondition> conditions = guarded(made.trace.dims);
  derivative->conditions.assign(conditions.begin() + static_cast<std::ptrdiff_t>(graph_.conditions.size()),
                                conditions.end());

  // The results of the call are read, and not computed again.
  std::unordered_map<const Node*, std::vector<std::pair<unsigned, std::size_t>>> known;
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Tensor& copy = made.copies->of(graph_.outputs[i]);
    known[copy.node()].emplace_back(copy.output(), made.operand_count + i);
  }
  Graph joint = make_graph(made.inputs, made.outputs, made.trace.effects);
  joint = rewrite(joint, [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
    const auto found = known.find(&node);
    if (found == known.end()) return {};
    std::vector<Tensor> results;
    if (node.output_count > 1) results = results_of(Builder::copy(node, operands));
    results.resize(node.output_count);
    for (const auto& [output, input] : found->second) results[output] = made.inputs[input];
    return results;
  });
  std::vector<bool> is_read(joint.inputs.size());
  const auto note = [&](const Tensor& value) {
    if (value.node()->op == Op::input)
      is_read[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)] = true;
  };
  for (const Tensor& value : joint.nodes) std::ranges::for_each(value.node()->inputs(), note);
  std::ranges::for_each(joint.outputs, note);
  for (std::size_t i = 0; i < is_read.size(); ++i)
    if (is_read[i]) derivative->reads.push_back(static_cast<std::uint32_t>(i));

  TraceResult traced;
  Graph& graph = traced.graph = with_inputs(joint, derivative->reads, joint.outputs);
  graph.symbols = made.trace.dims.symbols;
  graph.conditions = conditions;
  for (std::size_t i = 0; i < derivative->reads.size(); ++i) traced.inputs.push_back(kept_leaf(i));
  std::vector<Tensor> outputs;
  std::unordered_map<std::uint64_t, std::uint32_t> places;
  for (const Tensor& output : graph.outputs) {
    if (output.node()->op == Op::input) {
      const auto slot = static_cast<std::size_t>(output.node()->attributes<Parameter>().slot);
      traced.results.push_back({Source::Kind::argument, traced.inputs[slot]});
      continue;
    }
    const auto [found, added] = places.emplace(output.word(), static_cast<std::uint32_t>(outputs.size()));
    if (added) outputs.push_back(output);
    traced.results.push_back({Source::Kind::computed, found->second});
  }
  graph.outputs = std::move(outputs);
  for (const Derivation::Gradient& each : made.gradients)
    derivative->gradients.push_back({each.place, each.output, each.is_rows});

  const auto specialization =
      std::make_shared<Specialization>(backend == Backend::eager ? call.function.eager_id : new_id());
  specialization->symbolic = !graph.symbols.empty();
  specialization->level =
      std::make_shared<const LevelBody>(graph, graph.outputs.size(), std::vector<SavedValue>(), backend, passes_);
  job = add_whole(call, *specialization, std::move(traced), backend);
  derivative->specialization = specialization;
  return derivative;
}

const LevelBody::Derivative* LevelBody::find(const AskedDerivative& asked,
                                             std::span<const std::int64_t> symbols) const {
  for (const Derivative* each = derivatives_.load(std::memory_order_acquire); each; each = each->next)
    if (each->forward == asked.forward && std::ranges::equal(each->wanted, asked.wanted) &&
        std::ranges::equal(each->given, asked.given) && hold(each->conditions, symbols))
      return each;
  return nullptr;
}

const LevelBody::Derivative* LevelBody::make(CallContext call, const AskedDerivative& asked,
                                             std::unique_ptr<const Derivative>& own) const {
  Function& function = call.function;
  const auto begin = observer::Clock::now();
  std::unique_lock lock(function.mutex);
  if (call.stance != Stance::force_eager)
    if (const Derivative* const found = find(asked, call.scratch.counts)) return found;
  bool is_first = true;  // of its direction
  for (const Derivative* each = derivatives_.load(); each; each = each->next)
    is_first = is_first && each->forward != asked.forward;
  const std::string reason = is_first ? "its derivative has not been compiled yet"
                                      : "its derivative was compiled for other arguments, results or sizes";
  Hasher what;
  what.add(id_);
  what.add(std::uint64_t{asked.forward});
  for (const auto& flags : {asked.wanted, asked.given})
    for (const unsigned char flag : flags) what.add(std::uint64_t{flag});
  for (const std::int64_t size : call.scratch.counts) what.add(static_cast<std::uint64_t>(size));
  std::string limit;
  bool kept = may_compile(call, what.digest(), reason);
  if (kept && !is_first) {
    limit = beyond_limit(call, reason);
    kept = limit.empty();
  }
  std::shared_ptr<KernelJob> job;
  std::unique_ptr<Derivative> made =
      derive(call, asked, kept || backend_ != Backend::compiled ? backend_ : Backend::eager, job);
  const Derivative* const found = made.get();
  const std::shared_ptr<const Specialization> specialization = found->specialization;
  if (specialization) {
    for (Segment& segment : specialization->segments) segment.no_job = limit;
    ++compilations_of_thread;
  }
  if (kept) {
    if (!is_first) {
      ++function.derivatives;
      note_recompilation(function, reason);
    }
    made->next = derivatives_.load();
    derivatives_.store(made.release(), std::memory_order_release);
  } else {
    own = std::move(made);
  }
  lock.unlock();
  if (!specialization) return found;
  if (job) make_kernels(call, *specialization, std::move(job));
  if (observer::is_on()) [[unlikely]]
    observer::add({call, *specialization, !limit.empty(), "a derivative; " + reason, begin});
  return found;
}

void LevelBody::add_texts(const std::string& indent, std::vector<std::string>& lines) const {
  const auto places = [](const std::vector<unsigned char>& flags) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < flags.size(); ++i)
      if (flags[i]) all.push_back(std::to_string(i));
    return few_of(all);
  };
  if (!saved_.empty()) {
    std::int64_t bytes = 0;
    for (const SavedValue& each : saved_) bytes += each.bytes;
    lines.push_back(concat_text(indent, "saved for them, beside arguments and results: ", bytes, " bytes"));
    for (const SavedValue& each : saved_) lines.push_back(indent + "  " + to_text(each));
  }
  const std::size_t begin = lines.size();
  for (const Derivative* each = derivatives_.load(std::memory_order_acquire); each; each = each->next) {
    if (!each->specialization) continue;
    const Executable* const executable = each->specialization->first().executable();
    const std::string by =
        executable ? counted(static_cast<std::int64_t>(executable->plan.launches.size()), "step", "steps") : "eagerly";
    const auto& outputs = each->forward ? each->wanted : each->given;
    const auto& inputs = each->forward ? each->given : each->wanted;
    std::vector<std::string> own{concat_text(indent, each->forward ? "tangents of outputs " : "of outputs ",
                                             places(outputs), ", for inputs ", places(inputs), " of the graph: ", by)};
    if (each->specialization->level) each->specialization->level->add_texts(indent + "  ", own);
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(begin), own.begin(), own.end());
  }
}

void LevelBody::make_call(Function& function, std::span<const Tensor> operands, std::span<const std::int64_t> symbols,
                          std::span<Tensor> outputs, Loc loc) const {
  const Tensor call = make_computed_call(std::make_shared<const LevelCall>(shared_from_this(), function, symbols),
                                         operands, outputs, loc);
  // A result that is still held when the level has closed does not hold what was kept.
  const bool all_visible = visible_ == outputs.size();
  for (std::size_t i = 0; i < visible_; ++i) {
    const Tensor result(call.node(), static_cast<unsigned>(i));
    outputs[i] = all_visible ? result : computed_alias(result, loc);
  }
  if (!wanted_at_once_.empty() && !derivatives_.load(std::memory_order_acquire))
    compile_derivative(function, symbols, loc);
}

void LevelBody::compile_derivative(Function& function, std::span<const std::int64_t> symbols, Loc loc) const {
  const DerivativeCall derivative(function, passes_, symbols, loc);
  if (derivative.context.stance == Stance::force_eager) return;
  std::unique_ptr<const Derivative> own;
  try {
    make(derivative.context, {false, wanted_at_once_, given_at_once_}, own);
  } catch (const Error&) {
    // There is none, or it may not be compiled, which is an error only where it is asked for.
  }
}

void LevelBody::compile_at_once(std::span<const unsigned char> wanted, std::span<const unsigned char> given) {
  given_at_once_.assign(given.begin(), given.end());
  given_at_once_.resize(graph_.outputs.size());
  wanted_at_once_.assign(wanted.size(), 0);
  for (std::size_t output = 0; output < given_at_once_.size(); ++output) {
    bool any = false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const bool reached = given_at_once_[output] && wanted[i] && dependences_[output][i];
      wanted_at_once_[i] |= static_cast<unsigned char>(reached);
      any |= reached;
    }
    given_at_once_[output] = any;
  }
}

void LevelBody::differentiate(Function& function, const Node& call, std::span<const std::int64_t> symbols, bool forward,
                              std::span<const Tensor> given, std::span<const unsigned char> wanted,
                              std::span<Tensor> results) const {
  std::vector<Tensor> values(call.inputs().begin(), call.inputs().end());
  std::vector<unsigned char> is_given;
  for (unsigned i = 0; i < call.output_count; ++i) values.emplace_back(const_cast<Node*>(&call), i);
  for (const Tensor& each : given) {
    is_given.push_back(each.defined());
    values.push_back(each);
  }
  const DerivativeCall derivative(function, passes_, symbols, call.loc);
  const CallContext& context = derivative.context;
  Scratch& scratch = context.scratch;
  const AskedDerivative asked{forward, wanted, is_given};
  const Derivative* found = context.stance == Stance::force_eager ? nullptr : find(asked, symbols);
  std::unique_ptr<const Derivative> own;
  if (!found) found = make(context, asked, own);
  const std::shared_ptr<const Specialization>& specialization = found->specialization;
  if (!specialization) return;
  for (const std::uint32_t read : found->reads) scratch.kept.push_back(values[read]);
  const std::vector<Tensor> made = run_to_values(context, *specialization, *specialization->root.segment);
  for (const Derivative::Gradient& each : found->gradients)
    results[each.place] =
        each.is_rows ? row_gradient(made[each.result], made[each.result + 1], type_of(call.input(each.place)), call.loc)
                     : made[each.result];
}

// What the derivative of the results in `has_gradient` reads and is worth keeping. A result whose derivative can't be
// recorded is an error only where that is asked for: here it is taken out of `has_gradient`, and the others keep
// theirs.
static std::vector<SavedValue> saved_values(CallContext call, const Graph& graph, std::span<const unsigned char> wanted,
                                            std::vector<unsigned char>& has_gradient,
                                            std::span<const std::int64_t> hints) {
  const auto of = [&](std::span<const unsigned char> results) -> std::optional<std::vector<SavedValue>> {
    try {
      const Derivation derivation(graph, {false, wanted, results}, hints, call.loc);
      return partition(graph, derivation.reads(graph), call.function.options.memory_budget);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  if (std::optional<std::vector<SavedValue>> saved = of(has_gradient)) return *std::move(saved);
  for (std::size_t i = 0; i < has_gradient.size(); ++i) {
    if (!has_gradient[i]) continue;
    std::vector<unsigned char> alone(has_gradient.size());
    alone[i] = 1;
    has_gradient[i] = of(alone).has_value();
  }
  return of(has_gradient).value_or(std::vector<SavedValue>());
}

std::shared_ptr<const LevelBody> make_level_body(CallContext call, TraceResult& traced, Backend backend) {
  const LeafList& arguments = call.scratch.arguments;
  const CallLayout& layout = call.layout();
  const auto is_float = [&](std::uint32_t output) { return is_floating(type_of(traced.graph.outputs[output]).dtype); };
  std::vector<unsigned char> wanted, has_gradient(traced.graph.outputs.size());
  for (const std::uint32_t leaf : traced.inputs)
    wanted.push_back(leaf != generator_leaf && is_differentiated(call.scratch.words.data()[layout.word(leaf)]));
  const auto seed = [&](const Source& source) {
    if (source.kind == Source::Kind::computed && is_float(source.index)) has_gradient[source.index] = 1;
  };
  for (const Source& source : traced.results) seed(source);
  for (const TraceResult::State& state : traced.states)
    if (arguments.leaves[state.leaf].kind != LeafKind::buffer) seed(state.source);
  std::vector<std::int64_t> hints;
  for (const DimSymbol& symbol : traced.graph.symbols) hints.push_back(symbol.hint);
  // A result that depends on nothing that is differentiated is one of data, as where the function runs by itself.
  const auto depends = [&](const std::vector<bool>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] && wanted[i]) return true;
    return false;
  };
  if (traced.states.empty() && std::ranges::none_of(dependences(traced.graph), depends)) return nullptr;
  const std::vector<SavedValue> saved = saved_values(call, traced.graph, wanted, has_gradient, hints);
  Graph graph = traced.graph;
  const std::size_t visible = graph.outputs.size();
  for (const SavedValue& each : saved) {
    graph.outputs.push_back(each.value);
    traced.kept_for_derivative.push_back(each.value);
  }
  const auto body =
      std::make_shared<LevelBody>(std::move(graph), visible, saved, backend, call.scratch.words.data()[0]);
  if (call.function.options.derivative_at_once) body->compile_at_once(wanted, has_gradient);
  return body;
}

}  // namespace weft::detail
