// The list of passes, top to bottom: from a traced graph to a launch plan.
#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "codegen/cpp.hpp"
#include "graph/algebra.hpp"
#include "graph/cse.hpp"
#include "graph/dead_code.hpp"
#include "graph/decompose.hpp"
#include "graph/fold.hpp"
#include "graph/regions.hpp"
#include "runtime/jit.hpp"
#include "schedule/schedule.hpp"

namespace weft {
namespace {

struct NamedPass {
  const char* name;
  Pass pass;
};

// Calls first: nothing below looks into a body. Algebra after folding, which gives it constants to see; duplicates after
// algebra, which makes equal things look equal; decomposition last, since its products and sums only blur the above.
constexpr NamedPass graph_passes[] = {
    {"inline_calls", inline_calls},
    {"fold_constants", fold_constants},
    {"simplify_algebra", simplify_algebra},
    {"common_subexpressions", common_subexpressions},
    {"decompose_matmul", decompose_matmul},
    {"dead_code", dead_code},
};

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

std::vector<std::byte> constant_bytes(const Tensor& value) {
  const Node& node = *value.node();
  std::size_t bytes = storage_bytes(node.type.dtype, node.type.shape.element_count().constant());
  std::vector<std::byte> copy(bytes);
  WEFT_CHECK(node.storage && !node.layout, "a constant of the graph is contiguous memory");
  if (bytes) std::memcpy(copy.data(), node.storage->data, bytes);
  return copy;
}

runtime::PlanBuffer plan_buffer(const ScheduleBuffer& buffer, runtime::Plan& plan) {
  runtime::PlanBuffer result{};
  switch (buffer.kind) {
    case ScheduleBuffer::Kind::argument: result.kind = runtime::PlanBuffer::Kind::argument; break;
    case ScheduleBuffer::Kind::result: result.kind = runtime::PlanBuffer::Kind::result; break;
    case ScheduleBuffer::Kind::temporary: result.kind = runtime::PlanBuffer::Kind::temporary; break;
    case ScheduleBuffer::Kind::constant: result.kind = runtime::PlanBuffer::Kind::constant; break;
  }
  result.index = buffer.index;
  result.dtype = buffer.dtype;
  result.elements = buffer.elements;
  result.offset = buffer.offset;
  if (buffer.kind == ScheduleBuffer::Kind::constant) {
    result.index = static_cast<int>(plan.constants.size());
    plan.constants.push_back(constant_bytes(buffer.constant));
  }
  return result;
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
    auto global = [&](Dim dim) {
      return dims::substitute(dim, [&](const DimNode* atom) {
        return atom->kind == DimKind::symbol ? step.kernel.parameters[static_cast<std::size_t>(atom->number)] : Dim::from_node(atom);
      });
    };
    launch.units = global(launch.units);
    launch.work = global(launch.work);
    launch.parameters = step.kernel.parameters;
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
  return {symbol, loop::to_text(kernel), {}, static_cast<double>(dims::evaluate(cost.bytes, slots)),
          static_cast<double>(dims::evaluate(cost.operations, slots)), kernel.comments};
}

// Everything of one graph up to the compiler.
std::shared_ptr<Executable> lower_graph(Graph graph, const PipelineOptions& options, KernelSet& kernels) {
  auto executable = std::make_shared<Executable>();
  executable->traced_text = to_text(graph);
  graph = optimize(std::move(graph), options, &executable->passes);
  executable->graph_text = to_text(graph);

  Timer timer;
  Schedule schedule = make_schedule(graph);
  executable->passes.push_back({"schedule", timer.milliseconds(), schedule.steps.size()});
  executable->schedule_text = to_text(schedule) + schedule.decisions;
  if (log::enabled(log::Channel::fusion)) log::write(log::Channel::fusion, executable->schedule_text);

  runtime::Plan& plan = executable->plan;
  plan.device = options.device;
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
  for (const Schedule::Donation& donation : schedule.donations) plan.donations.push_back({donation.argument, donation.result});
  executable->arena_bytes = static_cast<std::int64_t>(at_hints(schedule.arena_bytes, graph));
  return executable;
}

void link(Executable& executable, const std::shared_ptr<Library>& library) {
  runtime::Plan& plan = executable.plan;
  plan.library = library;
  plan.source_path = library->source_path();
  for (runtime::Launch& launch : plan.launches)
    if (launch.kind == runtime::Launch::Kind::kernel)
      launch.function = library->function<void(void* const*, const std::int64_t*, std::int64_t, std::int64_t)>(launch.name.c_str());
}

}  // namespace

Graph optimize(Graph graph, const PipelineOptions& options, std::vector<PassReport>* reports) {
  if (options.verify) verify(graph);
  for (const NamedPass& entry : graph_passes) {
    if (std::find(options.skip.begin(), options.skip.end(), entry.name) != options.skip.end()) continue;
    Timer timer;
    graph = entry.pass(graph);
    if (reports) reports->push_back({entry.name, timer.milliseconds(), graph.nodes.size()});
    if (options.verify) verify(graph);
  }
  return graph;
}

std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs, const PipelineOptions& options) {
  KernelSet kernels;
  std::vector<std::shared_ptr<Executable>> executables;
  for (Graph& graph : graphs) executables.push_back(lower_graph(std::move(graph), options, kernels));

  Timer generate;
  std::vector<std::string> units = codegen::cpp_units(kernels.kernels(), unit_count(kernels.kernels().size()));
  std::map<std::string, std::string> sources;
  for (const loop::Kernel& kernel : kernels.kernels()) sources[kernel.name] = codegen::generate_cpp(kernel);
  PassReport generated{"generate", generate.milliseconds(), units.size()};

  Timer compile;
  std::shared_ptr<Library> library = units.empty() ? nullptr : jit({std::move(units), host_isa(), {}});
  PassReport compiled{"compile", compile.milliseconds(), kernels.kernels().size()};

  for (std::shared_ptr<Executable>& executable : executables) {
    if (library) link(*executable, library);
    runtime::prepare(executable->plan);
    for (KernelReport& kernel : executable->kernels) kernel.source = sources[kernel.name];
    executable->passes.push_back(generated);
    executable->passes.push_back(compiled);
    if (log::enabled(log::Channel::passes))
      for (const PassReport& pass : executable->passes)
        log::write(log::Channel::passes, concat_text(pass.name, ": ", pass.milliseconds, " ms, ", pass.nodes));
  }
  return {executables.begin(), executables.end()};
}

std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options) {
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return compile_graphs(std::move(graphs), options).front();
}

}  // namespace weft
