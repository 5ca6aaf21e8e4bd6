// What the tests of graphs share: graphs that are recorded as a trace records them.
#pragma once
#include <doctest/doctest.h>

#include "record/record.hpp"

namespace graph_test {
using namespace weft;

// Records a graph as a trace does, and lets go of the thread's state at the end of the block.
struct Recording {
  Trace trace;
  TraceScope scope;
  Recording() : scope((trace.id = new_trace_id(), trace)) {}
  Tensor input(DType dtype, Shape shape) {
    const Parameter slot{static_cast<std::int64_t>(trace.inputs.size())};
    return trace.inputs.emplace_back(record(Op::input, {}, slot, Type{dtype, false, {}, shape}, {}));
  }
  Tensor x() { return input(DType::f32, Shape::of(2, 3)); }
  Graph graph(std::vector<Tensor> outputs) { return make_graph(trace.inputs, std::move(outputs), trace.effects); }
};

// The graph as a node of another one.
inline Tensor call(const std::shared_ptr<const Graph>& graph, const Tensor& a, const Tensor& b) {
  Tensor value = record(Op::call, {a, b}, Called{}, type_of(graph->outputs[0]), {});
  std::vector<Type> more;
  for (std::size_t i = 1; i < graph->outputs.size(); ++i) more.push_back(type_of(graph->outputs[i]));
  set_more_results(*value.node(), more);
  value.node()->make_more().bodies = {graph};
  if (is_effect(*value.node())) recorder().trace()->effects.push_back(value);
  return value;
}

}  // namespace graph_test
