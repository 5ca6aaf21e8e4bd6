// What the tests of graphs share: a trace without compile().
#pragma once
#include "graph/graph.hpp"
#include "tensor/record.hpp"

namespace weft::test {

// Records a graph as a trace does, and lets go of the thread's state at the end of the block.
struct Recording {
  Trace trace;
  TraceScope scope;
  Recording() : scope((trace.id = new_trace_id(), trace)) {}
  Tensor input(DType dtype, Shape shape) {
    Attributes slot = Attributes::integer(static_cast<std::int64_t>(trace.inputs.size()));
    return trace.inputs.emplace_back(record(Op::input, {}, slot, Type{dtype, false, {}, shape}, {}));
  }
  Tensor x() { return input(DType::f32, Shape::of(2, 3)); }
  Graph graph(std::vector<Tensor> outputs) { return make_graph(trace.inputs, std::move(outputs), trace.effects); }
};

}  // namespace weft::test
