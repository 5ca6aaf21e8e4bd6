// The list of stages, top to bottom: from a traced graph to a launch plan.
#include "pipeline.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <set>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "passes/algebra.hpp"
#include "passes/align.hpp"
#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/decompose.hpp"
#include "passes/fold.hpp"
#include "passes/fold_batch_norm.hpp"
#include "passes/gathers.hpp"
#include "passes/loops.hpp"
#include "passes/orient.hpp"
#include "passes/regions.hpp"
#include "passes/rematerialize.hpp"
#include "pipeline/ahead.hpp"
#include "pipeline/attention.hpp"
#include "pipeline/node_times.hpp"
#include "pipeline/parts.hpp"
#include "pipeline/stages.hpp"
#include "pipeline/texts.hpp"
#include "providers/assumptions.hpp"
#include "providers/provider.hpp"
#include "providers/stored_plans.hpp"
#include "runtime/host/library.hpp"

namespace weft {
namespace {

// A pass is a function of a graph. What follows works on one graph's schedule, then on all graphs of a device; what
// compiles, on those of all devices.
struct Stage {
  const char* name;
  Pass pass = nullptr;
  std::size_t (*of_graph)(Compilation&, Device) = nullptr;
  std::size_t (*of_target)(Target&) = nullptr;
  std::size_t (*of_targets)(std::span<Target>) = nullptr;
  const RegisteredPass* registered = nullptr;
  bool needed = true;                      // the stages below need it
  std::optional<PassStage> precedes = {};  // it is preceded by the program's own passes of this kind

  bool is_pass() const { return pass || registered; }
  bool is_of_targets() const { return of_target || of_targets; }

  constexpr Stage(const char* name, Pass pass, bool needed = false, std::optional<PassStage> precedes = {})
      : name(name), pass(pass), needed(needed), precedes(precedes) {}
  constexpr Stage(const char* name, std::size_t (*run)(Compilation&, Device)) : name(name), of_graph(run) {}
  constexpr Stage(const char* name, std::size_t (*run)(Target&)) : name(name), of_target(run) {}
  constexpr Stage(const char* name, std::size_t (*run)(std::span<Target>)) : name(name), of_targets(run) {}
  explicit Stage(const RegisteredPass& pass) : name(pass.name.c_str()), registered(&pass), needed(false) {}
};

// Attention by hand first, while a softmax is a call. Loops while their bodies are as recorded; then calls: nothing
// below looks into the body of one. Gathers while the graph is that of the program, whose order is the same in all
// processes. Algebra after folding, which gives it constants to see; duplicates after algebra, which makes equal things
// look equal; scales of channels go into weights while a convolution is one node; orientation before decomposition,
// while products still are products, and algebra once more for the pairs of transposes that it leaves. Then equal
// values are one value, and what is computed again is no more made one with the first.
constexpr bool needed = true;
constexpr Stage stages[] = {
    {"fuse_attention", fuse_attention_by_hand, !needed, PassStage::traced},
    {"merge_loops", merge_loops, needed},
    {"inline_calls", inline_calls, needed},
    {"place_gathers", place_gathers},
    {"fold_constants", fold_constants, !needed, PassStage::joint},
    {"simplify_algebra", simplify_algebra},
    {"common_subexpressions", common_subexpressions},
    {"fold_batch_norm", fold_batch_norm},
    {"orient_matmul", orient_matmul},
    {"simplify_algebra", simplify_algebra},
    {"rematerialize", rematerialize},
    {"decompose_convolution", decompose_convolution, needed},
    {"decompose_matmul", decompose_matmul, needed},
    {"decompose_argsort", decompose_argsort, needed},
    {"widen_scatter_add", widen_scatter_add, needed},
    {"local_collectives", local_collectives, needed},
    {"align_products", align_products},
    {"dead_code", dead_code, !needed, PassStage::before_fusion},
    {"prune_loops", prune_loops},
    {"schedule", schedule},
    {"memory", memory},
    {"generate", generate},
    {"compile", compile},
    {"launches", launches},
};

// With the passes that the program has registered, each before the stage that ends the form of the graph which it asks
// for. What they record may have calls, and operations that are to be taken apart: so the passes above that are needed
// run once more.
std::vector<Stage> stages_with(const RegisteredPasses& registered) {
  std::vector<Stage> all;
  for (const Stage& stage : stages) {
    const std::size_t before = all.size();
    for (const RegisteredPass& pass : registered.passes)
      if (pass.stage == stage.precedes) all.emplace_back(pass);
    if (all.size() > before)
      for (const Stage* above = stages; above != &stage; ++above)
        if (above->pass && above->needed) all.push_back(*above);
    all.push_back(stage);
  }
  return all;
}

// Without the passes that a caller, or the user, asks for; a name that the user can't leave out is answered with those
// that can be.
std::vector<Stage> stages_for(const PipelineOptions& asked) {
  const std::vector<Stage> all =
      asked.registered ? stages_with(*asked.registered) : std::vector<Stage>(std::begin(stages), std::end(stages));
  std::vector<Stage> kept = all;
  for (const std::string& name : asked.skip)
    std::erase_if(kept, [&](const Stage& stage) { return !stage.registered && stage.name == name; });
  for (const std::string& name : options().skip_passes) {
    if (std::erase_if(kept, [&](const Stage& stage) { return !stage.needed && stage.name == name; })) continue;
    std::set<std::string> names;
    for (const Stage& stage : all)
      if (!stage.needed) names.insert(stage.name);
    std::string text = "no pass '" + name + "' can be left out; there are:";
    for (const std::string& each : names) text += " " + each;
    logging::warn_once(text);
  }
  return kept;
}

class Timer {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Where a graph runs: on the device that its values name, else on the host. What it takes from the host or gives to it
// is then marked in the plan. Of several devices the first one: passes see the whole graph, which is cut after them.
Device device_of(const Graph& graph) {
  const std::vector<Device> devices = devices_of(graph);
  return devices.empty() ? Device::cpu() : devices.front();
}
ScheduleChoices choices_of(const PipelineOptions& options) {
  return {options.level != Level::O0, options.region != Region::never, options.precision == Precision::fused,
          options.level == Level::O3, options.float32_products == Float32Products::tf32};
}
Compilation compilation_of(Graph graph, std::shared_ptr<Executable> executable, const PipelineOptions& options) {
  return {.graph = std::move(graph),
          .executable = std::move(executable),
          .updates = options.updates,
          .title = options.title,
          .choices = choices_of(options),
          .reduces_overhead = options.mode == CompileMode::reduce_overhead};
}
int optimization_of(Level level) { return level >= Level::O2 ? -1 : 1; }

// Numbers alone may be anywhere.
void require_device(const Graph& graph, Device device, Device::Type wanted, const std::string& title) {
  if (device.type == wanted) return;
  const auto found = std::ranges::find_if(graph.nodes, [&](const Tensor& value) {
    const Type& type = value.node()->type;
    return type.device.type != wanted && type.shape.rank() > 0;
  });
  if (found != graph.nodes.end())
    fail(title, found->node()->loc, "the backend \"", wanted == Device::Type::cpu ? "cpu" : "cuda",
         "\" was asked for, and a tensor is on ", to_string(found->node()->type.device), ": ",
         to_string(found->node()->type));
}

StageReport run_pass(const Stage& stage, Graph& graph, PassContext& context, bool verified) {
  std::map<const Rewrite*, int> rewrites;
  context.rewritten = nullptr;
  if (logging::enabled(logging::Channel::passes))
    context.rewritten = [&rewrites](const Rewrite& row) { ++rewrites[&row]; };
  const Timer timer;
  graph = stage.registered ? stage.registered->run(graph) : stage.pass(graph, context);
  StageReport report{stage.name, timer.milliseconds(), graph.nodes.size()};
  for (const auto& [row, times] : rewrites) report.rewrites.emplace_back(to_text(*row), times);
  if (verified) verify(graph);
  return report;
}

// What a call of the graph would take, after these stages: passes, the schedule and its memory.
std::int64_t planned_bytes(Graph graph, Device device, std::span<const Stage> stages, PassContext& context,
                           const PipelineOptions& options) {
  Compilation compilation = compilation_of(std::move(graph), nullptr, options);
  for (const Stage& stage : stages) {
    if (stage.is_pass())
      run_pass(stage, compilation.graph, context, false);
    else if (stage.of_graph)
      stage.of_graph(compilation, device);
  }
  return taken_bytes(std::move(compilation), device);
}
// Of the graph of this number.
std::vector<int> constant_inputs_of(const PipelineOptions& options, std::size_t graph) {
  return graph < options.constant_inputs.size() ? options.constant_inputs[graph] : std::vector<int>();
}
// `options` must live as long as the context.
PassContext context_of(Device device, std::span<const Stage> stages, const PipelineOptions& options,
                       std::vector<int> constant_inputs = {}) {
  const auto device_of = [device](const Node& node) {
    return node.type.device.type == Device::Type::cpu ? device : node.type.device;
  };
  PassContext context{device, [=](const Node& node) { return providers::all().takes(node, device_of(node)); }};
  context.constant_inputs = std::move(constant_inputs);
  context.size_multiple = [=](const Node& node) { return providers::all().size_multiple(node, device_of(node)); };
  context.memory_budget = options.memory_budget;
  const auto choice = std::ranges::find_if(stages, [](const Stage& stage) { return stage.pass == rematerialize; });
  if (choice == stages.end()) return context;
  std::vector<Stage> after(choice + 1, stages.end());
  std::erase_if(after, [](const Stage& stage) { return stage.registered; });  // they see what is compiled alone
  context.planned = [after, plain = context, &options](const Graph& graph) mutable {
    return planned_bytes(graph, plain.device, after, plain, options);
  };
  if (options.level == Level::O3 && device.type == Device::Type::cpu && target_instruction_set() == host_isa())
    context.measured = [&options](const Graph& graph) { return measured_times(graph, options); };
  return context;
}

}  // namespace

std::int64_t planned_bytes(Graph graph, const PipelineOptions& options) {
  const std::vector<Stage> stages = stages_for(options);
  const Device device = device_of(graph);
  PassContext context = context_of(device, stages, options, constant_inputs_of(options, 0));
  return planned_bytes(std::move(graph), device, stages, context, options);
}

Graph optimize(Graph graph, const PipelineOptions& options, std::vector<StageReport>* reports) {
  if (options.verify) verify(graph);
  const std::vector<Stage> stages = stages_for(options);
  PassContext context = context_of(device_of(graph), stages, options, constant_inputs_of(options, 0));
  const Executable none;
  for (const Stage& stage : stages) {
    if (!stage.is_pass()) continue;
    StageReport report = run_pass(stage, graph, context, options.verify);
    if (options.after) options.after({stage.name, graph, nullptr, none});
    if (reports) reports->push_back(std::move(report));
  }
  return graph;
}

namespace {

// The passes of one graph.
void run_passes(Compilation& compilation, Device device, const std::vector<Stage>& stages,
                const PipelineOptions& options) {
  Executable& executable = *compilation.executable;
  PassContext context = context_of(device, stages, options, compilation.constant_inputs);
  if (options.verify) verify(compilation.graph);
  for (const Stage& stage : stages) {
    if (!stage.is_pass()) continue;
    executable.stages.push_back(run_pass(stage, compilation.graph, context, options.verify));
    if (options.after) options.after({stage.name, compilation.graph, nullptr, executable});
  }
}
// What follows them of one graph on one device.
void run_after_passes(Compilation& compilation, Device device, const std::vector<Stage>& stages,
                      const PipelineOptions& options) {
  Executable& executable = *compilation.executable;
  for (const Stage& stage : stages) {
    if (!stage.of_graph) continue;
    const Timer timer;
    const std::size_t size = stage.of_graph(compilation, device);
    executable.stages.push_back({stage.name, timer.milliseconds(), size});
    if (options.after) options.after({stage.name, compilation.graph, &compilation.schedule, executable});
  }
  if (options.registered) show_fusion(*options.registered, compilation.schedule);
}

// Those of all graphs of a device together; of several devices, or of graphs that are apart, at once.
void run_of_targets(std::span<Target> targets, const Stage& stage, const PipelineOptions& options) {
  if (stage.of_target && targets.size() > 1) {
    for (Target& target : targets) run_of_targets({&target, 1}, stage, options);
    return;
  }
  const Timer timer;
  const std::size_t size = stage.of_targets ? stage.of_targets(targets) : stage.of_target(targets[0]);
  const double milliseconds = timer.milliseconds();
  for (Target& target : targets)
    for (Compilation& compilation : target.graphs) {
      compilation.executable->stages.push_back({stage.name, milliseconds, size});
      if (options.after) options.after({stage.name, compilation.graph, &compilation.schedule, *compilation.executable});
    }
}

// What plans depend on besides their graphs. None where they are not kept on disk.
std::optional<providers::StoredPlans> stored_plans(std::span<const Graph> graphs, const PipelineOptions& options) {
  // All of them. `isa` is the thread's target; `mode` counts on a device, whose plans are not kept.
  const auto& [title, registered, device, level, region, precision, float32_products, mode, memory_budget, isa] =
      static_cast<const FunctionOptions&>(options);
  const bool own_passes = registered && !(registered->passes.empty() && registered->observers.empty());
  if (!options.stored || !weft::options().stored_plans || own_passes || !options.skip.empty()) return std::nullopt;
  std::string updates;
  for (const Update& update : options.updates) updates += concat_text(update.input, " to ", update.output, ", ");
  std::string constants;  // by graph
  for (const std::vector<int>& inputs : options.constant_inputs) {
    for (const int input : inputs) constants += std::to_string(input) + " ";
    constants += "; ";
  }
  char digits[32];  // all of them: budgets that differ have plans of their own
  const std::string budget(digits, std::to_chars(digits, std::end(digits), memory_budget).ptr);
  return providers::StoredPlans(graphs, {{"function", title},
                                         {"device asked for", device ? to_string(Device{*device, 0}) : "any"},
                                         {"level", std::to_string(static_cast<int>(level))},
                                         {"region", std::to_string(static_cast<int>(region))},
                                         {"precision", std::to_string(static_cast<int>(precision))},
                                         {"products of f32", std::to_string(static_cast<int>(float32_products))},
                                         {"memory budget", budget},
                                         {"constant inputs", constants},
                                         {"state", updates}});
}

std::vector<std::shared_ptr<const Executable>> executables_of(std::vector<providers::StoredPlan> plans,
                                                              std::vector<Graph> graphs, const PipelineOptions& options,
                                                              double milliseconds) {
  std::vector<std::shared_ptr<const Executable>> all;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto executable = std::make_shared<Executable>();
    executable->plan = std::move(plans[i].plan);
    executable->arena_bytes = plans[i].arena_bytes;
    executable->stages.push_back({"stored_plan", milliseconds, executable->plan.launches.size()});
    executable->cache.push_back("plan: found on disk");
    if (const auto* library = dynamic_cast<const Library*>(executable->plan.functions.get()))
      executable->cache.push_back("kernels: " + library->origin());
    PipelineOptions again = options;
    again.after = nullptr;
    const auto make = [again, constants = constant_inputs_of(options, i)](TextSources& kept) {
      const DefaultFloatModes modes;
      const CompilingFor target(again.isa);
      Compilation compilation = compilation_of(kept.traced(), std::make_shared<Executable>(), again);
      compilation.constant_inputs = constants;
      const std::vector<Stage> stages = stages_for(again);
      const DecidedSizes sizes(compilation.graph);
      run_passes(compilation, Device::cpu(), stages, again);
      run_after_passes(compilation, Device::cpu(), stages, again);
      sizes.close();
      kept.add(compilation, Device::cpu());
    };
    if (options.keep) executable->kept = std::make_shared<TextSources>(graphs[i], make);
    all.push_back(std::move(executable));
  }
  return all;
}

// All stages of all graphs. Nothing where a library does not take what `assumptions` say.
std::optional<std::vector<std::shared_ptr<Executable>>> run_stages(std::vector<Graph> graphs,
                                                                   const std::vector<Stage>& stages,
                                                                   const PipelineOptions& options, bool keep,
                                                                   const std::string& origin,
                                                                   const providers::Assumptions& assumptions) {
  std::vector<Target> targets;  // nearly always one
  std::vector<std::shared_ptr<Executable>> all;
  std::vector<std::pair<std::shared_ptr<Executable>, JoinedParts>> joined;
  std::vector<std::jthread> ahead;
  for (Graph& graph : graphs) {
    const Device device = device_of(graph);
    if (options.device) require_device(graph, device, *options.device, options.title);
    auto executable = std::make_shared<Executable>();
    if (!origin.empty()) executable->cache.push_back(origin);
    all.push_back(executable);
    const std::shared_ptr<TextSources> kept = keep ? std::make_shared<TextSources>(graph) : nullptr;
    Compilation whole = compilation_of(std::move(graph), executable, options);
    whole.constant_inputs = constant_inputs_of(options, all.size() - 1);
    const DecidedSizes sizes(whole.graph);
    run_passes(whole, device, stages, options);
    const auto finish = [&, first = targets.size()](Compilation compilation, Device device) {
      auto target = std::find_if(targets.begin() + static_cast<std::ptrdiff_t>(options.apart ? first : 0),
                                 targets.end(), [&](const Target& each) { return each.device == device; });
      if (target == targets.end()) target = targets.emplace(targets.end(), device);
      target->optimization = optimization_of(options.level);
      Compilation& own = target->graphs.emplace_back(std::move(compilation));
      run_after_passes(own, device, stages, options);
      std::ranges::move(make_ahead(own.schedule), std::back_inserter(ahead));
      if (kept) kept->add(own, device);
    };
    if (devices_of(whole.graph).size() > 1) {
      JoinedParts parts(whole);
      for (JoinedParts::Part& part : parts.compilations(whole)) finish(std::move(part.compilation), part.device);
      joined.emplace_back(executable, std::move(parts));
    } else {
      finish(std::move(whole), device);
    }
    sizes.close();
    executable->kept = kept;
  }
  for (const Stage& stage : stages) {
    if (!stage.is_of_targets() || targets.empty()) continue;
    if (stage.of_target == launches && !assumptions.hold()) return std::nullopt;
    run_of_targets(targets, stage, options);
  }
  for (const auto& [executable, parts] : joined) parts.join(*executable);
  return all;
}

}  // namespace

std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs,
                                                              const PipelineOptions& options) {
  const DefaultFloatModes modes;
  const CompilingFor target(options.isa);
  const std::vector<Stage> stages = stages_for(options);
  const bool logged = logging::enabled(logging::Channel::fusion) || logging::enabled(logging::Channel::kernels);
  const bool keep = options.keep || (logged && graphs.size() == 1);
  const Timer timer;
  std::optional<providers::StoredPlans> stored = stored_plans(graphs, options);
  if (stored)
    if (auto plans = stored->load(options.constant_inputs)) {
      for (const Graph& graph : graphs)
        if (options.device) require_device(graph, Device::cpu(), *options.device, options.title);
      auto found = executables_of(*std::move(plans), std::move(graphs), options, timer.milliseconds());
      for (const auto& executable : found) {
        if (executable->kept) log_texts(*executable);
        log_stages(*executable);
      }
      return found;
    }
  const std::vector<std::jthread> asking = ask_libraries(graphs);
  const std::string origin = stored ? "plan: " + stored->found() : "";
  std::optional<std::vector<std::shared_ptr<Executable>>> all;
  if (!asking.empty()) {
    const providers::Assumptions assumptions(true);
    try {
      all = run_stages(graphs, stages, options, keep, origin, assumptions);
    } catch (const std::exception&) {  // an answer may have come between two stages, and been no
      if (assumptions.hold()) throw;
    }
  }
  if (!all) {
    const providers::Assumptions none(false);
    all = run_stages(std::move(graphs), stages, options, keep, origin, none);
  }
  if (stored) {
    std::vector<providers::StoredPlan> plans;
    for (const auto& executable : *all) plans.push_back({executable->plan, executable->arena_bytes});
    stored->store(plans);
  }
  for (const auto& executable : *all) {
    if (keep) log_texts(*executable);
    log_stages(*executable);
  }
  return {all->begin(), all->end()};
}

std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options) {
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return compile_graphs(std::move(graphs), options).front();
}

}  // namespace weft
