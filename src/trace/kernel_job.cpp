#include "trace/kernel_job.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/no_compiler.hpp"
#include "runtime/host/process.hpp"

namespace weft::detail {
namespace {

// A leaf's memory may hold a result when the call replaces the leaf by something that it computed.
std::vector<std::uint32_t> make_donors(const runtime::Plan& plan, const TraceResult& traced,
                                       std::vector<std::uint8_t> donatable) {
  for (const StateTensor& state : traced.states) donatable[state.leaf] = 1;
  auto keep = [&](const Source& source) {
    if (source.kind == Source::Kind::argument && source.index < donatable.size()) donatable[source.index] = 0;
  };
  for (const Source& source : traced.results) keep(source);
  for (const StateTensor& state : traced.states) keep(state.source);
  std::vector<std::uint32_t> donors(static_cast<std::size_t>(plan.result_count), no_leaf);
  for (const runtime::Plan::Donation& donation : plan.donations) {
    const std::uint32_t leaf = traced.inputs[static_cast<std::size_t>(donation.argument)];
    if (leaf != generator_leaf && !is_kept(leaf) && donatable[leaf])
      donors[static_cast<std::size_t>(donation.result)] = leaf;
  }
  return donors;
}

// What nobody keeps of the rounds that were run, and of a decision.
std::vector<std::int8_t> answers_of(const Segment& segment) {
  const TraceResult& traced = segment.traced;
  std::vector<std::int8_t> answers(segment.output_types.size(), -1);
  const auto add = [&](std::uint32_t output, DType dtype, std::int8_t place) {
    const Type& type = segment.output_types[output];
    const auto is_it = [&](const Source& kept) { return kept.kind == Source::Kind::computed && kept.index == output; };
    if (type.dtype == dtype && type.device.type == Device::Type::cpu && type.shape.element_count().same(Dim(1)) &&
        std::ranges::none_of(traced.kept, is_it))
      answers[output] = place;
  };
  if (!traced.inputs.empty() && traced.inputs.back() == rounds_leaf) add(0, DType::i64, 0);
  const Decision& decision = *traced.decision;
  if (decision.value.kind == Source::Kind::computed && decision.asked == Asked::boolean)
    add(decision.value.index, DType::boolean, 1);
  return answers;
}

// One line a failure; one line a process where there is no compiler, which each function would run into.
void warn_of_failure(const Function& function, const CompileError& error) {
  if (dynamic_cast<const NoCompilerError*>(&error)) {
    const std::string text = error.what();
    logging::warn_once(text.substr(0, text.find('\n')) + "; compiled functions run eagerly");
  } else {
    logging::warn_once(title(function) + ": kernels could not be compiled; running eagerly from here on. " +
                       error.what());
  }
}

// State that is computed anew.
std::vector<Update> updates_of(const TraceResult& traced) {
  std::vector<Update> updates;
  for (const StateTensor& state : traced.states) {
    const auto input = std::find(traced.inputs.begin(), traced.inputs.end(), state.leaf);
    if (state.source.kind == Source::Kind::computed && input != traced.inputs.end())
      updates.push_back({static_cast<int>(input - traced.inputs.begin()), static_cast<int>(state.source.index)});
  }
  return updates;
}

void publish(Segment& segment, std::unique_ptr<const Kernels> kernels) {
  segment.made = std::move(kernels);
  segment.kernels.store(segment.made.get(), std::memory_order_release);
}

}  // namespace

std::vector<std::uint8_t> parameter_leaves(const LeafList& arguments) {
  std::vector<std::uint8_t> are;
  for (const Leaf& leaf : arguments.leaves)
    are.push_back(leaf.kind == LeafKind::param || leaf.kind == LeafKind::buffer);
  return are;
}
std::vector<int> constant_inputs(const TraceResult& traced, std::vector<std::uint8_t> constant) {
  for (const StateTensor& state : traced.states) constant[state.leaf] = 0;
  std::vector<int> inputs;
  for (std::size_t i = 0; i < traced.inputs.size(); ++i)
    if (traced.inputs[i] < constant.size() && constant[traced.inputs[i]]) inputs.push_back(static_cast<int>(i));
  return inputs;
}

bool has_error_word(const Kernels& made) {
  return std::ranges::any_of(made.executable->plan.buffers, [](const runtime::PlanBuffer& buffer) {
    return buffer.kind == runtime::PlanBuffer::Kind::error;
  });
}

bool checks_may_wait(const TraceResult& traced, const Kernels& made) {
  const runtime::Plan& plan = made.executable->plan;
  const auto is = [&](auto property) { return std::any_of(plan.buffers.begin(), plan.buffers.end(), property); };
  using Kind = runtime::PlanBuffer::Kind;
  if (!made.has_error_word) return false;
  if (is([](const runtime::PlanBuffer& buffer) { return buffer.kind == Kind::result && buffer.host; })) return true;
  return traced.numbers.empty() &&
         std::all_of(traced.states.begin(), traced.states.end(), [&](const StateTensor& state) {
           return state.source.kind == Source::Kind::computed && made.donors[state.source.index] == state.leaf;
         });
}

KernelJob::KernelJob(CallContext call)
    : function_(call.function), loc_(call.loc), passes_(pass_set_of(call.scratch.words)) {
  for (const Leaf& leaf : call.scratch.arguments.leaves) owned_.push_back(leaf.access == Access::owned);
  constant_ = call.function.options.constant_parameters ? parameter_leaves(call.scratch.arguments)
                                                        : std::vector<std::uint8_t>(owned_.size());
}

void KernelJob::add(Segment& segment) { (segment.traced.decision ? between_ : last_).push_back(&segment); }

void KernelJob::add_rounds(const Segment& segment, Segment& rounds) {
  std::erase(between_, &segment);
  between_.push_back(&rounds);
  loops_.push_back({&segment, &rounds});
}

void KernelJob::make() {
  if (done()) return;
  const std::lock_guard lock(mutex_);
  if (done()) return;
  compile(between_);
  for (const Loop& loop : loops_)
    if (loop.rounds->executable()) loop.segment->rounds.store(loop.rounds, std::memory_order_release);
  for (Segment* each : last_) compile(std::span(&each, 1));
  done_.store(true, std::memory_order_release);
}

void KernelJob::give_up(const char* why) {
  const std::lock_guard lock(mutex_);
  if (done()) return;
  fail_all(between_, why);
  fail_all(last_, why);
  done_.store(true, std::memory_order_release);
}

std::string KernelJob::failure() const {
  for (const std::vector<Segment*>* list : {&between_, &last_})
    for (const Segment* each : *list)
      if (const std::string& why = each->fallback(); !why.empty()) return why;
  return {};
}

bool KernelJob::is_collective() const {
  const auto holds_one = [](const Segment* segment) {
    return std::ranges::any_of(segment->traced.graph.nodes,
                               [](const Tensor& value) { return weft::is_collective(*value.node()); });
  };
  return std::ranges::any_of(between_, holds_one) || std::ranges::any_of(last_, holds_one);
}

void KernelJob::fail_all(std::span<Segment* const> list, const char* why) {
  for (Segment* each : list) {
    if (each->kernels.load()) continue;
    auto none = std::make_unique<Kernels>();
    none->failure = why;
    publish(*each, std::move(none));
  }
  if (!function_.options.async) return;
  const std::lock_guard whole(process_mutex(LockOrder::functions));
  function_.background_failure = why;
}

void KernelJob::compile(std::span<Segment* const> list) {
  std::vector<Graph> graphs;
  std::vector<Segment*> missing;  // others were compiled before something was thrown
  for (Segment* each : list)
    if (!each->kernels.load()) missing.push_back(each);
  if (missing.empty()) return;
  PipelineOptions options;
  if (missing.size() == 1) options.updates = updates_of(missing[0]->traced);
  static_cast<FunctionOptions&>(options) = options_of(function_, passes_);
  options.keep = true;
  options.stored = true;
  if (function_.options.async)
    options.after = [](const StageView&) {
      if (programs_are_stopped()) throw CompileError("[compile] stopped");
    };
  for (const Segment* each : missing) {
    graphs.push_back(each->traced.graph);
    options.constant_inputs.push_back(constant_inputs(each->traced, constant_));
  }
  const CompilingForDevice target(function_.target);
  try {
    std::vector<std::shared_ptr<const Executable>> made = compile_graphs(std::move(graphs), options);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      Segment& segment = *missing[i];
      auto kernels = std::make_unique<Kernels>();
      kernels->executable = std::move(made[i]);
      if (segment.traced.decision) {
        kernels->donors.assign(segment.output_types.size(), no_leaf);
        kernels->answers = answers_of(segment);
      } else {
        kernels->donors = make_donors(kernels->executable->plan, segment.traced, owned_);
        kernels->has_error_word = has_error_word(*kernels);
        kernels->checks_wait = checks_may_wait(segment.traced, *kernels);
      }
      publish(segment, std::move(kernels));
      // A call may be replaying it, or a thread that traces may read it.
      if (!function_.options.async && !segment.keeps_graph) segment.traced.graph = {};
    }
  } catch (const CompileError& error) {
    if (programs_are_stopped()) throw;
    if (!function_.options.async &&
        (function_.options.on_compile_error == OnFailure::raise || weft::options().raise_compile_errors))
      throw_compile_error(title(function_), loc_, error.what());
    warn_of_failure(function_, error);
    fail_all(list, error.what());
  }
}

}  // namespace weft::detail
