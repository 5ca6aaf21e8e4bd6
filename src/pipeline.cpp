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
#include "runtime/cuda/blas.hpp"
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

// Nanoseconds on one thread: 8 bytes or 8 simple operations of a vector kernel in each.
Dim work_of(const loop::Cost& cost) { return cost.bytes / Dim(8) + cost.operations / Dim(8); }

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

// A kernel's expression over its size slots, over the plan's symbols.
Dim over_symbols(Dim dim, const runtime::Launch& launch) {
  return dims::substitute(dim, [&](const DimNode* atom) {
    return atom->kind == DimKind::symbol ? launch.parameters[static_cast<std::size_t>(atom->number)]
                                         : Dim::from_node(atom);
  });
}

runtime::Launch launch_of(const Step& step) {
  runtime::Launch launch;
  launch.name = step.name;
  launch.buffers = step.buffers;
  switch (step.kind) {
    case Step::Kind::kernel:
      launch.kind = runtime::Launch::Kind::kernel;
      launch.units = loop::unit_count(step.kernel);
      launch.work = work_of(loop::cost(step.kernel));
      break;
    case Step::Kind::matmul:
      launch.kind = runtime::Launch::Kind::matmul;
      launch.matmul = step.contraction;
      break;
    case Step::Kind::scatter_add:
      launch.kind = runtime::Launch::Kind::scatter_add;
      launch.rows = step.rows, launch.count = step.count, launch.width = step.width;
      break;
    case Step::Kind::check:
      launch.kind = runtime::Launch::Kind::check;
      launch.message = interned_text(step.message);
      break;
  }
  // Units and work are over the kernel's own size slots; the plan evaluates over the graph's symbols.
  if (step.kind == Step::Kind::kernel && !step.kernel.parameters.empty()) {
    launch.parameters = step.kernel.parameters;
    launch.units = over_symbols(launch.units, launch);
    launch.work = over_symbols(launch.work, launch);
  }
  return launch;
}

// Kernels of one or many graphs, each once: those that differ in names and in the values of size slots only are one.
class KernelSet {
 public:
  // The symbol under which the step's kernel is found.
  std::string add(loop::Kernel kernel) {
    loop::Kernel nameless = kernel;
    nameless.name.clear();
    nameless.parameters.assign(nameless.parameters.size(), Dim(0));
    auto [found, fresh] = symbols_.emplace(loop::to_text(nameless), "");
    if (fresh) {
      kernel.name = "weft_k" + std::to_string(kernels_.size()) + "_" + kernel.name;
      found->second = kernel.name;
      kernels_.push_back(std::move(kernel));
    }
    return found->second;
  }
  const std::vector<loop::Kernel>& kernels() const { return kernels_; }

 private:
  std::map<std::string, std::string> symbols_;
  std::vector<loop::Kernel> kernels_;
};

KernelReport report(const loop::Kernel& kernel, const std::string& symbol, const Graph& graph) {
  std::vector<std::int64_t> slots;
  for (Dim parameter : kernel.parameters) slots.push_back(static_cast<std::int64_t>(at_hints(parameter, graph)));
  loop::Cost cost = loop::cost(kernel);
  return {symbol,
          loop::to_text(kernel),
          {},
          dims::evaluate(cost.bytes, slots),
          dims::evaluate(cost.operations, slots),
          kernel.comments};
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
  for (const PassReport& pass : executable.passes)
    logging::write(logging::Channel::passes, concat_text(pass.name, ": ", pass.milliseconds, " ms, ", pass.nodes));
}

// Everything of one graph up to the compiler.
std::shared_ptr<Executable> lower_graph(Graph graph, Device device, const PipelineOptions& options,
                                        KernelSet& kernels) {
  auto executable = std::make_shared<Executable>();
  DecidedSizes sizes(graph);
  executable->traced_text = to_text(graph);
  graph = optimize(std::move(graph), options, &executable->passes);
  executable->graph_text = to_text(graph);

  Timer timer;
  Schedule schedule = make_schedule(graph);
  executable->passes.push_back({"schedule", timer.milliseconds(), schedule.steps.size()});
  sizes.close();
  executable->schedule_text = to_text(schedule) + schedule.decisions;
  log_fusion(*executable);

  runtime::Plan& plan = executable->plan;
  plan.device = device;
  for (const ScheduleBuffer& buffer : schedule.buffers) plan.buffers.push_back(plan_buffer(buffer, plan));
  for (Step& step : schedule.steps) {
    if (step.kind == Step::Kind::kernel) {
      step.name = kernels.add(step.kernel);
      executable->kernels.push_back(report(step.kernel, step.name, graph));
    }
    plan.launches.push_back(launch_of(step));
  }
  plan.argument_count = static_cast<int>(graph.inputs.size());
  plan.result_count = static_cast<int>(graph.outputs.size());
  plan.symbol_count = static_cast<int>(graph.symbols.size());
  plan.arena_bytes = schedule.arena_bytes;
  for (const Schedule::Donation& donation : schedule.donations)
    plan.donations.push_back({donation.argument, donation.result});
  mark_host_buffers(plan, graph);
  executable->arena_bytes = static_cast<std::int64_t>(at_hints(schedule.arena_bytes, graph));
  return executable;
}

// Kernels as source, compiled and found: what `compile_graphs` asks of a target.
struct Compiled {
  std::map<std::string, std::string> sources;  // by symbol, for people
  double generate_milliseconds = 0, compile_milliseconds = 0;
  std::size_t units = 0;
};
using Executables = std::vector<std::shared_ptr<Executable>>;

Compiled compile_for_host(const std::vector<loop::Kernel>& kernels, Executables& executables) {
  Compiled result;
  Timer generate;
  std::vector<std::string> units = codegen::cpp_units(kernels, unit_count(kernels.size()));
  for (const loop::Kernel& kernel : kernels) result.sources[kernel.name] = codegen::generate_cpp(kernel);
  result.generate_milliseconds = generate.milliseconds();
  result.units = units.size();

  Timer compile;
  if (units.empty()) return result;
  std::shared_ptr<Library> library = jit({std::move(units), host_isa(), {}});
  result.compile_milliseconds = compile.milliseconds();
  for (std::shared_ptr<Executable>& executable : executables) {
    runtime::Plan& plan = executable->plan;
    plan.library = library;
    plan.source_path = library->source_path();
    for (runtime::Launch& launch : plan.launches)
      if (launch.kind == runtime::Launch::Kind::kernel)
        launch.function =
            library->function<void(void* const*, const std::int64_t*, std::int64_t, std::int64_t)>(launch.name.c_str());
  }
  return result;
}

// The functions of a program for the device, by name: kernels, and what stands in for library calls.
std::map<std::string, std::string> device_functions(const std::vector<loop::Kernel>& kernels,
                                                    Executables& executables) {
  std::map<std::string, std::string> functions;
  std::map<std::string, codegen::CudaKernel> generated;
  for (const loop::Kernel& kernel : kernels) {
    generated[kernel.name] = codegen::generate_cuda(kernel);
    functions[kernel.name] = generated[kernel.name].text;
  }
  for (std::shared_ptr<Executable>& executable : executables)
    for (runtime::Launch& launch : executable->plan.launches) {
      switch (launch.kind) {
        case runtime::Launch::Kind::kernel: {
          const codegen::CudaKernel& kernel = generated[launch.name];
          launch.units = over_symbols(kernel.blocks, launch);
          launch.threads = kernel.threads;
          break;
        }
        case runtime::Launch::Kind::scatter_add: {
          const DType dtype = executable->plan.buffers[static_cast<std::size_t>(launch.buffers[2])].dtype;
          launch.name = codegen::cuda_scatter_add_name(dtype);
          functions[launch.name] = codegen::cuda_scatter_add(dtype);
          break;
        }
        case runtime::Launch::Kind::matmul: {
          const bool library = runtime::cuda::library_takes(launch.matmul);
          launch.name = library ? "" : codegen::cuda_product_name(launch.matmul.dtype);
          if (!library) functions[launch.name] = codegen::cuda_product(launch.matmul.dtype);
          break;
        }
        case runtime::Launch::Kind::check: break;
      }
    }
  return functions;
}

Compiled compile_for_device(const std::vector<loop::Kernel>& kernels, Executables& executables, Device device) {
  Compiled result;
  Timer generate;
  result.sources = device_functions(kernels, executables);
  std::vector<std::string> names, texts;
  for (const auto& [name, text] : result.sources) names.push_back(name), texts.push_back(text);
  std::vector<std::string> units = codegen::cuda_units(texts);
  result.generate_milliseconds = generate.milliseconds();
  result.units = units.size();

  Timer compile;
  auto code = std::make_shared<runtime::cuda::Code>(units, names, device);
  result.compile_milliseconds = compile.milliseconds();
  for (std::shared_ptr<Executable>& executable : executables) {
    executable->plan.device_code = code;
    executable->plan.source_path = code->source_path();
  }
  return result;
}

// With WEFT_NVRTC_CHECK set, what is compiled for the host must compile for a device too: the suite then is a test of
// the CUDA generator, without a GPU.
void check_device_code(const std::vector<loop::Kernel>& kernels, const Executables& executables) {
  std::string why;
  if (!runtime::cuda::nvrtc_available(&why)) return logging::warn_once("WEFT_NVRTC_CHECK: " + why);
  Executables copies;
  for (const std::shared_ptr<Executable>& executable : executables)
    copies.push_back(std::make_shared<Executable>(*executable));
  std::vector<std::string> texts;
  for (const auto& [name, text] : device_functions(kernels, copies)) texts.push_back(text);
  try {
    constexpr std::size_t most_a_unit = 400;  // few programs take the least time in all; nobody waits for the first
    runtime::cuda::compile_units(codegen::cuda_units(texts, most_a_unit), "sm_90", runtime::cuda::Effort::check);
  } catch (const CompileError& error) {  // which would be no more than a warning
    throw_internal(Loc::current(), error.what());
  }
}

}  // namespace

Graph optimize(Graph graph, const PipelineOptions& options, std::vector<PassReport>* reports) {
  if (options.verify) verify(graph);
  for (const NamedPass& entry : passes_without(options.skip)) {
    Timer timer;
    graph = entry.pass(graph);
    if (reports) reports->push_back({entry.name, timer.milliseconds(), graph.nodes.size()});
    if (options.verify) verify(graph);
  }
  return graph;
}

std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs,
                                                              const PipelineOptions& options) {
  const DefaultFloatModes modes;
  struct Target {
    Device device;
    KernelSet kernels;
    Executables executables;
  };
  std::vector<Target> targets;  // nearly always one
  std::vector<std::shared_ptr<const Executable>> all;
  for (Graph& graph : graphs) {
    const Device device = device_of(graph);
    auto target =
        std::find_if(targets.begin(), targets.end(), [&](const Target& each) { return each.device == device; });
    if (target == targets.end()) target = targets.insert(target, Target{device, {}, {}});
    target->executables.push_back(lower_graph(std::move(graph), device, options, target->kernels));
    all.push_back(target->executables.back());
  }

  for (Target& target : targets) {
    const std::vector<loop::Kernel>& kernels = target.kernels.kernels();
    const bool on_host = target.device.type == Device::Type::cpu;
    if (on_host && weft::options().nvrtc_check) check_device_code(kernels, target.executables);
    const Compiled made = on_host ? compile_for_host(kernels, target.executables)
                                  : compile_for_device(kernels, target.executables, target.device);
    for (std::shared_ptr<Executable>& executable : target.executables) {
      runtime::prepare(executable->plan);
      for (KernelReport& kernel : executable->kernels) kernel.source = made.sources.at(kernel.name);
      executable->passes.push_back({"generate", made.generate_milliseconds, made.units});
      executable->passes.push_back({"compile", made.compile_milliseconds, kernels.size()});
      log_kernels(*executable);
      log_passes(*executable);
    }
  }
  return all;
}

std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options) {
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return compile_graphs(std::move(graphs), options).front();
}

}  // namespace weft
