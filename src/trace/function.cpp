#include "trace/function.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/trace_clock.hpp"
#include "trace/background.hpp"
#include "trace/decisions.hpp"
#include "trace/kernel_job.hpp"
#include "trace/level_call.hpp"
#include "trace/names.hpp"
#include "trace/observer.hpp"
#include "trace/segments.hpp"
#include "trace/select.hpp"
#include "trace/symbols.hpp"
#include "trace/tracing.hpp"
#include "trace/unread.hpp"

namespace weft::detail {

std::string title(const Function& function) {
  std::string where = to_string(function.loc);
  return "compile" + (where.empty() ? "" : " at " + where);
}
FunctionOptions options_of(const Function& function, std::uint64_t passes) {
  return {title(function), registered_passes(passes), function.chosen.device, function.options.level,
          function.options.region, function.options.precision};
}

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

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
    const auto value = [&](Dim dim) {
      return dims::evaluate(
          dim, [&](const DimNode* atom) { return graph.symbols[static_cast<std::size_t>(atom->number)].hint; });
    };
    const std::int64_t left = value(condition.left), right = value(condition.right);
    return (condition.kind == DimCondition::Kind::equal ? left == right : left < right) == condition.holds;
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
  const auto trace = [&](const std::vector<Guards::Symbol>& symbols) { return take_trace(call, symbols, {}); };
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
      if (!all) path = trace({});
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
      TracedPath again = trace(more);
      return std::move(again.last());
    });
  made->symbolic = !symbols.empty();
  check_marks(call, symbols, path.last().graph);
  for (TracedPath::Step& step : path.steps) take_larger_hints(step.traced.graph, symbols);
  if (call.scratch.differentiated) made->level = make_level_body(call, path.steps[0].traced, backend);
  made->guards = make_guards(path.steps[0].traced, std::move(symbols), call.scratch.words);
  if (path.resumable) made->guards.conditions.clear();  // its branches have them
  std::shared_ptr<KernelJob> job = add_steps(call, *made, path, 0, &made->root, backend);
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
  if (call.function.options.async)
    background::add(call.function, specialization.shared_from_this(), std::move(job));
  else
    job->make();
}

Function* make_function(const CompileOptions& options, Loc loc) {
  ChosenBackend chosen = choose_backend(options.backend, loc);
  if (options.autocast) (void)Autocast(*options.autocast, loc);  // checks the type
  auto* function = new Function;
  function->options = options;
  function->options.backend = chosen.own;
  function->chosen = std::move(chosen);
  function->loc = loc;
  return function;
}
void retain(Function* function) noexcept { function->references.fetch_add(1, std::memory_order_relaxed); }
void release(Function* function) noexcept {
  if (function->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete function;
}

std::uint64_t Readers::count() const {
  std::uint64_t sum = 0;
  for (const auto& slot : counts_.all()) sum += slot.value.load();
  return sum;
}

const Specialization* Function::find(const Words& words) const {
  const Snapshot* snapshot = current.load();  // after the call was counted: see publish
  if (!snapshot) return nullptr;
  std::size_t last = snapshot->last.load(std::memory_order_relaxed);
  if (snapshot->list[last]->guards.hold(words)) return snapshot->list[last].get();
  for (std::size_t i = 0; i < snapshot->list.size(); ++i) {
    if (i == last || !snapshot->list[i]->guards.hold(words)) continue;
    snapshot->last.store(i, std::memory_order_relaxed);
    snapshot->list[i]->last_used.store(tick.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return snapshot->list[i].get();
  }
  return nullptr;
}

void Function::add(std::shared_ptr<const Specialization> made) {
  std::vector<std::shared_ptr<const Specialization>> list;
  if (const Snapshot* old = current.load()) list = old->list;
  auto capacity = static_cast<std::size_t>(std::max(options.cache_size, 1));
  while (list.size() >= capacity)
    list.erase(std::min_element(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a->last_used.load() < b->last_used.load();
    }));
  list.push_back(std::move(made));
  publish(std::move(list));
}

std::shared_ptr<const Specialization> Function::drop(const Specialization& stale) {
  const Snapshot* old = current.load();
  if (!old) return nullptr;
  std::vector<std::shared_ptr<const Specialization>> list = old->list;
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& each) { return each.get() == &stale; });
  if (found == list.end()) return nullptr;
  std::shared_ptr<const Specialization> dropped = *found;
  list.erase(found);
  publish(std::move(list));
  return dropped;
}

void Function::publish(std::vector<std::shared_ptr<const Specialization>> list) {
  std::unique_ptr<Snapshot> next;
  if (!list.empty()) {
    next = std::make_unique<Snapshot>();
    next->last = list.size() - 1;
    next->list = std::move(list);
  }
  std::deque<std::unique_ptr<const Snapshot>> earlier;
  const std::lock_guard whole(process_mutex(LockOrder::functions));  // a fork sees all of it or nothing
  snapshots.push_back(std::move(next));
  current.store(snapshots.back().get());
  // Only this call is in flight: nobody reads the earlier lists. A call that is counted later finds the new one.
  if (readers.count() != 1) return;
  earlier.push_back(std::move(snapshots.back()));
  earlier.swap(snapshots);
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

void note_recompilation(Function& function, const std::string& reason) {
  const std::lock_guard whole(process_mutex(LockOrder::functions));
  function.recompile_reasons.push_back(reason);
  if (function.recompile_reasons.size() > 64) function.recompile_reasons.erase(function.recompile_reasons.begin());
}

namespace {
Digest digest_of(const Scratch& scratch) {
  Hasher hasher;
  for (std::size_t i = 0; i < scratch.words.size; ++i) hasher.add(scratch.words.data()[i]);
  for (const std::int64_t outcome : scratch.outcomes) hasher.add(static_cast<std::uint64_t>(outcome));
  return hasher.digest();
}
}  // namespace

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

namespace {

// The user's error where one of the first steps of a trace is not what the branches have.
void compare(const CallContext& call, const TracedPath& again, std::span<const Branch* const> branches) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const TraceResult& traced = again.steps[i].traced;
    const std::string structure = traced.structure();
    const std::string& earlier = branches[i]->segment->structure;
    if (structure == earlier) continue;
    std::vector<std::string> before = lines_of(earlier), now = lines_of(structure);
    std::size_t line = 0;
    while (line < before.size() && line < now.size() && before[line] == now[line]) ++line;
    std::string was = line < before.size() ? before[line] : "(nothing)",
                is = line < now.size() ? now[line] : "(nothing)";
    // The line of an operation begins with its number; a node with a body takes several lines.
    Loc loc = call.loc;
    std::string prefix = is.substr(0, is.find(' ') + 1);
    for (const Tensor& node : traced.graph.nodes)
      if ("%" + std::to_string(traced.graph.number(node)) + " " == prefix && node.node()->op != Op::input)
        loc = node.node()->loc;
    fail(title(call.function), loc,
         "the function does something else than when it was compiled: it reads what guards cannot "
         "see (a global, a captured pointer). Pass it as an argument. The first operation that differs was `",
         was, "`, is `", is, "`");
  }
}

TakenWay way_of(const Scratch& scratch) {
  TakenWay way;
  way.branches.assign(scratch.path.begin(), scratch.path.end());
  way.outcomes.assign(scratch.outcomes.begin(), scratch.outcomes.end());
  way.kept.assign(scratch.kept.begin(), scratch.kept.end());
  way.generator = scratch.generator_state;
  return way;
}

// Throws where the function does something else.
void compare_again(CallContext call, const Specialization& specialization) {
  for (TakenWay& way : ways_of_sides(way_of(call.scratch))) {
    way.kept.clear();
    way.to_the_end = true;
    const TracedPath again = take_trace(call, specialization.guards.symbols, way);
    if (again.steps.size() != way.branches.size())
      fail(title(call.function), call.loc,
           "the function decides otherwise than when it was compiled, for the same values: it reads what guards cannot "
           "see (a global, a captured pointer). Pass it as an argument");
    compare(call, again, way.branches);
  }
}
}  // namespace

namespace {
// Drops a tree that has too many branches. The function's mutex is held.
void drop_large_tree(CallContext call, const Specialization& specialization) {
  if (specialization.branches.size() < call.function.most_branches) return;
  logging::warn_once(concat_text(title(call.function),
                                 ": its decisions have taken so many ways that their tree is dropped, and "
                                 "grows again"));
  if (auto dropped = call.function.drop(specialization)) {
    call.function.outgrown.push_back(dropped->guards);
    call.scratch.temporary = std::move(dropped);
  }
}

// The function has come to a value that flows into host code, on a way that was not traced before. The tree so far is
// followed without its code: another one takes its place.
std::shared_ptr<Specialization> resumable_in_place_of(CallContext call, const Specialization& earlier) {
  Function& function = call.function;
  auto made = std::make_shared<Specialization>(earlier.id == function.eager_id ? earlier.id : new_id());
  made->guards = earlier.guards;
  made->symbolic = earlier.symbolic;
  made->number = earlier.number;
  made->resumable = true;
  if (function.drop(earlier)) {
    made->last_used.store(function.tick.fetch_add(1) + 1);
    function.add(made);
  } else {
    call.scratch.temporary = made;
  }
  return made;
}
}  // namespace

const Specialization* extend(CallContext call, const Specialization& specialization) {
  Function& function = call.function;
  Scratch& scratch = call.scratch;
  std::unique_lock lock(function.mutex);
  const Branch* const from = scratch.path.back();
  if (const Branch* found = from->find(scratch.outcomes.back(), specialization.guards, scratch.words)) {
    scratch.path.push_back(found);
    return &specialization;
  }
  if (call.stance != Stance::compile &&
      !may_compile(call, digest_of(scratch),
                   concat_text("what was decided ", to_string(from->segment->traced.decision->loc), " is new")))
    return nullptr;
  TracedPath path = take_trace(call, specialization.guards.symbols, way_of(scratch));
  const std::size_t begin = scratch.path.size();
  if (path.steps.size() <= begin)
    fail(title(function), call.loc,
         "the function decides otherwise than when it was compiled, for the same values: it reads what guards cannot "
         "see (a global, a captured pointer). Pass it as an argument");
  compare(call, path, scratch.path);
  const Backend backend = specialization.id == function.eager_id ? Backend::eager : function.chosen.own;
  if (path.resumable) {
    const std::shared_ptr<Specialization> made = resumable_in_place_of(call, specialization);
    scratch.path.clear();
    auto job = add_steps(call, *made, path, 0, &made->root, backend);
    ++compilations_of_thread;
    lock.unlock();
    make_kernels(call, *made, std::move(job));
    return made.get();
  }
  auto job = add_steps(call, specialization, path, begin, const_cast<Branch*>(from), backend);
  ++compilations_of_thread;
  drop_large_tree(call, specialization);
  lock.unlock();
  make_kernels(call, specialization, std::move(job));
  return &specialization;
}

void check_again(CallContext call, const Specialization& specialization) {
  std::lock_guard lock(call.function.mutex);
  try {
    compare_again(call, specialization);
  } catch (...) {
    if (auto dropped = call.function.drop(specialization)) call.scratch.temporary = std::move(dropped);
    throw;
  }
}

}  // namespace weft::detail
