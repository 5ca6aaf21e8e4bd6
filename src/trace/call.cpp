// One call, from leaves to results. On a hit it allocates nothing but results, which come from free lists. Calls of
// several threads share counters, and no lock: the counts of Readers, by the number of the thread; every 64th time the
// count that Check samples by; and, where another specialization is used than by the call before, Snapshot::last,
// Function::tick and Specialization::last_used. Locks are taken for the default generator where a call draws from it,
// for evaluation where an argument is pending, and for the process's free lists where the thread's have no fitting
// block.
#include <algorithm>

#include "base/fail.hpp"
#include "base/per_thread.hpp"
#include "record/computed_call.hpp"
#include "record/dry_run.hpp"
#include "record/record.hpp"
#include "record/taps.hpp"
#include "trace/background.hpp"
#include "trace/dry_run.hpp"
#include "trace/execution.hpp"
#include "trace/kernel_job.hpp"
#include "trace/observer.hpp"
#include "trace/resume.hpp"
#include "trace/specialize.hpp"

namespace weft::detail {
namespace {

// How many calls may be inside each other. A call takes some KB of the stack.
constexpr std::size_t nesting_limit = 256;

// The calls that a thread is in.
struct ScratchStack {
  std::vector<std::unique_ptr<Scratch>> all;
  std::size_t depth = 0, plain = 0;
};
ScratchStack& scratch_stack() { return per_thread<ScratchStack>(); }

void check_nesting(const ScratchStack& stack, const Function& function, Loc loc) {
  if (stack.depth + stack.plain >= nesting_limit) [[unlikely]]
    fail(title(function), loc, "is inside ", nesting_limit,
         " calls of compiled functions, the limit: the recursion has no end, or is too deep. Let the plain function "
         "call "
         "itself, and compile what begins it");
}

// Marks the arguments that share an object with another one: f(std::move(x), std::move(x)). State must not be
// reachable through another argument at all: the order of writes would decide. Sorted by address, an object that
// overlaps any before it overlaps the one of them that ends last.
void find_overlaps(Scratch& scratch, Loc loc) {
  const LeafList& arguments = scratch.arguments;
  scratch.overlaps.assign(arguments.argument, 0);
  LineVector<const LeafRun*>& runs = scratch.runs;
  runs.clear();
  bool all_inputs = true;
  for (const LeafRun& run : arguments.runs) {
    all_inputs = all_inputs && run.access == Access::input;
    if (run.begin != run.end) runs.push_back(&run);
  }
  if (all_inputs || runs.size() < 2) return;  // nothing is written, nothing gives its memory away
  std::sort(runs.begin(), runs.end(), [](const LeafRun* a, const LeafRun* b) { return a->begin < b->begin; });
  const LeafRun* last = runs.front();
  for (const LeafRun* run : runs) {
    if (run->begin < last->end && run->argument != last->argument) [[unlikely]] {
      const LeafRun *state = std::min(run, last), *other = std::max(run, last);  // in the order of the arguments
      if (state->access != Access::state) std::swap(state, other);
      if (state->access == Access::state)
        fail("compile", loc, "argument ", state->argument, ", which is written, overlaps argument ", other->argument,
             ": pass an object once (or through std::as_const, where a generic function only reads it)");
      scratch.overlaps[run->argument] = scratch.overlaps[last->argument] = 1;
    }
    if (run->end > last->end) last = run;
  }
}

// The way of a call through the tree, to the segment that gives its results. Returns the specialization that it is in;
// null where the call is to run as a plain one.
const Specialization* decide(CallContext call, const Specialization* specialization) {
  Scratch& scratch = call.scratch;
  if (scratch.path.empty() && specialization->resumable) resume(call, *specialization);
  if (scratch.path.empty()) scratch.path.push_back(&specialization->root);
  while (true) {
    bool drawn = scratch.generator_state.defined() && !hold_generator(scratch);
    while (!drawn && scratch.path.back()->segment->traced.decision) {
      const Branch& branch = *scratch.path.back();
      if (const Branch* const selected = branch.select(specialization->guards, scratch.words)) {
        scratch.path.push_back(selected);
        continue;
      }
      const FirstRound* const first = branch.segment->first_round.load(std::memory_order_acquire);
      const Segment* const loop = (first ? *first->round : *branch.segment).rounds.load(std::memory_order_acquire);
      scratch.rounds = loop ? branch.rounds.load(std::memory_order_acquire) : 1;
      naming_memory(
          [&] {
            if (loop && first) keep_for_first(call, *first);
            const std::int64_t outcome = run_to_decision(call, *specialization, loop ? *loop : *branch.segment);
            for (; scratch.rounds > 1; --scratch.rounds) {
              scratch.outcomes.push_back(loop->round_outcome);
              scratch.path.push_back(scratch.path.back()->next_round.load(std::memory_order_relaxed));
            }
            scratch.outcomes.push_back(outcome);
          },
          [] { return std::string(); }, "compile", call.loc);
      const Branch* next = scratch.path.back()->find(scratch.outcomes.back(), specialization->guards, scratch.words);
      if (next) {
        scratch.path.push_back(next);
        continue;
      }
      scratch.generator = {};  // another call may hold it and wait for the function
      specialization = extend(call, *specialization);
      if (!specialization) return nullptr;
      drawn = scratch.generator_state.defined() && !hold_generator(scratch);
    }
    if (!drawn) return specialization;
    // Another thread has drawn from the default generator meanwhile: the call goes its way with the numbers that
    // follow.
    const auto calls_host = [](const Branch* each) { return each->segment->calls_host; };
    if (specialization->resumable || std::ranges::any_of(scratch.path, calls_host))
      fail(title(call.function), call.loc,
           "another thread has drawn from the default generator while this call, which reads values, ran: call "
           "it again, or give it a generator of its own");
    scratch.generator_state = *scratch.generator.state;
    scratch.path.assign(1, &specialization->root);
    scratch.outcomes.clear();
    scratch.kept.clear();
  }
}

bool due(Check check, std::uint64_t calls) {
  if (calls < 2) return false;
  return check == Check::every_call || (calls & (calls - 1)) == 0;
}

// Calls join the trace that they are made in: what still comes here while one is made asks about a function.
void refuse_trace(Loc loc) {
  if (recorder().trace())
    fail("explain", loc,
         "explain() and is_compiled() can't be asked inside a compiled function, where a call becomes a part of that "
         "one: ask outside of it");
}

}  // namespace

void Scratch::clear() {
  arguments.clear();
  results.clear();
  pending.clear();
  values.clear();
  outputs.clear();
  for (Storage* storage : held)
    if (storage) weft::release(storage);
  held.clear();
  path.clear();
  outcomes.clear();
  kept.clear();
  generator = {};
  generator_state = Tensor();
  originals.clear();
  asked = Tensor();
  counts.clear();
  resumed = differentiated = false;
  level = UINT64_MAX;
  prototype.reset();
  state_numbers.clear();
  layout.reset();
  temporary.reset();
}

Scratch* take_scratch(const Function& function, Loc loc) {
  ScratchStack& stack = scratch_stack();
  check_nesting(stack, function, loc);
  if (stack.depth == stack.all.size()) stack.all.push_back(std::make_unique<Scratch>());
  return stack.all[stack.depth++].get();
}
void give_back(Scratch* scratch) noexcept {
  scratch->clear();
  if (--scratch_stack().depth == 0 && background::jobs_wait) [[unlikely]]
    background::let_jobs_begin();
}

Scratch& innermost_scratch() {
  const ScratchStack& stack = scratch_stack();
  return *stack.all[stack.depth - 1];
}

FunctionModes::FunctionModes(const Function* function) {
  if (function->options.autocast) autocast_.emplace(*function->options.autocast, function->loc);
}
bool joins_caller() {
  const Recorder& r = recorder();
  return !r.traces.empty() || tap_listener || stance() == Stance::force_eager;
}

PlainCall::PlainCall(const Function* function, Loc loc) {
  ScratchStack& stack = scratch_stack();
  check_nesting(stack, *function, loc);
  ++stack.plain;
}
PlainCall::~PlainCall() { --scratch_stack().plain; }

Call::Call(Function* function, const CallSignature& signature, TraceBody body, void* context, Loc loc)
    : function_(function),
      signature_(signature),
      body_(body),
      context_(context),
      loc_(loc),
      scratch_(take_scratch(*function, loc)),
      arguments_(&scratch_->arguments),
      results_(&scratch_->results) {
  scratch_->reader = function->readers.enter(scratch_->thread);
}
Call::~Call() {
  function_->readers.leave(scratch_->reader);
  give_back(scratch_);
}

bool Call::known() {
  refuse_trace(loc_);
  encode(signature_, *arguments_, scratch_->words, loc_);
  return function_->find(scratch_->words) != nullptr;
}

const void* Call::prepare() {
  prepare_under(Stance::compile);
  return prototype();
}
bool Call::begin() {
  scratch_->level = recorder().level_start;
  return prepare_under(stance());
}

bool Call::prepare_under(Stance stance) {
  refuse_trace(loc_);
  CallContext call{*function_, signature_, body_, context_, loc_, *scratch_, stance};
  find_overlaps(*scratch_, loc_);
  encode(signature_, *arguments_, scratch_->words, loc_);
  if (scratch_->level != UINT64_MAX)
    scratch_->differentiated = mark_differentiated(*arguments_, scratch_->words, scratch_->level);
  if (scratch_->differentiated && calls_join_levels) return false;
  specialization_ = function_->find(scratch_->words);
  if (!specialization_) specialization_ = specialize(call);
  if (specialization_) specialization_ = decide(call, specialization_);
  if (!specialization_) return false;
  // A thread that traces holds the function and may wait for the default generator: nobody waits the other way round.
  if (scratch_->generator.state && !specialization_->resumable &&
      due(function_->options.check, scratch_->counter.next(*specialization_))) [[unlikely]] {
    scratch_->generator = {};
    check_again(call, *specialization_);
    specialization_ = decide(call, specialization_);
  }
  return true;
}

const void* Call::prototype() const {
  const TraceResult& traced = scratch_->path.back()->segment->traced;
  return (scratch_->resumed ? scratch_->prototype : traced.prototype).get();
}

void Call::make_kernels() {
  for (const Branch* branch : scratch_->path) {
    if (!branch->segment->job) continue;
    if (is_dry_run)
      ask_for_kernels(*function_, *specialization_, branch->segment->job);
    else
      branch->segment->job->make();
  }
}

void Call::run() {
  CallContext call{*function_, signature_, body_, context_, loc_, *scratch_, Stance::compile};
  if (function_->options.check != Check::never && !is_dry_run) {
    const std::uint64_t calls = scratch_->counter.count(*specialization_);
    if (!scratch_->generator.state && !specialization_->resumable && due(function_->options.check, calls)) [[unlikely]]
      check_again(call, *specialization_);
  }
  if (scratch_->path.size() > 1)
    for (const Branch* branch : scratch_->path)
      branch->calls.store(branch->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::optional<observer::Call> observed;
  if (observer::is_on()) [[unlikely]]
    observed.emplace(*specialization_);
  naming_memory([&] { run_to_results(call, *specialization_, *scratch_->path.back()->segment); },
                [] { return std::string(); }, "compile", loc_);
  // What was moved in is left undefined: its memory may hold a result now.
  for (const Leaf& leaf : arguments_->leaves)
    if (leaf.access == Access::owned && holds_tensor(leaf.kind)) leaf.tensor() = Tensor();
}

}  // namespace weft::detail
