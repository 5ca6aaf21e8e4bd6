#include "trace/segments.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/log.hpp"
#include "ir/host_function.hpp"
#include "trace/kernel_job.hpp"
#include "trace/replay.hpp"
#include "trace/rounds.hpp"
#include "trace/select.hpp"

namespace weft::detail {
namespace {

// A segment that is not compiled yet.
Segment& add_segment(const Specialization& to, TraceResult traced, std::string structure, Backend backend) {
  Segment& made = to.segments.emplace_back();
  made.structure = std::move(structure);
  for (Tensor& value : traced.kept_for_derivative) traced.graph.outputs.push_back(std::move(value));
  traced.kept_for_derivative.clear();
  for (const Tensor& output : traced.graph.outputs) made.output_types.push_back(type_of(output));
  made.backend = backend;
  made.calls_host = calls_host(traced.graph);
  made.traced = std::move(traced);
  made.draws = made.traced.generator.kind != Source::Kind::undefined ||
               std::ranges::find(made.traced.inputs, generator_leaf) != made.traced.inputs.end();
  return made;
}

// A registered backend runs it, where the function has one.
void give_to_registered(Segment& made, CallContext call, const Specialization& to) {
  const Function& function = call.function;
  if (!function.chosen.registered || to.id == function.eager_id) return;
  GraphData data{made.traced.graph, options_of(function, pass_set_of(call.scratch.words))};
  data.constants = constant_inputs(made.traced, parameter_leaves(call.scratch.arguments));
  made.registered = std::make_shared<RegisteredRun>(function.chosen.registered, std::move(data));
}

bool computes(const TraceResult& traced) { return !traced.graph.outputs.empty() || !traced.graph.effects.empty(); }

// Whether the second branch is the next round of the first: the same segment again, whatever the sizes.
bool follows(const Segment& first, const Segment& second, std::int64_t outcome, bool any_sizes) {
  return &first == &second && any_sizes && (outcome == 0 || outcome == 1);
}
// Lets rounds run in the place of the segment before them, where that is the first round.
void find_first_round(const Segment& before, const Segment& round, const TracedPath::Step& step) {
  if (!round.loop || &before == &round || before.first_round.load() || !before.keeps_graph || !before.traced.decision ||
      round.loop->round_outcome != (step.outcome != 0) || !step.conditions.empty())
    return;
  std::optional<std::vector<FirstKept>> kept = kept_before_first(before.traced, round.traced);
  if (!kept) return;
  for (FirstKept& each : *kept) {
    if (!each.constant.defined()) continue;
    const OutsideTraces outside;
    const DefaultFloatModes modes;
    each.constant = replay(make_graph({}, {each.constant}, {}), {}, {}, Backend::eager, round.traced.decision->loc)[0];
  }
  before.made_first_round = std::make_unique<FirstRound>(FirstRound{&round, std::move(*kept)});
  before.first_round.store(before.made_first_round.get(), std::memory_order_release);
}
// Loops of segments that follow themselves for the third time, not compiled yet.
void add_loops(const Specialization& to, const Scratch& scratch, const TracedPath& path, std::size_t begin,
               std::span<const Segment* const> segments, KernelJob& job) {
  const auto segment_at = [&](std::size_t k) { return k < begin ? scratch.path[k]->segment : segments[k - begin]; };
  std::size_t repeated = 0;  // how often the segment has followed itself after the same outcome
  for (std::size_t i = 1; i < path.steps.size(); ++i) {
    const Segment &before = *segment_at(i - 1), &now = *segment_at(i);
    const bool again =
        now.traced.decision && follows(before, now, path.steps[i].outcome, path.steps[i].conditions.empty());
    repeated = !again ? 0 : repeated > 0 && path.steps[i].outcome == path.steps[i - 1].outcome ? repeated + 1 : 1;
    if (repeated < 2 || now.loop || path.steps[i].traced.graph.nodes.empty() || !now.fallback().empty()) continue;
    std::optional<TraceResult> loop = rounds_of(path.steps[i].traced, path.steps[i].outcome != 0);
    if (!loop) continue;
    Segment& made = to.segments.emplace_back();
    for (const Tensor& output : loop->graph.outputs) made.output_types.push_back(type_of(output));
    made.traced = std::move(*loop);
    made.round_outcome = path.steps[i].outcome != 0;
    now.loop = &made;
    job.add_rounds(now, made);
  }
  for (std::size_t i = 1; i < path.steps.size(); ++i)
    find_first_round(*segment_at(i - 1), *segment_at(i), path.steps[i]);
}
// For each branch of a way, from its end: how many rounds a loop may run from there.
void count_rounds(std::span<const Branch* const> path) {
  for (std::size_t i = path.size(); i-- > 1;) {
    const Branch &before = *path[i - 1], &now = *path[i];
    const Segment& round = before.segment->as_round();
    const Segment* const loop = round.loop;
    if (!loop || !follows(round, *now.segment, now.outcome, now.conditions.empty()) ||
        loop->round_outcome != (now.outcome != 0))
      continue;
    before.next_round.store(&now);
    before.rounds.store(std::max(before.rounds.load(), now.rounds.load() + 1), std::memory_order_release);
  }
}

// Where the way has come through a decision on an integer: that each value has what follows compiled.
std::string integer_advice(const Scratch& scratch, std::span<const Segment* const> segments, std::size_t begin) {
  Loc loc;
  bool found = false;
  const auto look = [&](const Segment& segment) {
    const std::optional<Decision>& decision = segment.traced.decision;
    if (!decision || decision->asked == Asked::boolean) return;
    loc = decision->loc;
    found = true;
  };
  for (std::size_t i = 0; i < begin; ++i)
    if (scratch.path[i]->segment) look(*scratch.path[i]->segment);
  for (const Segment* segment : segments) look(*segment);
  if (!found) return {};
  return concat_text(". What follows the integer that is read at ", to_string(loc),
                     " is compiled for each of its values: keep it a tensor (in arithmetic, or as a position by "
                     "weft::Index(n)), or read less of it (n > 4, minimum(n, 8))");
}

}  // namespace

const Segment* add_results(CallContext call, const Specialization& to, TraceResult traced, Backend backend,
                           const std::shared_ptr<KernelJob>& job) {
  std::string structure = traced.structure();
  if (const auto known = to.segment_of.find(structure); known != to.segment_of.end()) return known->second;
  if (backend == Backend::compiled &&
      to.pieces++ >= static_cast<std::size_t>(std::max(call.function.options.decision_limit, 0)))
    return nullptr;
  Segment& made = add_segment(to, std::move(traced), std::move(structure), backend);
  made.keeps_graph = true;
  give_to_registered(made, call, to);
  if (backend == Backend::compiled) {
    made.job = job;
    job->add(made);
  }
  to.segment_of.emplace(made.structure, &made);
  return &made;
}

std::shared_ptr<KernelJob> add_whole(CallContext call, Specialization& to, TraceResult traced, Backend backend) {
  auto job = std::make_shared<KernelJob>(call);
  const bool empty = !computes(traced);
  Segment& made = add_segment(to, std::move(traced), {}, backend);
  to.root.segment = &made;
  if (empty) return job;
  give_to_registered(made, call, to);
  if (backend != Backend::compiled) return job;
  made.job = job;
  job->add(made);
  return job;
}

std::shared_ptr<KernelJob> add_steps(CallContext call, const Specialization& to, TracedPath& path, std::size_t begin,
                                     const Branch& from, Backend backend, Branch* root) {
  const Function& function = call.function;
  Scratch& scratch = call.scratch;
  const bool decides = path.steps.size() > 1 || to.resumable;
  const auto job = std::make_shared<KernelJob>(call);
  std::vector<const Segment*> segments;
  std::unordered_map<std::string, const Segment*> fresh;
  for (std::size_t i = begin; i < path.steps.size(); ++i) {
    TraceResult& traced = path.steps[i].traced;
    std::string structure =
        decides || function.options.check != Check::never ? traced.structure(!to.resumable) : std::string();
    const auto known = to.segment_of.find(structure), shared = fresh.find(structure);
    if (decides && (known != to.segment_of.end() || shared != fresh.end())) {
      segments.push_back(known != to.segment_of.end() ? known->second : shared->second);
      continue;
    }
    const bool gives_results = !traced.decision;
    const bool empty = !gives_results && !computes(traced);
    Segment& made = add_segment(to, std::move(traced), std::move(structure), backend);
    segments.push_back(&made);
    if (decides) fresh.emplace(made.structure, &made);
    made.keeps_graph = decides && !to.resumable;
    if (!empty) give_to_registered(made, call, to);
    if (backend != Backend::compiled || empty) continue;
    const auto limit = static_cast<std::size_t>(std::max(function.options.decision_limit, 0));
    if (decides && to.pieces++ >= limit) {
      made.backend = Backend::eager;
      made.no_job = concat_text("it is beyond decision_limit, ", limit);
      if (to.pieces == limit + 1)  // the first, for one sentence a specialization
        logging::warn_once(concat_text(title(function), ": its decisions have cut it into more than ", limit,
                                       " different pieces, its decision_limit. Further ones run eagerly",
                                       integer_advice(scratch, segments, begin)));
      continue;
    }
    made.job = job;
    job->add(made);
  }
  if (decides && !to.resumable && backend == Backend::compiled) add_loops(to, scratch, path, begin, segments, *job);
  to.segment_of.merge(fresh);
  // From the end, so that another call finds the whole of it or nothing.
  Branch* below = nullptr;
  std::vector<const Branch*> made_path(segments.size());
  for (std::size_t i = segments.size(); i-- > 0;) {
    const bool is_root = begin + i == 0 && !to.resumable;
    TracedPath::Step& step = path.steps[begin + i];
    Branch& branch = is_root ? *root : to.branches.emplace_back();
    branch.segment = segments[i];
    branch.outcome = step.outcome;
    if (!is_root) branch.conditions = std::move(step.conditions);
    branch.recording = std::move(step.recording);
    branch.lifted = std::move(step.lifted);
    branch.host_inputs = std::move(step.host_inputs);
    if (i + 1 < segments.size()) {
      branch.kept = std::move(path.steps[begin + i].kept);
      branch.first.store(below, std::memory_order_release);
    }
    below = &branch;
    made_path[i] = &branch;
  }
  scratch.path.insert(scratch.path.end(), made_path.begin(), made_path.end());
  if (decides) {
    if (!to.resumable) count_rounds(scratch.path);
    scratch.outcomes.clear();
    for (std::size_t i = 1; i < path.steps.size(); ++i) scratch.outcomes.push_back(path.steps[i].outcome);
    scratch.kept.assign(std::make_move_iterator(path.kept.begin()), std::make_move_iterator(path.kept.end()));
    scratch.generator_state = path.generator;
    scratch.counts = std::move(path.counts);
  }
  if (decides && !to.resumable && function.options.auto_select) add_selected(call, to, backend, job);
  if (begin > 0 || to.resumable) {  // another call that finds the branches may make the job, which is whole now
    below->next = from.first.load(std::memory_order_relaxed);
    from.first.store(below, std::memory_order_release);
  }
  return job;
}

}  // namespace weft::detail
