#include "trace/registry.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/registered_code.hpp"
#include "record/evaluate.hpp"

namespace weft {
namespace detail {
namespace {

// By a number, see pass_set_of() in trace/key.hpp.
constexpr std::size_t most_sets = std::size_t{1} << pass_set_bits;

// What names of our own stand for.
struct OwnName {
  const char* name;
  ChosenBackend chosen;
};
BackendExecutable run_optimized(const GraphView& graph, std::span<const Tensor> /*examples*/) {
  return [optimized = graph.optimized()](std::span<const Tensor> inputs) { return optimized.run(inputs); };
}
const std::vector<OwnName>& own_names() {
  static constinit Lazy<std::vector<OwnName>> names;
  return names.get([] {
    const RegisteredBackend optimized{"aot_eager", run_optimized};
    return std::vector<OwnName>{{"aot_eager", {Backend::eager, {}, std::make_shared<RegisteredBackend>(optimized)}},
                                {"compiled", {Backend::compiled, {}, {}}},
                                {"cpu", {Backend::compiled, Device::Type::cpu, {}}},
                                {"cuda", {Backend::compiled, Device::Type::cuda, {}}},
                                {"eager", {Backend::eager, {}, {}}},
                                {"reference", {Backend::reference, {}, {}}}};
  });
}

bool is_own_name(std::string_view name) {
  return std::ranges::any_of(own_names(), [&](const OwnName& own) { return own.name == name; });
}

// Under the mutex of the registry.
struct Registry {
  std::map<std::string, std::shared_ptr<const RegisteredBackend>, std::less<>> backends;
  std::vector<RegisteredPass> passes;  // the current ones
  std::vector<FusionObserver> observers;
  std::vector<std::shared_ptr<const std::vector<RegisteredPass>>> sets;  // by number
  std::map<std::string, std::size_t> numbers;                            // by what they are

  Registry() : sets{std::make_shared<std::vector<RegisteredPass>>()}, numbers{{"", 0}} {}

  // Throws where there are no numbers left, and leaves all as it was.
  void publish(std::vector<RegisteredPass> next, Loc loc) {
    std::string key;
    for (const RegisteredPass& pass : next)
      key += concat_text(static_cast<int>(pass.stage), " ", pass.name.size(), " ", pass.name, pass.version.size(), " ",
                         pass.version);
    const auto [found, added] = numbers.try_emplace(std::move(key), sets.size());
    if (added && sets.size() == most_sets) {
      numbers.erase(found);
      fail("register_pass", loc, "passes were registered in more than ", most_sets - 1, " combinations of versions");
    }
    auto set = std::make_shared<const std::vector<RegisteredPass>>(next);
    if (added)
      sets.push_back(std::move(set));
    else
      sets[found->second] = std::move(set);
    passes = std::move(next);
    current_passes.store(found->second, std::memory_order_release);
  }
};
Registry& registry() {
  static constinit Lazy<Registry> all;
  return all.get();
}
ProcessMutex& mutex() { return process_mutex(LockOrder::registry); }

}  // namespace

ChosenBackend choose_backend(const BackendName& asked, Loc loc) {
  if (asked.name.empty()) return {asked.own, {}, {}};
  for (const OwnName& own : own_names())
    if (own.name == asked.name) return own.chosen;
  {
    const std::lock_guard lock(mutex());
    const auto found = registry().backends.find(asked.name);
    if (found != registry().backends.end()) return {Backend::eager, {}, found->second};
  }
  std::string known;
  for (const std::string& name : backend_names()) known += (known.empty() ? "" : ", ") + name;
  fail("compile", loc, "no backend is called \"", asked.name, "\"; there are: ", known,
       "; register_backend (weft/backends.hpp) adds one, weft/onnx.hpp those of engines that run ONNX");
}

std::shared_ptr<const RegisteredPasses> registered_passes(std::uint64_t set) {
  const std::lock_guard lock(mutex());
  const Registry& all = registry();
  if (all.observers.empty() && all.sets[set]->empty()) return nullptr;
  return std::make_shared<const RegisteredPasses>(RegisteredPasses{*all.sets[set], all.observers});
}

namespace {

struct SizesOfCall {
  explicit SizesOfCall(std::span<const std::int64_t> sizes) : saved(std::exchange(sizes_of_call, sizes)) {}
  ~SizesOfCall() { sizes_of_call = saved; }
  const std::span<const std::int64_t> saved;
};

// Of the same value, whether or not it counts as a literal.
bool is_of_type(const Tensor& value, const Type& wanted) {
  const Type& type = type_of(value);
  return type.dtype == wanted.dtype && type.device == wanted.device && type.shape.same(wanted.shape);
}

}  // namespace

std::vector<Tensor> RegisteredRun::run(std::span<const Tensor> inputs, std::span<const std::int64_t> symbols,
                                       std::span<const Type> outputs, Loc loc) {
  const SizesOfCall sizes(symbols);
  const auto refuse = [&](const auto&... words) {
    fail(data_->options.title, loc, "the backend \"", name(), "\" gave ", words...);
  };
  const bool own = is_own_name(name());
  if (!made_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    if (!made_.load(std::memory_order_relaxed)) {
      const DecidedSizes decided(data_->graph);
      const auto make = [&] { return backend_->make(view_of(data_), inputs); };
      executable_ = own ? make() : naming_registered("backend", name(), make);
      if (!executable_) refuse("nothing that can be called");
      made_.store(true, std::memory_order_release);
    }
  }
  std::vector<Tensor> results;
  try {
    results = executable_(inputs);
  } catch (const Exception&) {  // of an operation of the graph: it names that
    throw;
  } catch (const std::exception& error) {
    if (own) throw;
    throw_named("backend", name(), error);
  }
  if (results.size() != outputs.size())
    refuse(counted(static_cast<std::int64_t>(results.size()), "result", "results"), ", and the graph has ",
           outputs.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) refuse("an undefined tensor as result ", i);
    if (results[i].node()->trace != 0)
      refuse("a value of the graph as result ", i, ", which is no tensor of this call");
    if (!is_of_type(results[i], outputs[i]))
      refuse(to_string(type_of(results[i])), " as result ", i, ", which is ", to_string(outputs[i]));
  }
  evaluate(results, loc);
  return results;
}

}  // namespace detail

using detail::mutex;
using detail::registry;

void register_backend(std::string_view name, BackendFunction backend, Loc loc) {
  if (name.empty()) fail("register_backend", loc, "a backend without a name");
  if (!backend) fail("register_backend", loc, "the backend \"", name, "\" is no function");
  if (detail::is_own_name(name)) fail("register_backend", loc, "\"", name, "\" is a backend of Weft's own");
  auto made = std::make_shared<const detail::RegisteredBackend>(
      detail::RegisteredBackend{std::string(name), std::move(backend)});
  const std::lock_guard lock(mutex());
  registry().backends.insert_or_assign(std::string(name), std::move(made));
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const detail::OwnName& own : detail::own_names()) names.emplace_back(own.name);
  {
    const std::lock_guard lock(mutex());
    for (const auto& [name, backend] : registry().backends) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void register_pass(PassStage stage, std::string_view name, std::string_view version, GraphPass pass, Loc loc) {
  if (name.empty()) fail("register_pass", loc, "a pass without a name");
  if (version.empty())
    fail("register_pass", loc, "the pass \"", name, "\" has no version: it says whether what is compiled still holds");
  if (!pass) fail("register_pass", loc, "the pass \"", name, "\" is no function");
  RegisteredPass made{stage, std::string(name), std::string(version), detail::checked_pass(name, std::move(pass))};
  const std::lock_guard lock(mutex());
  std::vector<RegisteredPass> next = registry().passes;
  if (const auto found = std::ranges::find(next, name, &RegisteredPass::name); found != next.end())
    *found = std::move(made);
  else
    next.push_back(std::move(made));
  registry().publish(std::move(next), loc);
}

bool unregister_pass(std::string_view name) {
  const std::lock_guard lock(mutex());
  std::vector<RegisteredPass> next = registry().passes;
  if (std::erase_if(next, [&](const RegisteredPass& pass) { return pass.name == name; }) == 0) return false;
  registry().publish(std::move(next), {});
  return true;
}

void observe_fusion(std::string_view name, std::function<void(const FusedSteps&)> observe) {
  const std::lock_guard lock(mutex());
  std::vector<FusionObserver>& observers = registry().observers;
  std::erase_if(observers, [&](const FusionObserver& each) { return each.name == name; });
  if (observe) observers.push_back({std::string(name), std::move(observe)});
}

}  // namespace weft
