// From a traced graph to something that runs: the stages in order are in pipeline.cpp.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "base/options.hpp"
#include "ir/graph.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/plan.hpp"
#include "weft/backends.hpp"

namespace weft {

struct Schedule;

// What explain() shows of a kernel.
struct KernelReport {
  std::string name;
  std::string loop_text;
  std::string source;
  std::int64_t bytes = 0;  // moved, at the traced sizes
  std::int64_t operations = 0;
  std::vector<std::string> comments;  // what it fuses: an operation each, with the user's line
};
// One stage of a compilation. `size` is that of its result, counted in what the stage makes: nodes of the graph, then
// steps, buffers, units of source, functions, launches.
struct StageReport {
  std::string name;
  double milliseconds = 0;
  std::size_t size = 0;
  std::vector<std::pair<std::string, int>> rewrites = {};  // rows of tables, and how often each held; for the log
};

struct Executable {
  runtime::Plan plan;
  std::vector<StageReport> stages;
  std::int64_t arena_bytes = 0;             // at the traced sizes
  std::vector<std::string> cache;           // where plan and kernels came from, a line each, for people
  std::shared_ptr<class TextSources> kept;  // what texts are made from; null where options did not ask for it
};

// What a step of a plan does at some sizes of its graph.
struct StepWork {
  bool generated = false;  // a kernel; else a library's operation or a routine of Weft's own
  std::string by;          // the library; empty for the others
  std::int64_t bytes = 0;  // moved
  std::int64_t operations = 0;
  bool runs_others = false;  // a loop, whose work is that of the steps in its bodies
};
StepWork work_of(const runtime::Launch& launch, std::span<const std::int64_t> symbols);

// Texts of an executable that kept what they are made from.
struct Texts {
  std::string traced;                   // the graph as recorded
  std::string optimized;                // after the passes
  std::vector<std::string> recomputed;  // passes/rematerialize.hpp
  std::string schedule;                 // buffers, steps in order, and why neighbours were not fused
  std::vector<std::string> regions;     // what is repeated (schedule/repeats.hpp)
  std::vector<KernelReport> kernels;
  struct Step {
    std::string name;
    StepWork work;  // at the traced sizes
    std::vector<std::string> computes;
  };
  std::vector<Step> steps;  // in order
  struct Temporary {
    std::string type;
    std::int64_t offset, bytes;  // in the arena, at the traced sizes
    std::size_t first, last;     // the steps that use it
  };
  std::vector<Temporary> temporaries;
};
Texts texts_of(const Executable& executable);

// A graph after a stage.
struct StageView {
  const char* stage;
  const Graph& graph;
  const Schedule* schedule;  // null before that stage
  const Executable& executable;
};

// A pass, or an observer of the schedule, that the program has registered (trace/registry.hpp).
struct RegisteredPass {
  PassStage stage;
  std::string name, version;
  std::function<Graph(const Graph&)> run;
};
struct FusionObserver {
  std::string name;
  std::function<void(const FusedSteps&)> observe;
};
struct RegisteredPasses {
  std::vector<RegisteredPass> passes;  // in the order in which they run
  std::vector<FusionObserver> observers;
};

// What of a compiled function counts for its graphs: copied whole, and whole in the name of a stored plan
// (stored_plans in pipeline.cpp).
struct FunctionOptions {
  std::string title = {};  // of the function, for the plan
  std::shared_ptr<const RegisteredPasses> registered = {};
  std::optional<Device::Type> device = {};  // where the function's tensors must be, else an Error
  Level level = Level::O2;
  Region region = Region::automatic;
  Precision precision = Precision::eager_exact;
  Float32Products float32_products = Float32Products::ieee;
  CompileMode mode = CompileMode::automatic;  // how calls on a device are recorded: `level` says what is timed
  double memory_budget = 1;
  std::optional<InstructionSet> isa = {};  // of the host's kernels; nothing: this machine's. Another's plans do not run
};

struct PipelineOptions : FunctionOptions {
  bool verify =
#ifdef NDEBUG
      false;
#else
      true;
#endif
  std::vector<Update> updates;  // whose outputs are written into their inputs' memory, where they can
  // Of each graph the inputs that are the same in many calls: Plan::constant_arguments. None: they are none's.
  std::vector<std::vector<int>> constant_inputs;
  std::vector<std::string> skip;                // names of passes to leave out, beside those of options().skip_passes
  std::function<void(const StageView&)> after;  // called after each stage, for each graph
  bool keep = false;                            // for texts_of()
  bool apart = false;   // of many graphs each has the code that it has when it is compiled alone
  bool stored = false;  // plans are looked for in the disk cache, and kept there (providers/stored_plans.hpp)
};

// Throws CompileError when the kernels can't be compiled, InternalError when a pass breaks an invariant.
std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options);
// The same for many graphs whose kernels are compiled together.
std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs,
                                                              const PipelineOptions& options);

// What a call of the graph takes beside arguments and constants, as it is planned, without compiling anything. On a
// device the temporaries alone.
std::int64_t planned_bytes(Graph graph, const PipelineOptions& options);

// The graph before derivatives of it are made: attention that is written by hand is a call of attention where a device
// does that whole. Where a derivative is recorded in a trace: autograd/attention.hpp.
Graph before_derivatives(Graph graph);

// The graph after the passes: what the schedule, the reference interpreter and the tests take.
Graph optimize(Graph graph, const PipelineOptions& options, std::vector<StageReport>* reports = nullptr);

}  // namespace weft
