#include "trace/specialize.hpp"

#include <algorithm>

#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/trace_clock.hpp"
#include "record/dry_run.hpp"
#include "trace/background.hpp"
#include "trace/dry_run.hpp"
#include "trace/kernel_job.hpp"
#include "trace/level_call.hpp"
#include "trace/names.hpp"
#include "trace/observer.hpp"
#include "trace/segments.hpp"
#include "trace/symbols.hpp"
#include "trace/tracing.hpp"
#include "trace/unread.hpp"

namespace weft::detail {
namespace {

Guards make_guards(const TraceResult& first, std::vector<Guards::Symbol> symbols, const Words& words) {
  Guards guards;
  guards.words.assign(words.data(), words.data() + words.size);
  if (symbols.empty()) return guards;
  guards.mask.assign(words.size, ~0ull);
  for (const Guards::Symbol& symbol : symbols)
    for (const std::size_t position : symbol.positions) guards.mask[position] = 0;
  guards.symbols = std::move(symbols);
  guards.conditions = first.graph.conditions;
  return guards;
}

// Kernels are chosen by the sizes of the call that traced. Where those are 0 or 1 and other calls had greater ones, and
// no decision forbids them, these are the better example.
void take_larger_hints(Graph& graph, std::span<const Guards::Symbol> symbols) {
  const auto holds = [&](const DimCondition& condition) {
    return is_satisfied(condition, [&](std::size_t symbol) { return graph.symbols[symbol].hint; });
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::int64_t own = graph.symbols[i].hint, larger = std::max<std::int64_t>(symbols[i].greatest, 2);
    if (own >= 2 || larger > symbols[i].upper) continue;
    graph.symbols[i].hint = larger;
    if (!std::ranges::all_of(graph.conditions, holds)) graph.symbols[i].hint = own;
  }
}

struct Made {
  std::shared_ptr<Specialization> specialization;
  std::shared_ptr<KernelJob> job;
};
Made make_specialization(CallContext call, std::vector<Guards::Symbol> symbols, Backend backend, std::uint64_t id) {
  auto made = std::make_shared<Specialization>(id);
  const Function& function = call.function;
  TracedPath path;
  const auto trace = [&](std::vector<Guards::Symbol>& symbols) {
    TracedPath path = take_trace(call, symbols, {});
    const auto merge = [&] {
      bool any = false;
      for (const TracedPath::Step& step : path.steps) any = any || merge_equal(symbols, step.traced.graph);
      return any;
    };
    while (merge()) path = take_trace(call, symbols, {});
    return path;
  };
  const bool all = function.options.dynamic.sizes == Dynamic::Sizes::all;
  // Whether a symbol may be replaced by a number, since the user did not ask for it. mark_dynamic asks for a size, and
  // {.dynamic = true} for all sizes but 0 and 1.
  const auto may_be_number = [&](const Guards::Symbol& symbol) {
    return !symbol.marked && (!all || call.scratch.words.data()[symbol.positions[0]] < 2);
  };
  if (!all ? !symbols.empty() : std::ranges::any_of(symbols, may_be_number)) {
    // A trace that fails with symbols is taken again with numbers for those that may become numbers. If it fails again,
    // that is the error: it names the sizes.
    try {
      path = trace(symbols);
    } catch (const Error&) {
      std::vector<Guards::Symbol> none;
      if (!all) path = trace(none);
      if (std::erase_if(symbols, may_be_number) == 0) throw;
      if (all || !symbols.empty()) path = trace(symbols);
    }
  } else {
    path = trace(symbols);
  }
  if (call.scratch.differentiated && (path.steps.size() > 1 || path.resumable)) return {nullptr, nullptr};
  made->resumable = path.resumable;
  if (path.steps.size() == 1 && !path.resumable)
    free_unread_sizes(call, symbols, path.steps[0].traced, [&](const std::vector<Guards::Symbol>& more) -> TraceResult {
      TracedPath again = take_trace(call, more, {});
      return std::move(again.last());
    });
  made->symbolic = !symbols.empty();
  check_marks(call, symbols, path.last().graph);
  for (TracedPath::Step& step : path.steps) take_larger_hints(step.traced.graph, symbols);
  if (call.scratch.differentiated) made->level = make_level_body(call, path.steps[0].traced, backend);
  made->guards = make_guards(path.steps[0].traced, std::move(symbols), call.scratch.words);
  if (path.resumable) made->guards.conditions.clear();  // its branches have them
  std::shared_ptr<KernelJob> job = add_steps(call, *made, path, 0, made->root, backend, &made->root);
  return {std::move(made), std::move(job)};
}

// Why none of what is there fits: against what was used last.
Difference recompile_reason(CallContext call, const Snapshot* snapshot) {
  if (!snapshot) return {"Check dropped what was compiled: the function does something else now"};
  const Guards& guards = snapshot->list[snapshot->last.load()]->guards;
  return violation(guards, call.layout(), call.scratch.words);
}

// The name of a number that differs from what was used last, where the function itself changes it: no call finds the
// value of the one before. Empty where there is none.
std::string changed_number(CallContext call) {
  const Snapshot* const snapshot = call.function.current.load();
  if (!snapshot) return {};
  const Specialization& last = *snapshot->list[snapshot->last.load()];
  const CallLayout& layout = call.layout();
  for (const Segment& segment : last.segments)
    for (const auto& [leaf, bytes] : segment.traced.numbers) {
      const std::size_t word = layout.word(leaf);
      if (last.guards.words.size() == call.scratch.words.size &&
          last.guards.words[word] != call.scratch.words.data()[word])
        return layout.name(leaf);
    }
  return {};
}

// The place of an outgrown tree in the list of them, if this call's was dropped for its branches.
std::vector<Guards>::iterator find_outgrown(CallContext call) {
  return std::ranges::find_if(call.function.outgrown,
                              [&](const Guards& guards) { return guards.hold(call.scratch.words); });
}

// Whether the call differs from what was compiled for such arguments only in that a size is 0 or 1. A few
// specializations serve all of these, so they do not count towards recompile_limit, as long as they leave room for
// others: half of cache_size. A limit of 0 means that nothing is compiled again.
bool is_free(CallContext call) {
  const Function& function = call.function;
  const Snapshot* const snapshot = function.current.load();
  const int most = function.options.recompile_limit > 0 ? function.options.cache_size / 2 : 0;
  if (!snapshot || function.options.dynamic.sizes == Dynamic::Sizes::none ||
      function.uncounted >= static_cast<std::size_t>(std::max(most, 0)))
    return false;
  bool found = false;
  for (const auto& each : snapshot->list) {
    const Likeness like = likeness(each->guards, call.layout(), call.scratch.words);
    if (like == Likeness::other_sizes) return false;
    found |= like == Likeness::all_but_ones;
  }
  return found;
}

}  // namespace

void make_kernels(CallContext call, const Specialization& specialization, std::shared_ptr<KernelJob> job) {
  if (job->empty()) return;
  if (is_dry_run) ask_for_kernels(call.function, specialization, job);
  if (is_dry_run && !call.function.options.async) return;
  if (call.function.options.async && !job->is_collective())
    background::add(call.function, specialization.shared_from_this(), std::move(job));
  else
    job->make();
}

namespace {
// Only a size that was compiled as a number is a symbol under {.dynamic = true}: a guard on a symbol stays one.
const char* size_advice(const Function& function, const Difference& reason) {
  if (reason.of_size && function.options.dynamic.sizes != Dynamic::Sizes::all)
    return " (sizes may vary under {.dynamic = true})";
  if (reason.of_one)
    return " (a size that is sometimes 0 or 1 may vary too, by mark_dynamic(x, axis, 0); where the function asks "
           "whether it is, as where it meets another size that it may be repeated to, each answer is compiled: call it "
           "with expanded arguments)";
  return "";
}
}  // namespace

bool may_compile(CallContext call, Digest what, const std::string& reason) {
  switch (call.stance) {
    case Stance::compile: return true;
    case Stance::force_eager:
    case Stance::eager_on_recompile: return false;
    case Stance::fail_on_recompile:
      fail(title(call.function), call.loc,
           "it would be compiled, which the stance fail_on_recompile forbids: ", reason);
    case Stance::eager_then_compile: break;
  }
  std::vector<Digest>& met = call.function.met;
  if (std::ranges::find(met, what) != met.end()) return true;
  if (met.size() == 64) met.erase(met.begin());
  met.push_back(what);
  return false;
}

std::string beyond_limit(CallContext call, const std::string& reason) {
  Function& function = call.function;
  const std::size_t counted_ones = function.compiled + function.derivatives - function.uncounted - function.regrown;
  if (counted_ones <= static_cast<std::size_t>(std::max(function.options.recompile_limit, 0))) return {};
  const std::string limit = concat_text("recompiled ", counted(function.options.recompile_limit, "time", "times"),
                                        ", the limit; the last reason: ", reason);
  if (function.options.on_recompile_limit == OnFailure::raise) fail(title(function), call.loc, limit);
  if (!std::exchange(function.limit_reported, true))
    logging::warn_once(title(function) + ": " + limit + ". Further ones run eagerly, traced on each call");
  return limit;
}

Digest digest_of(const Scratch& scratch) {
  Hasher hasher;
  for (std::size_t i = 0; i < scratch.words.size; ++i) hasher.add(scratch.words.data()[i]);
  for (const std::int64_t outcome : scratch.outcomes) hasher.add(static_cast<std::uint64_t>(outcome));
  return hasher.digest();
}

namespace {
// Whether a differentiated call of such arguments is known to run as a plain one. The function's mutex is held.
bool is_joining(CallContext call) {
  const std::vector<Digest>& joining = call.function.joining;
  return call.scratch.differentiated && !joining.empty() &&
         std::ranges::find(joining, digest_of(call.scratch)) != joining.end();
}
void add_joining(CallContext call) {
  std::vector<Digest>& joining = call.function.joining;
  if (joining.size() == 64) joining.erase(joining.begin());
  joining.push_back(digest_of(call.scratch));
  logging::warn_once(title(call.function) +
                     ": it reads values, so where it is called inside value_and_grad or grad its operations run "
                     "eagerly. Compile the function that differentiates instead");
}
}  // namespace

const Specialization* specialize(CallContext call) {
  Function& function = call.function;
  if (function.refuse) function.refuse(call);
  std::unique_lock lock(function.mutex);
  if (const Specialization* found = function.find(call.scratch.words)) return found;
  if (is_joining(call)) return nullptr;
  if (call.stance != Stance::compile &&
      !may_compile(
          call, digest_of(call.scratch),
          function.compiled ? recompile_reason(call, function.current.load()).text : "it has not been compiled yet"))
    return nullptr;
  bool uncounted = false;
  const auto begin = observer::Clock::now();
  Difference reason;
  std::string limit;  // why the call is beyond it; empty where it is not
  std::vector<Guards::Symbol> symbols = choose_symbols(call);
  const bool regrows = find_outgrown(call) != function.outgrown.end();
  if (function.compiled > 0) {
    reason = regrows ? Difference{concat_text("the tree of its decisions had ", function.most_branches,
                                              " branches, was dropped, and grows again")}
                     : recompile_reason(call, function.current.load());
    if (const std::string number = function.compiled > 1 ? changed_number(call) : ""; !number.empty())
      logging::warn_once(concat_text(title(function), ": ", number,
                                     " is a number that the function changes in each call, and each of its values is "
                                     "compiled: make it a weft::Index or a weft::Scalar (count += 1), or a Buffer"));
    logging::write(logging::Channel::recompiles,
                   title(function) + ": " + reason.text + new_symbols_text(call, symbols));
    note_recompilation(function, reason.text);
    uncounted = !regrows && is_free(call);
    if (!uncounted && !regrows) limit = beyond_limit(call, reason.text + size_advice(function, reason));
    if (!limit.empty() && call.scratch.differentiated) return nullptr;
  }
  const bool is_beyond = !limit.empty();
  Backend backend = is_beyond ? Backend::eager : function.chosen.own;
  const std::uint64_t id = is_beyond ? function.eager_id : new_id();
  const double autograd = autograd_milliseconds;
  const auto traced = observer::Clock::now();
  Made all = make_specialization(call, std::move(symbols), backend, id);
  const std::shared_ptr<Specialization>& made = all.specialization;
  if (!made) return add_joining(call), nullptr;
  made->trace_milliseconds = std::chrono::duration<double, std::milli>(observer::Clock::now() - traced).count();
  made->autograd_milliseconds = autograd_milliseconds - autograd;
  made->number = function.compiled;
  if (is_beyond)
    for (Segment& segment : made->segments) segment.no_job = limit;
  ++compilations_of_thread;
  if (logging::enabled(logging::Channel::guards))
    for (const std::string& line : guard_texts(made->guards, call.layout()))
      logging::write(logging::Channel::guards, title(function) + ": " + line);
  if (is_beyond) {
    call.scratch.temporary = made;
  } else {
    ++function.compiled;
    function.uncounted += uncounted;
    function.regrown += regrows;
    if (regrows) function.outgrown.erase(find_outgrown(call));
    made->last_used.store(function.tick.fetch_add(1) + 1);
    function.add(made);
  }
  lock.unlock();
  try {
    make_kernels(call, *made, all.job);
  } catch (...) {
    lock.lock();
    if (function.drop(*made)) {
      --function.compiled;
      function.uncounted -= uncounted;
      function.regrown -= regrows;
      if (regrows) function.outgrown.push_back(made->guards);
    }
    throw;
  }
  if (observer::is_on()) [[unlikely]]
    observer::add({call, *made, is_beyond, reason.text, begin});
  return made.get();
}

}  // namespace weft::detail
