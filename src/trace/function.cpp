#include "trace/function.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/fail.hpp"
#include "trace/registry.hpp"
#include "weft/autocast.hpp"

namespace weft::detail {

std::string title(const Function& function) {
  if (!function.name.empty()) return function.name;
  std::string where = to_string(function.loc);
  return "compile" + (where.empty() ? "" : " at " + where);
}
FunctionOptions options_of(const Function& function, std::uint64_t passes) {
  const CompileOptions& options = function.options;
  return {title(function),   registered_passes(passes), function.chosen.device, options.level,         options.region,
          options.precision, options.float32_products,  options.mode,           options.memory_budget, function.isa};
}
CompileOptions with_level_of_mode(CompileOptions options, Loc loc) {
  if (options.mode != CompileMode::max_autotune) return options;
  if (options.level < Level::O2)
    fail("compile", loc, "CompileMode::max_autotune is Level::O3, and Level::O", static_cast<int>(options.level),
         " was asked for");
  options.level = Level::O3;
  return options;
}

namespace {
// exit() undoes in the reverse order: what is registered after a static handle was made is done before the handle is
// destroyed. So this is registered when a function gets its first specialization, of so many functions.
constexpr int most_registered = 10000;
constinit std::atomic<int> registered = 0;
constinit std::atomic<bool> exit_has_begun = false;
void register_exit() {
  if (registered.fetch_add(1) < most_registered) std::atexit([] { exit_has_begun = true; });
}

// What static handles had: other threads may be in a call of it, or begin one. A list, so that it stays reachable.
struct KeptFunction {
  Function* function;
  KeptFunction* next;
};
constinit std::atomic<KeptFunction*> kept_functions = nullptr;
void keep(Function* function) {
  auto* const kept = new KeptFunction{function, kept_functions.load()};
  while (!kept_functions.compare_exchange_weak(kept->next, kept)) continue;
}
}  // namespace

Function* make_function(const CompileOptions& options, Loc loc) {
  ChosenBackend chosen = choose_backend(options.backend, loc);
  if (options.autocast) (void)Autocast(*options.autocast, loc);  // checks the type
  if (!(options.memory_budget >= 0 && options.memory_budget <= 1))
    fail("compile", loc, "memory_budget must be from 0 to 1, it is ", options.memory_budget);
  auto* function = new Function;
  function->options = with_level_of_mode(options, loc);
  function->options.backend = chosen.own;
  function->chosen = std::move(chosen);
  function->loc = loc;
  return function;
}
void retain(Function* function) noexcept { function->references.fetch_add(1, std::memory_order_relaxed); }
void release(Function* function) noexcept {
  if (function->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (exit_has_begun) return keep(function);
  delete function;
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
  if (const Snapshot* old = current.load())
    list = old->list;
  else
    register_exit();
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

void note_recompilation(Function& function, const std::string& reason) {
  const std::lock_guard whole(process_mutex(LockOrder::functions));
  function.recompile_reasons.push_back(reason);
  if (function.recompile_reasons.size() > 64) function.recompile_reasons.erase(function.recompile_reasons.begin());
}

}  // namespace weft::detail
