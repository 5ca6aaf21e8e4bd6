#include "trace/segments.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/no_compiler.hpp"
#include "trace/rounds.hpp"

namespace weft::detail {
namespace {

// A leaf's memory may hold a result when the call replaces the leaf by something that it computed.
std::vector<std::uint32_t> make_donors(const runtime::Plan& plan, const TraceResult& traced,
                                       const LeafList& arguments) {
  std::vector<std::uint8_t> donatable(arguments.leaves.size(), 0);
  for (std::size_t i = 0; i < arguments.leaves.size(); ++i) donatable[i] = arguments.leaves[i].access == Access::owned;
  for (const TraceResult::State& state : traced.states) donatable[state.leaf] = 1;
  auto keep = [&](const Source& source) {
    if (source.kind == Source::Kind::argument && source.index < donatable.size()) donatable[source.index] = 0;
  };
  for (const Source& source : traced.results) keep(source);
  for (const TraceResult::State& state : traced.states) keep(state.source);
  std::vector<std::uint32_t> donors(static_cast<std::size_t>(plan.result_count), no_leaf);
  for (const runtime::Plan::Donation& donation : plan.donations) {
    const std::uint32_t leaf = traced.inputs[static_cast<std::size_t>(donation.argument)];
    if (leaf != generator_leaf && !is_kept(leaf) && donatable[leaf])
      donors[static_cast<std::size_t>(donation.result)] = leaf;
  }
  return donors;
}

// On a device a call need not wait for its checks where all state is either written back by the host, after it has
// waited, or left alone by the kernels after a check that fails.
bool checks_may_wait(const Segment& made) {
  if (made.traced.decision) return false;
  const runtime::Plan& plan = made.executable->plan;
  const auto is = [&](auto property) { return std::any_of(plan.buffers.begin(), plan.buffers.end(), property); };
  using Kind = runtime::PlanBuffer::Kind;
  if (!is([](const runtime::PlanBuffer& buffer) { return buffer.kind == Kind::error; })) return false;
  if (is([](const runtime::PlanBuffer& buffer) { return buffer.kind == Kind::result && buffer.host; })) return true;
  return made.traced.numbers.empty() &&
         std::all_of(made.traced.states.begin(), made.traced.states.end(), [&](const TraceResult::State& state) {
           return state.source.kind == Source::Kind::computed && made.donors[state.source.index] == state.leaf;
         });
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
  for (const TraceResult::State& state : traced.states) {
    const auto input = std::find(traced.inputs.begin(), traced.inputs.end(), state.leaf);
    if (state.source.kind == Source::Kind::computed && input != traced.inputs.end())
      updates.push_back({static_cast<int>(input - traced.inputs.begin()), static_cast<int>(state.source.index)});
  }
  return updates;
}

// Of segments that lie between decisions, or of the one that gives the results.
void compile_kernels(std::span<Segment* const> list, const Function& function, Loc loc) {
  PipelineOptions options;
  if (list.size() == 1) options.updates = updates_of(list[0]->traced);
  options.keep = true;
  options.title = title(function);
  std::vector<Graph> graphs;
  for (const Segment* each : list) graphs.push_back(each->traced.graph);
  try {
    std::vector<std::shared_ptr<const Executable>> made = compile_graphs(std::move(graphs), options);
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i]->executable = std::move(made[i]);
      list[i]->traced.graph = {};
    }
  } catch (const CompileError& error) {
    if (function.options.on_compile_error == OnFailure::raise || weft::options().raise_compile_errors)
      throw_compile_error(title(function), loc, error.what());
    for (Segment* each : list) {
      each->fallback = error.what();
      each->backend = Backend::eager;
    }
    warn_of_failure(function, error);
  }
}

bool computes(const TraceResult& traced) { return !traced.graph.outputs.empty() || !traced.graph.effects.empty(); }

// Whether the second branch is the next round of the first: the same segment again, whatever the sizes.
bool follows(const Segment& first, const Segment& second, std::int64_t outcome, bool any_sizes) {
  return &first == &second && any_sizes && (outcome == 0 || outcome == 1);
}
// Loops of segments that follow themselves for the third time, not compiled yet.
struct Loop {
  const Segment* segment;
  Segment* rounds;
};
std::vector<Loop> add_loops(const Specialization& to, const Scratch& scratch, const TracedPath& path, std::size_t begin,
                            std::span<const Segment* const> segments) {
  std::vector<Loop> loops;
  std::size_t repeated = 0;  // how often the segment has followed itself after the same outcome
  for (std::size_t i = 1; i < path.steps.size(); ++i) {
    const auto segment_at = [&](std::size_t k) -> const Segment& {
      return k < begin ? *scratch.path[k]->segment : *segments[k - begin];
    };
    const Segment &before = segment_at(i - 1), &now = segment_at(i);
    const bool again =
        now.traced.decision && follows(before, now, path.steps[i].outcome, path.steps[i].conditions.empty());
    repeated = !again ? 0 : repeated > 0 && path.steps[i].outcome == path.steps[i - 1].outcome ? repeated + 1 : 1;
    if (repeated < 2 || now.rounds.load() || path.steps[i].traced.graph.nodes.empty() || !now.fallback.empty() ||
        std::ranges::find(loops, &now, &Loop::segment) != loops.end())
      continue;
    std::optional<TraceResult> loop = rounds_of(path.steps[i].traced, path.steps[i].outcome != 0);
    if (!loop) continue;
    Segment& made = to.segments.emplace_back();
    for (const Tensor& output : loop->graph.outputs) made.output_types.push_back(type_of(output));
    made.donors.assign(loop->graph.outputs.size(), no_leaf);
    made.traced = std::move(*loop);
    made.round_outcome = path.steps[i].outcome != 0;
    loops.push_back({&now, &made});
  }
  return loops;
}
// For each branch of a way, from its end: how many rounds a loop may run from there.
void count_rounds(std::span<const Branch* const> path) {
  for (std::size_t i = path.size(); i-- > 1;) {
    const Branch &before = *path[i - 1], &now = *path[i];
    const Segment* const loop = before.segment->rounds.load();
    if (!loop || !follows(*before.segment, *now.segment, now.outcome, now.conditions.empty()) ||
        loop->round_outcome != (now.outcome != 0))
      continue;
    before.next_round.store(&now);
    before.rounds.store(std::max(before.rounds.load(), now.rounds.load() + 1), std::memory_order_release);
  }
}

}  // namespace

void add_steps(CallContext call, const Specialization& to, TracedPath& path, std::size_t begin, Branch* from,
               Backend backend) {
  const Function& function = call.function;
  Scratch& scratch = call.scratch;
  const bool decides = path.steps.size() > 1;
  std::vector<Segment*> pieces, last;  // to be compiled
  std::vector<const Segment*> segments;
  std::unordered_map<std::string, const Segment*> fresh;
  for (std::size_t i = begin; i < path.steps.size(); ++i) {
    TraceResult& traced = path.steps[i].traced;
    std::string structure = decides || function.options.check != Check::never ? traced.structure() : std::string();
    const auto known = to.segment_of.find(structure), shared = fresh.find(structure);
    if (decides && (known != to.segment_of.end() || shared != fresh.end())) {
      segments.push_back(known != to.segment_of.end() ? known->second : shared->second);
      continue;
    }
    Segment& made = to.segments.emplace_back();
    segments.push_back(&made);
    if (decides) fresh.emplace(structure, &made);
    made.structure = std::move(structure);
    for (const Tensor& output : traced.graph.outputs) made.output_types.push_back(type_of(output));
    made.donors.assign(traced.graph.outputs.size(), no_leaf);
    made.backend = backend;
    const bool gives_results = !traced.decision;
    const bool empty = !gives_results && !computes(traced);
    made.traced = std::move(traced);
    made.draws = made.traced.generator.kind != Source::Kind::undefined ||
                 std::ranges::find(made.traced.inputs, generator_leaf) != made.traced.inputs.end();
    if (backend != Backend::compiled || empty) continue;
    if (decides && to.pieces++ >= static_cast<std::size_t>(std::max(function.options.decision_limit, 0))) {
      made.backend = Backend::eager;
      made.fallback = concat_text("it is beyond decision_limit, ", function.options.decision_limit);
      logging::warn_once(concat_text(title(function), ": its decisions have cut it into more than ",
                                     function.options.decision_limit,
                                     " different pieces, its decision_limit. Further ones run eagerly"));
      continue;
    }
    (gives_results ? last : pieces).push_back(&made);
  }
  std::vector<Loop> loops;
  if (decides && backend == Backend::compiled) loops = add_loops(to, scratch, path, begin, segments);
  for (const Loop& loop : loops) {
    std::erase(pieces, loop.segment);  // one round of the loop is it
    pieces.push_back(loop.rounds);
  }
  if (!pieces.empty()) compile_kernels(pieces, function, call.loc);
  for (const Loop& loop : loops)
    if (loop.rounds->executable) loop.segment->rounds.store(loop.rounds, std::memory_order_release);
  for (Segment* each : last) {
    compile_kernels(std::span(&each, 1), function, call.loc);
    if (!each->executable) continue;
    each->donors = make_donors(each->executable->plan, each->traced, scratch.arguments);
    each->checks_wait = checks_may_wait(*each);
  }
  to.segment_of.merge(fresh);
  // From the end, so that another call finds the whole of it or nothing.
  Branch* below = nullptr;
  std::vector<const Branch*> made_path(segments.size());
  for (std::size_t i = segments.size(); i-- > 0;) {
    const bool is_root = begin + i == 0;
    TracedPath::Step& step = path.steps[begin + i];
    Branch& branch = is_root ? *from : to.branches.emplace_back();
    branch.segment = segments[i];
    branch.outcome = step.outcome;
    if (!is_root) branch.conditions = std::move(step.conditions);
    if (i + 1 < segments.size()) {
      branch.kept = std::move(path.steps[begin + i].kept);
      branch.first.store(below, std::memory_order_release);
    }
    below = &branch;
    made_path[i] = &branch;
  }
  if (begin > 0) {
    below->next = from->first.load(std::memory_order_relaxed);
    from->first.store(below, std::memory_order_release);
  }
  scratch.path.insert(scratch.path.end(), made_path.begin(), made_path.end());
  if (!decides) return;
  count_rounds(scratch.path);
  scratch.outcomes.clear();
  for (std::size_t i = 1; i < path.steps.size(); ++i) scratch.outcomes.push_back(path.steps[i].outcome);
  scratch.kept = std::move(path.kept);
  scratch.generator_state = path.generator;
}

}  // namespace weft::detail
