// The list of stages, top to bottom: from a traced graph to a launch plan.
#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"
#include "loop/device_team.hpp"
#include "passes/algebra.hpp"
#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/decompose.hpp"
#include "passes/fold.hpp"
#include "passes/loops.hpp"
#include "passes/orient.hpp"
#include "passes/regions.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_plans.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/launch_limits.hpp"
#include "runtime/host/jit.hpp"
#include "schedule/launches.hpp"
#include "schedule/repeats.hpp"
#include "schedule/schedule.hpp"

namespace weft {
namespace {

// What compiles, and where the result can be read.
struct Compiled {
  std::shared_ptr<const runtime::Functions> functions;
  std::string source_path;
};

// A graph on its way to a launch plan.
struct Compilation {
  Graph graph;
  Schedule schedule;
  std::vector<runtime::EntryPoint> entries;  // of the steps
  std::shared_ptr<Executable> executable;
  std::span<const Update> updates;
  std::string title;
  ScheduleChoices choices = {};
};

// Graphs of one device: their kernels are generated and compiled together.
struct Target {
  explicit Target(Device device) : device(device), sources(device) {}
  bool on_host() const { return device.type == Device::Type::cpu; }

  Device device;
  std::vector<Compilation> graphs;
  providers::Sources sources;
  std::vector<std::string> units;
  Digest code;  // of the kernels, however they are divided into units
  int optimization = -1;
  Compiled compiled;
};

class Timer {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Where a graph runs: on the one device that its values name, else on the host. What it takes from the host or gives to
// it is then marked in the plan.
Device device_of(const Graph& graph) {
  Device device;
  for (const Tensor& value : graph.nodes) {
    const Device there = value.node()->type.device;
    if (there.type == Device::Type::cpu) continue;
    if (device.type != Device::Type::cpu && device != there)
      fail("compile", value.node()->loc, "values live on cuda:", static_cast<int>(device.index),
           " and cuda:", static_cast<int>(there.index));
    device = there;
  }
  return device;
}
ScheduleChoices choices_of(const PipelineOptions& options) {
  return {options.level != Level::O0, options.region != Region::never};
}
int optimization_of(Level level) { return level == Level::O2 ? -1 : 1; }

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
void mark_host_buffers(runtime::Plan& plan, const Graph& graph) {
  if (plan.device.type == Device::Type::cpu) return;
  const auto on_host = [](const Tensor& value) { return type_of(value).device.type == Device::Type::cpu; };
  for (runtime::PlanBuffer& buffer : plan.buffers) {
    const auto index = static_cast<std::size_t>(buffer.index);
    if (buffer.kind == runtime::PlanBuffer::Kind::argument) buffer.host = on_host(graph.inputs[index]);
    if (buffer.kind == runtime::PlanBuffer::Kind::result) buffer.host = on_host(graph.outputs[index]);
  }
  std::erase_if(plan.donations, [&](const runtime::Plan::Donation& donation) {
    return on_host(graph.inputs[static_cast<std::size_t>(donation.argument)]) ||
           on_host(graph.outputs[static_cast<std::size_t>(donation.result)]);
  });
}

std::size_t schedule(Compilation& compilation, Device device) {
  compilation.schedule = make_schedule(compilation.graph, device, providers::all(), compilation.choices);
  return compilation.schedule.steps.size();
}

std::size_t memory(Compilation& compilation, Device device) {
  plan_memory(compilation.schedule, device, compilation.updates);
  return compilation.schedule.buffers.size();
}

std::vector<std::string> device_units(const providers::Sources& sources, std::size_t most_a_unit) {
  std::vector<std::string> texts;
  for (const auto& [name, text] : sources.texts()) texts.push_back(text);
  return codegen::cuda_units(texts, most_a_unit);
}

// What the steps call, as sources.
std::size_t generate(Target& target) {
  for (Compilation& compilation : target.graphs)
    for (const Step& step : compilation.schedule.steps)
      compilation.entries.push_back(step.payload->emit(target.sources));
  target.units = target.on_host() ? codegen::cpp_units(target.sources.kernels(),
                                                       unit_count(target.sources.kernels().size()), &target.code)
                                  : device_units(target.sources, codegen::functions_a_unit);
  return target.units.size();
}

// Every device must be able to launch a function and those of its inner steps.
void check_launches(const runtime::EntryPoint& entry, const std::vector<std::string>& cubins) {
  for (const runtime::EntryPoint& inner : entry.inner) check_launches(inner, cubins);
  if (entry.name.empty()) return;
  runtime::cuda::LaunchNeeds needs{.threads = entry.threads, .dynamic_shared = entry.shared};
  for (const std::string& cubin : cubins)  // one of them has it
    needs.static_shared += runtime::cuda::static_shared_in(cubin, entry.name);
  const std::string why = runtime::cuda::beyond_limits(needs, {.shared = loop::shared_of_every_device});
  WEFT_CHECK(why.empty(), entry.name, ": ", why);
}

// With WEFT_NVRTC_CHECK set, what is compiled for the host must compile for a device too: the suite then is a test of
// the CUDA generator, without a GPU.
void check_device_code(const std::vector<Compilation>& graphs) {
  std::string why;
  if (!runtime::cuda::nvrtc_available(&why)) return logging::warn_once("WEFT_NVRTC_CHECK: " + why);
  providers::Sources sources(Device::cuda());
  std::vector<runtime::EntryPoint> entries;
  for (const Compilation& compilation : graphs)
    for (const Step& step : compilation.schedule.steps) entries.push_back(step.payload->emit(sources));
  try {
    constexpr std::size_t most_a_unit = 400;  // few programs take the least time in all; nobody waits for the first
    const std::vector<std::string> cubins =
        runtime::cuda::compile_units(device_units(sources, most_a_unit), "sm_90", runtime::cuda::Effort::check);
    for (const runtime::EntryPoint& entry : entries) check_launches(entry, cubins);
  } catch (const CompileError& error) {  // which would be no more than a warning
    throw_internal(Loc::current(), error.what());
  }
}

std::size_t compile(Target& target) {
  if (target.on_host() && options().nvrtc_check) check_device_code(target.graphs);
  if (!target.on_host()) {
    std::vector<std::string> names;
    for (const auto& [name, text] : target.sources.texts()) names.push_back(name);
    auto code = std::make_shared<runtime::cuda::Code>(target.units, names, target.device);
    target.compiled = {code, code->source_path()};
  } else if (!target.units.empty()) {
    std::shared_ptr<Library> library = jit({std::move(target.units), host_isa(), {}, target.code, target.optimization});
    target.compiled = {library, library->source_path()};
  }
  return target.sources.kernels().size();
}

// The plan: buffers, launches, donations, made ready to run.
std::size_t launches(Target& target) {
  std::size_t count = 0;
  for (Compilation& compilation : target.graphs) {
    const Graph& graph = compilation.graph;
    const Schedule& schedule = compilation.schedule;
    runtime::Plan& plan = compilation.executable->plan;
    plan = make_plan(schedule, compilation.entries, target.device, graph.inputs.size(), graph.outputs.size(),
                     graph.symbols.size(), target.compiled.functions);
    mark_host_buffers(plan, graph);
    plan.source_path = target.compiled.source_path;
    plan.title = compilation.title;
    runtime::prepare(plan);
    compilation.executable->arena_bytes = dims::at_hints(schedule.arena_bytes, graph.symbols);
    count += plan.launches.size();
  }
  return count;
}

// A pass is a function of a graph. What follows works on one graph's schedule, then on all graphs of a device.
struct Stage {
  const char* name;
  Pass pass = nullptr;
  std::size_t (*of_graph)(Compilation&, Device) = nullptr;
  std::size_t (*of_target)(Target&) = nullptr;
  const RegisteredPass* registered = nullptr;
  bool needed = true;  // the stages below need it

  bool is_pass() const { return pass || registered; }

  constexpr Stage(const char* name, Pass pass, bool needed = false) : name(name), pass(pass), needed(needed) {}
  constexpr Stage(const char* name, std::size_t (*run)(Compilation&, Device)) : name(name), of_graph(run) {}
  constexpr Stage(const char* name, std::size_t (*run)(Target&)) : name(name), of_target(run) {}
  explicit Stage(const RegisteredPass& pass) : name(pass.name.c_str()), registered(&pass), needed(false) {}
};

// Loops first, while their bodies are as recorded; then calls: nothing below looks into the body of one. Algebra after
// folding, which gives it constants to see; duplicates after algebra, which makes equal things look equal; orientation
// before decomposition, while products still are products, and algebra once more for the pairs of transposes that it
// leaves.
constexpr bool needed = true;
constexpr Stage stages[] = {
    {"merge_loops", merge_loops, needed},
    {"inline_calls", inline_calls, needed},
    {"fold_constants", fold_constants},
    {"simplify_algebra", simplify_algebra},
    {"common_subexpressions", common_subexpressions},
    {"orient_matmul", orient_matmul},
    {"simplify_algebra", simplify_algebra},
    {"decompose_convolution", decompose_convolution, needed},
    {"decompose_matmul", decompose_matmul, needed},
    {"decompose_argsort", decompose_argsort, needed},
    {"widen_scatter_add", widen_scatter_add, needed},
    {"local_collectives", local_collectives, needed},
    {"dead_code", dead_code},
    {"prune_loops", prune_loops},
    {"schedule", schedule},
    {"memory", memory},
    {"generate", generate},
    {"compile", compile},
    {"launches", launches},
};

// With the passes that the program has registered, each before the stage that ends the form of the graph which it asks
// for. What they record may have calls, and operations that are to be taken apart.
std::vector<Stage> stages_with(const RegisteredPasses& registered) {
  std::vector<Stage> all;
  const auto add = [&](PassStage stage) {
    const std::size_t before = all.size();
    for (const RegisteredPass& pass : registered.passes)
      if (pass.stage == stage) all.emplace_back(pass);
    return all.size() > before;
  };
  add(PassStage::traced);
  for (const Stage& stage : stages) {
    const std::string_view name = stage.name;
    if (name == "fold_constants" && add(PassStage::joint)) all.emplace_back("inline_calls", inline_calls, needed);
    if (name == "dead_code" && add(PassStage::before_fusion))
      for (const Stage& each : stages)
        if (each.pass && each.needed) all.push_back(each);
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

PassContext context_of(Device device) {
  return {device, [device](const Node& node) { return providers::all().takes(node, device); }};
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

void show_fusion(const RegisteredPasses& registered, const Schedule& schedule) {
  if (registered.observers.empty()) return;
  FusedSteps fused{{}, to_text(schedule) + decisions_text(schedule)};
  for (const Step& step : schedule.steps) fused.steps.push_back({step.name, step.operations});
  for (const FusionObserver& each : registered.observers) each.observe(fused);
}

void log_texts(const Executable& executable) {
  const bool fusion = logging::enabled(logging::Channel::fusion), kernels = logging::enabled(logging::Channel::kernels);
  if (!fusion && !kernels) return;
  const Texts texts = texts_of(executable);
  std::istringstream schedule(fusion ? texts.schedule : "");
  for (std::string line; std::getline(schedule, line);) logging::write(logging::Channel::fusion, line);
  if (!kernels) return;
  for (const KernelReport& kernel : texts.kernels) {
    std::string text = concat_text(kernel.name, ": ", kernel.bytes, " bytes, ", kernel.operations, " operations");
    if (!executable.plan.source_path.empty()) text += ", source " + executable.plan.source_path;
    for (const std::string& fused : kernel.comments) text += "; " + fused;
    logging::write(logging::Channel::kernels, text);
  }
}
void log_stages(const Executable& executable) {
  if (!logging::enabled(logging::Channel::passes)) return;
  for (const StageReport& stage : executable.stages) {
    std::string text = concat_text(stage.name, ": ", stage.milliseconds, " ms, ", stage.size);
    for (const auto& [row, times] : stage.rewrites) text += concat_text("; ", row, ": ", times);
    logging::write(logging::Channel::passes, text);
  }
}

}  // namespace

static StepWork work_of(const Payload& payload, std::span<const std::int64_t> symbols) {
  StepWork work;
  work.generated = payload.generated();
  work.runs_others = payload.runs_others();
  work.by = payload.by();
  const loop::Cost cost = payload.cost();
  work.bytes = dims::evaluate(cost.bytes, symbols);
  work.operations = dims::evaluate(cost.operations, symbols);
  return work;
}
StepWork work_of(const runtime::Launch& launch, std::span<const std::int64_t> symbols) {
  return work_of(dynamic_cast<const Payload&>(*launch.step), symbols);
}

// What texts are made from when they are asked for: graphs and a schedule that do not hold the memory of constants.
// Where the plan was on disk, the schedule is made then.
class TextSources {
 public:
  explicit TextSources(const Graph& traced) : traced_(readable(traced)) {}
  TextSources(const Graph& traced, std::function<void(TextSources&)> later) : TextSources(traced) {
    later_ = std::move(later);
  }
  void add(const Compilation& compilation, Device device) {
    optimized_ = readable(compilation.graph);
    schedule_ = compilation.schedule;
    for (ScheduleBuffer& buffer : schedule_.buffers) buffer.constant = {};
    for (const DimSymbol& symbol : compilation.graph.symbols) hints_.push_back(symbol.hint);
    device_ = device;
  }

  Texts texts() {
    const std::lock_guard lock(mutex_);  // printing numbers the nodes, which graphs share
    if (later_) later_(*this);
    later_ = nullptr;
    Texts texts{to_text(traced_),
                to_text(optimized_),
                to_text(schedule_) + decisions_text(schedule_),
                repeat_texts(schedule_),
                {},
                {},
                {}};
    providers::Sources sources(device_);
    std::vector<runtime::EntryPoint> entries;
    for (const Step& step : schedule_.steps) entries.push_back(step.payload->emit(sources));
    sources.generate_texts();
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i)
      report(*schedule_.steps[i].payload, entries[i], 1, sources, texts.kernels);
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      const std::string& name = entries[i].name.empty() ? step.name : entries[i].name;
      texts.steps.push_back({name, weft::work_of(*step.payload, hints_), step.operations});
    }
    texts.temporaries = temporaries();
    return texts;
  }

 private:
  std::vector<Texts::Temporary> temporaries() const {
    struct Life {
      std::size_t first = 0, last = 0;
      bool used = false;
    };
    std::vector<Life> lives(schedule_.buffers.size());
    for (std::size_t s = 0; s < schedule_.steps.size(); ++s)
      for (const int buffer : schedule_.steps[s].buffers) {
        Life& life = lives[static_cast<std::size_t>(buffer)];
        life = {life.used ? life.first : s, s, true};
      }
    std::vector<Texts::Temporary> all;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      const ScheduleBuffer& buffer = schedule_.buffers[b];
      if (buffer.kind != ScheduleBuffer::Kind::temporary || !lives[b].used) continue;
      all.push_back({concat_text(info(buffer.dtype).name, " x ", dims::to_string(buffer.elements)),
                     dims::evaluate(buffer.offset, hints_),
                     dims::evaluate(storage_bytes(info(buffer.dtype), buffer.elements), hints_), lives[b].first,
                     lives[b].last});
    }
    return all;
  }
  // Kernels of a loop's bodies count as often as these run.
  void report(const Payload& payload, const runtime::EntryPoint& entry, Dim times, const providers::Sources& sources,
              std::vector<KernelReport>& kernels) const {
    std::size_t next = 0;
    for (const Payload::Inner& inner : payload.inner())
      for (const Step& step : inner.schedule->steps)
        report(*step.payload, entry.inner[next++], times * inner.times, sources, kernels);
    if (!payload.kernel()) return;
    const loop::Cost cost = payload.cost();
    kernels.push_back({entry.name, payload.text(), sources.texts().at(entry.name),
                       dims::evaluate(cost.bytes * times, hints_), dims::evaluate(cost.operations * times, hints_),
                       payload.kernel()->comments});
  }
  static Graph readable(const Graph& graph) {
    const auto is_data = [](const Tensor& value) { return value.node()->op == Op::data; };
    return std::ranges::any_of(graph.nodes, is_data) ? without_data(graph) : graph;
  }

  std::mutex mutex_;
  std::function<void(TextSources&)> later_;
  Graph traced_, optimized_;
  Schedule schedule_;
  std::vector<std::int64_t> hints_;
  Device device_;
};

Texts texts_of(const Executable& executable) {
  WEFT_CHECK(executable.kept, "texts of an executable that did not keep what they are made from");
  return executable.kept->texts();
}

Graph optimize(Graph graph, const PipelineOptions& options, std::vector<StageReport>* reports) {
  if (options.verify) verify(graph);
  PassContext context = context_of(device_of(graph));
  const Executable none;
  for (const Stage& stage : stages_for(options)) {
    if (!stage.is_pass()) continue;
    StageReport report = run_pass(stage, graph, context, options.verify);
    if (options.after) options.after({stage.name, graph, nullptr, none});
    if (reports) reports->push_back(std::move(report));
  }
  return graph;
}

namespace {

// The stages of one graph by itself.
void run_of_graph(Compilation& compilation, Device device, const std::vector<Stage>& stages,
                  const PipelineOptions& options) {
  Executable& executable = *compilation.executable;
  const DecidedSizes sizes(compilation.graph);
  PassContext context = context_of(device);
  if (options.verify) verify(compilation.graph);
  for (const Stage& stage : stages) {
    if (stage.of_target) continue;
    if (stage.is_pass()) {
      executable.stages.push_back(run_pass(stage, compilation.graph, context, options.verify));
    } else {
      const Timer timer;
      const std::size_t size = stage.of_graph(compilation, device);
      executable.stages.push_back({stage.name, timer.milliseconds(), size});
    }
    const Schedule* const schedule = stage.is_pass() ? nullptr : &compilation.schedule;
    if (options.after) options.after({stage.name, compilation.graph, schedule, executable});
  }
  sizes.close();
  if (options.registered) show_fusion(*options.registered, compilation.schedule);
}

// Those of all graphs of a device together.
void run_of_target(Target& target, const std::vector<Stage>& stages, const PipelineOptions& options) {
  for (const Stage& stage : stages) {
    if (!stage.of_target) continue;
    const Timer timer;
    const std::size_t size = stage.of_target(target);
    const double milliseconds = timer.milliseconds();
    for (Compilation& compilation : target.graphs) {
      compilation.executable->stages.push_back({stage.name, milliseconds, size});
      if (options.after) options.after({stage.name, compilation.graph, &compilation.schedule, *compilation.executable});
    }
  }
}

// What plans depend on besides their graphs. None where they are not kept on disk.
std::optional<providers::StoredPlans> stored_plans(std::span<const Graph> graphs, const PipelineOptions& options) {
  const bool own_passes =
      options.registered && !(options.registered->passes.empty() && options.registered->observers.empty());
  if (!options.stored || !weft::options().stored_plans || own_passes || !options.skip.empty()) return std::nullopt;
  std::string updates;
  for (const Update& update : options.updates) updates += concat_text(update.input, " to ", update.output, ", ");
  return providers::StoredPlans(graphs, {{"function", options.title},
                                         {"level", std::to_string(static_cast<int>(options.level))},
                                         {"region", std::to_string(static_cast<int>(options.region))},
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
    PipelineOptions again = options;
    again.after = nullptr;
    const auto make = [graph = graphs[i], again](TextSources& kept) {
      const DefaultFloatModes modes;
      Compilation compilation{
          graph, {}, {}, std::make_shared<Executable>(), again.updates, again.title, choices_of(again)};
      run_of_graph(compilation, Device::cpu(), stages_for(again), again);
      kept.add(compilation, Device::cpu());
    };
    if (options.keep) executable->kept = std::make_shared<TextSources>(graphs[i], make);
    all.push_back(std::move(executable));
  }
  return all;
}

}  // namespace

std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs,
                                                              const PipelineOptions& options) {
  const DefaultFloatModes modes;
  const std::vector<Stage> stages = stages_for(options);
  const bool logged = logging::enabled(logging::Channel::fusion) || logging::enabled(logging::Channel::kernels);
  const bool keep = options.keep || (logged && graphs.size() == 1);
  const Timer timer;
  const std::optional<providers::StoredPlans> stored = stored_plans(graphs, options);
  if (stored)
    if (auto plans = stored->load(); plans && plans->size() == graphs.size()) {
      for (const Graph& graph : graphs)
        if (options.device) require_device(graph, Device::cpu(), *options.device, options.title);
      auto found = executables_of(*std::move(plans), std::move(graphs), options, timer.milliseconds());
      for (const auto& executable : found) {
        if (executable->kept) log_texts(*executable);
        log_stages(*executable);
      }
      return found;
    }
  std::vector<Target> targets;  // nearly always one
  std::vector<std::shared_ptr<const Executable>> all;
  for (Graph& graph : graphs) {
    const Device device = device_of(graph);
    if (options.device) require_device(graph, device, *options.device, options.title);
    auto target = std::ranges::find(targets, device, &Target::device);
    if (target == targets.end()) target = targets.emplace(targets.end(), device);
    target->optimization = optimization_of(options.level);
    auto executable = std::make_shared<Executable>();
    all.push_back(executable);
    const std::shared_ptr<TextSources> kept = keep ? std::make_shared<TextSources>(graph) : nullptr;
    Compilation& compilation = target->graphs.emplace_back(
        Compilation{std::move(graph), {}, {}, executable, options.updates, options.title, choices_of(options)});
    run_of_graph(compilation, device, stages, options);
    if (kept) kept->add(compilation, device);
    executable->kept = kept;
  }
  for (Target& target : targets) run_of_target(target, stages, options);
  if (stored) {
    std::vector<providers::StoredPlan> plans;
    for (const auto& executable : all) plans.push_back({executable->plan, executable->arena_bytes});
    stored->store(plans);
  }
  for (const auto& executable : all) {
    if (keep) log_texts(*executable);
    log_stages(*executable);
  }
  return all;
}

std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options) {
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return compile_graphs(std::move(graphs), options).front();
}

}  // namespace weft
