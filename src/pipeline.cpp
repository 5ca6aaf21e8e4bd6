// The list of passes, top to bottom: from a traced graph to a launch plan.
#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"
#include "passes/algebra.hpp"
#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/decompose.hpp"
#include "passes/fold.hpp"
#include "passes/orient.hpp"
#include "passes/regions.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/jit.hpp"
#include "schedule/schedule.hpp"

namespace weft {
namespace {

struct NamedPass {
  const char* name;
  Pass pass;
  bool needed = false;  // what stands below can't do without it
};

// Calls first: nothing below looks into a body. Algebra after folding, which gives it constants to see; duplicates
// after algebra, which makes equal things look equal; orientation before decomposition, while products still are
// products, and algebra once more for the pairs of transposes that it leaves.
constexpr NamedPass graph_passes[] = {
    {"inline_calls", inline_calls, true},
    {"fold_constants", fold_constants},
    {"simplify_algebra", simplify_algebra},
    {"common_subexpressions", common_subexpressions},
    {"orient_matmul", orient_matmul},
    {"simplify_algebra", simplify_algebra},
    {"decompose_matmul", decompose_matmul, true},
    {"widen_scatter_add", widen_scatter_add, true},
    {"local_collectives", local_collectives, true},
    {"dead_code", dead_code},
};

// Without the passes that a caller, or the user, asks for; a name that the user can't leave out is answered with those
// that can be.
std::vector<NamedPass> passes_without(const std::vector<std::string>& skip) {
  std::vector<NamedPass> kept(std::begin(graph_passes), std::end(graph_passes));
  for (const std::string& name : skip) std::erase_if(kept, [&](const NamedPass& entry) { return entry.name == name; });
  for (const std::string& name : options().skip_passes) {
    if (std::erase_if(kept, [&](const NamedPass& entry) { return !entry.needed && entry.name == name; })) continue;
    std::set<std::string> names;
    for (const NamedPass& entry : graph_passes)
      if (!entry.needed) names.insert(entry.name);
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

double at_hints(Dim dim, const Graph& graph) {
  std::vector<std::int64_t> hints;
  for (const DimSymbol& symbol : graph.symbols) hints.push_back(symbol.hint);
  return static_cast<double>(dims::evaluate(dim, hints));
}

std::vector<std::byte> constant_bytes(const ScheduleBuffer& buffer) {
  if (!buffer.constant.defined()) return {};
  const Node& node = *buffer.constant.node();
  std::size_t bytes = storage_bytes(node.type.dtype, node.type.shape.element_count().constant());
  WEFT_CHECK(node.storage && !node.layout, "a constant of the graph is contiguous memory");
  const auto* source = static_cast<const std::byte*>(node.storage->data);
  if (buffer.kind == ScheduleBuffer::Kind::constant) return std::vector(source, source + bytes);
  const std::int64_t element = storage_bytes(info(node.type.dtype), std::int64_t{1}),
                     count = buffer.elements.constant();
  std::vector<std::byte> packed(static_cast<std::size_t>(count * element));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t left = i, from = buffer.packed_offset;
    for (std::size_t axis = buffer.packed_sizes.size(); axis-- > 0; left /= buffer.packed_sizes[axis])
      from += left % buffer.packed_sizes[axis] * buffer.packed_strides[axis];
    std::memcpy(packed.data() + i * element, source + from * element, static_cast<std::size_t>(element));
  }
  return packed;
}

runtime::PlanBuffer plan_buffer(const ScheduleBuffer& buffer, runtime::Plan& plan) {
  runtime::PlanBuffer result{};
  switch (buffer.kind) {
    case ScheduleBuffer::Kind::argument: result.kind = runtime::PlanBuffer::Kind::argument; break;
    case ScheduleBuffer::Kind::result: result.kind = runtime::PlanBuffer::Kind::result; break;
    case ScheduleBuffer::Kind::temporary: result.kind = runtime::PlanBuffer::Kind::temporary; break;
    case ScheduleBuffer::Kind::constant:
    case ScheduleBuffer::Kind::packed: result.kind = runtime::PlanBuffer::Kind::constant; break;
  }
  result.index = buffer.index;
  result.dtype = buffer.dtype;
  result.elements = buffer.elements;
  result.offset = buffer.offset;
  if (result.kind == runtime::PlanBuffer::Kind::constant) {
    result.index = static_cast<int>(plan.constants.size());
    plan.constants.push_back(constant_bytes(buffer));
  }
  return result;
}

KernelReport report(const Payload& payload, const std::string& symbol, const Graph& graph) {
  const loop::Cost cost = payload.cost();
  return {symbol,
          payload.text(),
          {},
          static_cast<std::int64_t>(at_hints(cost.bytes, graph)),
          static_cast<std::int64_t>(at_hints(cost.operations, graph)),
          payload.kernel()->comments};
}

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

void log_fusion(const Executable& executable) {
  if (!logging::enabled(logging::Channel::fusion)) return;
  std::istringstream text(executable.schedule_text);
  for (std::string line; std::getline(text, line);) logging::write(logging::Channel::fusion, line);
}
void log_kernels(const Executable& executable) {
  if (!logging::enabled(logging::Channel::kernels)) return;
  for (const KernelReport& kernel : executable.kernels) {
    std::string text = concat_text(kernel.name, ": ", kernel.bytes, " bytes, ", kernel.operations, " operations");
    if (!executable.plan.source_path.empty()) text += ", source " + executable.plan.source_path;
    for (const std::string& fused : kernel.comments) text += "; " + fused;
    logging::write(logging::Channel::kernels, text);
  }
}
void log_passes(const Executable& executable) {
  if (!logging::enabled(logging::Channel::passes)) return;
  for (const PassReport& pass : executable.passes) {
    std::string text = concat_text(pass.name, ": ", pass.milliseconds, " ms, ", pass.nodes);
    for (const auto& [row, times] : pass.rewrites) text += concat_text("; ", row, ": ", times);
    logging::write(logging::Channel::passes, text);
  }
}

// A graph on its way to a launch plan.
struct Lowered {
  Graph graph;
  Schedule schedule;
  std::shared_ptr<Executable> executable;
};

// Everything of one graph up to the code generator.
Lowered lower_graph(Graph graph, Device device, const PipelineOptions& options) {
  auto executable = std::make_shared<Executable>();
  DecidedSizes sizes(graph);
  executable->traced_text = to_text(graph);
  graph = optimize(std::move(graph), options, &executable->passes);
  executable->graph_text = to_text(graph);

  Timer timer;
  Schedule schedule = make_schedule(graph, device, providers::all());
  executable->passes.push_back({"schedule", timer.milliseconds(), schedule.steps.size()});
  sizes.close();
  executable->schedule_text = to_text(schedule) + schedule.decisions;
  log_fusion(*executable);

  runtime::Plan& plan = executable->plan;
  plan.device = device;
  for (const ScheduleBuffer& buffer : schedule.buffers) plan.buffers.push_back(plan_buffer(buffer, plan));
  plan.argument_count = static_cast<int>(graph.inputs.size());
  plan.result_count = static_cast<int>(graph.outputs.size());
  plan.symbol_count = static_cast<int>(graph.symbols.size());
  plan.arena_bytes = schedule.arena_bytes;
  for (const Schedule::Donation& donation : schedule.donations)
    plan.donations.push_back({donation.argument, donation.result});
  mark_host_buffers(plan, graph);
  executable->arena_bytes = static_cast<std::int64_t>(at_hints(schedule.arena_bytes, graph));
  return {std::move(graph), std::move(schedule), std::move(executable)};
}

// What the steps call, as sources.
void emit(Lowered& lowered, providers::Sources& sources) {
  Executable& executable = *lowered.executable;
  for (const Step& step : lowered.schedule.steps) {
    runtime::EntryPoint entry = step.payload->emit(sources);
    if (step.payload->kernel()) executable.kernels.push_back(report(*step.payload, entry.name, lowered.graph));
    const std::string name = entry.name.empty() ? step.name : entry.name;
    executable.plan.launches.push_back({name, step.buffers, std::move(entry), step.payload});
  }
}

// Sources, compiled and loaded: where they can be read, and in how many units.
struct Compiled {
  std::shared_ptr<const runtime::Functions> functions;
  std::string source_path;
  std::size_t units = 0;
};
Compiled compile_for_host(std::vector<std::string> units) {
  const std::size_t count = units.size();
  if (count == 0) return {};
  std::shared_ptr<Library> library = jit({std::move(units), host_isa(), {}});
  return {library, library->source_path(), count};
}
std::vector<std::string> device_units(const providers::Sources& sources, std::size_t most_a_unit) {
  std::vector<std::string> texts;
  for (const auto& [name, text] : sources.texts()) texts.push_back(text);
  return codegen::cuda_units(texts, most_a_unit);
}
Compiled compile_for_device(const std::vector<std::string>& units, const providers::Sources& sources) {
  std::vector<std::string> names;
  for (const auto& [name, text] : sources.texts()) names.push_back(name);
  auto code = std::make_shared<runtime::cuda::Code>(units, names, sources.device());
  return {code, code->source_path(), units.size()};
}

// With WEFT_NVRTC_CHECK set, what is compiled for the host must compile for a device too: the suite then is a test of
// the CUDA generator, without a GPU.
void check_device_code(const std::vector<Lowered>& graphs) {
  std::string why;
  if (!runtime::cuda::nvrtc_available(&why)) return logging::warn_once("WEFT_NVRTC_CHECK: " + why);
  providers::Sources sources(Device::cuda());
  for (const Lowered& lowered : graphs)
    for (const Step& step : lowered.schedule.steps) step.payload->emit(sources);
  try {
    constexpr std::size_t most_a_unit = 400;  // few programs take the least time in all; nobody waits for the first
    runtime::cuda::compile_units(device_units(sources, most_a_unit), "sm_90", runtime::cuda::Effort::check);
  } catch (const CompileError& error) {  // which would be no more than a warning
    throw_internal(Loc::current(), error.what());
  }
}

// Graphs of one device: their kernels are generated and compiled together, and their plans made ready.
void compile_lowered(std::vector<Lowered>& graphs, Device device) {
  const bool on_host = device.type == Device::Type::cpu;
  if (on_host && weft::options().nvrtc_check) check_device_code(graphs);
  Timer generate;
  providers::Sources sources(device);
  for (Lowered& lowered : graphs) emit(lowered, sources);
  sources.generate_texts();
  const std::size_t kernels = sources.kernels().size();
  std::vector<std::string> units = on_host ? codegen::cpp_units(sources.kernels(), unit_count(kernels))
                                           : device_units(sources, codegen::functions_a_unit);
  const double generate_milliseconds = generate.milliseconds();
  Timer compile;
  const Compiled made = on_host ? compile_for_host(std::move(units)) : compile_for_device(units, sources);
  const double compile_milliseconds = compile.milliseconds();
  for (const Lowered& lowered : graphs) {
    Executable& executable = *lowered.executable;
    executable.plan.functions = made.functions;
    executable.plan.source_path = made.source_path;
    runtime::prepare(executable.plan);
    for (KernelReport& kernel : executable.kernels) kernel.source = sources.texts().at(kernel.name);
    executable.passes.push_back({"generate", generate_milliseconds, made.units});
    executable.passes.push_back({"compile", compile_milliseconds, kernels});
    log_kernels(executable);
    log_passes(executable);
  }
}

}  // namespace

Graph optimize(Graph graph, const PipelineOptions& options, std::vector<PassReport>* reports) {
  if (options.verify) verify(graph);
  const Device device = device_of(graph);
  PassContext context{device, [device](const Node& node) { return providers::all().takes(node, device); }};
  std::map<const Rewrite*, int> rewrites;
  if (logging::enabled(logging::Channel::passes))
    context.rewritten = [&rewrites](const Rewrite& row) { ++rewrites[&row]; };
  for (const NamedPass& entry : passes_without(options.skip)) {
    Timer timer;
    graph = entry.pass(graph, context);
    if (reports) {
      PassReport& report = reports->emplace_back(PassReport{entry.name, timer.milliseconds(), graph.nodes.size()});
      for (const auto& [row, times] : std::exchange(rewrites, {})) report.rewrites.emplace_back(to_text(*row), times);
    }
    if (options.verify) verify(graph);
  }
  return graph;
}

std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs,
                                                              const PipelineOptions& options) {
  const DefaultFloatModes modes;
  std::vector<std::pair<Device, std::vector<Lowered>>> targets;  // nearly always one
  std::vector<std::shared_ptr<const Executable>> all;
  for (Graph& graph : graphs) {
    const Device device = device_of(graph);
    auto target = std::find_if(targets.begin(), targets.end(), [&](const auto& each) { return each.first == device; });
    if (target == targets.end()) target = targets.insert(target, {device, {}});
    target->second.push_back(lower_graph(std::move(graph), device, options));
    all.push_back(target->second.back().executable);
  }
  for (auto& [device, lowered] : targets) compile_lowered(lowered, device);
  return all;
}

std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options) {
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return compile_graphs(std::move(graphs), options).front();
}

}  // namespace weft
