// From a traced graph to something that runs: the passes in order are in pipeline.cpp.
#pragma once
#include <memory>

#include "base/options.hpp"
#include "ir/graph.hpp"
#include "runtime/plan.hpp"

namespace weft {

// What explain() shows and tests look at.
struct KernelReport {
  std::string name;
  std::string loop_text;
  std::string source;
  std::int64_t bytes = 0;  // moved, at the traced sizes
  std::int64_t operations = 0;
  std::vector<std::string> comments;  // what it fuses: an operation each, with the user's line
};
struct PassReport {
  std::string name;
  double milliseconds = 0;
  std::size_t nodes = 0;
  std::vector<std::pair<std::string, int>> rewrites = {};  // rows of tables, and how often each held; for the log
};

struct Executable {
  runtime::Plan plan;
  std::string traced_text;    // the graph as recorded
  std::string graph_text;     // after the passes
  std::string schedule_text;  // buffers, steps in order, and why neighbours were not fused
  std::vector<KernelReport> kernels;
  std::vector<PassReport> passes;
  std::int64_t arena_bytes = 0;  // at the traced sizes
};

struct PipelineOptions {
  bool verify =
#ifdef NDEBUG
      false;
#else
      true;
#endif
  std::vector<std::string> skip;  // names of passes to leave out, beside those of options().skip_passes
};

// Throws CompileError when the kernels can't be compiled, InternalError when a pass breaks an invariant.
std::shared_ptr<const Executable> compile_graph(Graph graph, const PipelineOptions& options);
// The same for many graphs whose kernels are compiled together.
std::vector<std::shared_ptr<const Executable>> compile_graphs(std::vector<Graph> graphs,
                                                              const PipelineOptions& options);

// The graph after the graph-level passes: what the schedule, the reference interpreter and the tests take.
Graph optimize(Graph graph, const PipelineOptions& options, std::vector<PassReport>* reports = nullptr);

}  // namespace weft
