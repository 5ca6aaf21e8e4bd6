#include "trace/level_call.hpp"

#include <algorithm>

#include "autograd/backward.hpp"
#include "autograd/dependence.hpp"
#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "ir/partition.hpp"
#include "record/composite.hpp"
#include "record/computed_call.hpp"
#include "record/row_gradients.hpp"
#include "runtime/plan_parts.hpp"
#include "trace/execution.hpp"
#include "trace/kernel_job.hpp"
#include "trace/names.hpp"
#include "trace/observer.hpp"
#include "trace/segments.hpp"
#include "trace/specialize.hpp"

namespace weft::detail {
namespace {

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
  std::vector<DerivedGraph::Gradient> gradients;
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
  auto derivative = std::make_unique<Derivative>();
  derivative->forward = asked.forward;
  derivative->wanted.assign(asked.wanted.begin(), asked.wanted.end());
  derivative->given.assign(asked.given.begin(), asked.given.end());
  DerivedGraph made = derived(graph_, asked, call.scratch.counts, call.loc);
  if (made.gradients.empty()) return derivative;
  derivative->conditions = std::move(made.conditions);
  derivative->reads = std::move(made.reads);
  derivative->gradients = std::move(made.gradients);
  const Graph& graph = made.traced.graph;
  const auto specialization =
      std::make_shared<Specialization>(backend == Backend::eager ? call.function.eager_id : new_id());
  specialization->symbolic = !graph.symbols.empty();
  specialization->level =
      std::make_shared<const LevelBody>(graph, graph.outputs.size(), std::vector<SavedValue>(), backend, passes_);
  job = add_whole(call, *specialization, std::move(made.traced), backend);
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
        executable ? counted(static_cast<std::int64_t>(runtime::step_count(executable->plan)), "step", "steps")
                   : "eagerly";
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
  for (const DerivedGraph::Gradient& each : found->gradients)
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
      const ForwardReads reads = reads_of_derivative(graph, {false, wanted, results}, hints, call.loc);
      return partition(graph, reads, call.function.options.memory_budget);
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
  if (backend == Backend::compiled) traced.graph = before_derivatives(std::move(traced.graph));
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
  for (const StateTensor& state : traced.states)
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
