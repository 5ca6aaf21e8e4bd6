// Graphs that are compiled apart have the code that each has alone: what eager operations on a device, whose kernels
// are compiled side by side, find again by themselves.
#include <doctest/doctest.h>

#include "ir/builder.hpp"
#include "ir/graph.hpp"
#include "pipeline.hpp"

using namespace weft;

namespace {

Graph squared_and(Op op) {
  const Builder build(Loc::current(), 0, 0);
  Type type;
  type.dtype = DType::f32;
  type.shape = Shape::of(Dim(977));
  const Tensor x = build.input(0, type);
  return make_graph({x}, {build.make(op, {build.make(Op::mul, {x, x}, {}, type)}, {}, type)}, {});
}

std::string source_of(const Executable& executable) { return executable.plan.source_path; }

}  // namespace

TEST_CASE("graphs that are compiled apart have the code that each has alone") {
  const auto graphs = [] {
    std::vector<Graph> both;
    both.push_back(squared_and(Op::tanh));
    both.push_back(squared_and(Op::sqrt));
    return both;
  };
  PipelineOptions apart;
  apart.apart = true;
  const auto executables = compile_graphs(graphs(), apart), together = compile_graphs(graphs(), {});
  CHECK(source_of(*together[0]) == source_of(*together[1]));
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<Graph> both = graphs();
    const auto alone = compile_graph(std::move(both[i]), {});
    REQUIRE_FALSE(source_of(*alone).empty());
    CHECK(source_of(*executables[i]) == source_of(*alone));
    CHECK(source_of(*executables[i]) != source_of(*together[0]));
  }
}
