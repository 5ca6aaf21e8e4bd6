// Graphs for tests: recorded as compile() does it, without a call.
#pragma once
#include "passes/algebra.hpp"
#include "passes/cse.hpp"
#include "passes/decompose.hpp"
#include "passes/fold.hpp"
#include "passes/regions.hpp"
#include "providers/provider.hpp"
#include "record/record.hpp"
#include "schedule/schedule.hpp"

namespace weft::test {

// A trace with inputs, as compile() makes one.
class Traced {
 public:
  Traced() : scope_(trace_) {}
  Tensor input(DType dtype, Shape shape) {
    const Parameter slot{static_cast<std::int64_t>(trace_.inputs.size())};
    trace_.inputs.push_back(record(Op::input, {}, slot, Type{dtype, false, {}, shape}, {}));
    return trace_.inputs.back();
  }
  template <class... Sizes>
  Tensor f32(Sizes... sizes) {
    return input(DType::f32, Shape::of(sizes...));
  }
  Tensor input(Device device, Shape shape, DType dtype = DType::f32) {
    const Parameter slot{static_cast<std::int64_t>(trace_.inputs.size())};
    trace_.inputs.push_back(record(Op::input, {}, slot, Type{dtype, false, device, shape}, {}));
    return trace_.inputs.back();
  }
  Dim symbol(std::int64_t hint) { return trace_.dims.new_symbol(hint); }
  Graph graph(std::vector<Tensor> outputs) {
    Graph graph = make_graph(trace_.inputs, std::move(outputs), trace_.effects);
    graph.symbols = trace_.dims.symbols;
    return graph;
  }
  Schedule schedule(std::vector<Tensor> outputs) {
    Graph graph = this->graph(std::move(outputs));
    const auto provided = [](const Node& node) { return providers::all().takes(node, Device::cpu()); };
    graph = common_subexpressions(simplify_algebra(fold_constants(inline_calls(graph))));
    graph = decompose_matmul(graph, {Device::cpu(), provided});
    verify(graph);
    Schedule schedule = make_schedule(graph, Device::cpu(), providers::all());
    plan_memory(schedule);
    return schedule;
  }

 private:
  static std::uint32_t fresh() { return new_trace_id(); }
  Trace trace_{.id = fresh()};
  TraceScope scope_;
};

}  // namespace weft::test
