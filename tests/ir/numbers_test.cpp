// Numbers of nodes are kept beside them: graphs that share nodes number them independently, on several threads at once.
#include <memory>
#include <thread>

#include "base/fail.hpp"
#include "pipeline.hpp"
#include "tests/ir/support.hpp"
#include "weft/ops.hpp"

using namespace weft;
using graph_test::Recording;

TEST_CASE("numbers are found again, whatever their count, and set anew") {
  std::vector<Tensor> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back(full({}, i));
  NodeNumbers numbers;
  CHECK(numbers.find(nodes[0].node()) == NodeNumbers::none);
  for (std::uint32_t i = 0; i < nodes.size(); i += 2) CHECK(numbers.set(nodes[i].node(), i));
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    CHECK(numbers.find(nodes[i].node()) == (i % 2 == 0 ? i : NodeNumbers::none));
  CHECK_FALSE(numbers.set(nodes[4].node(), 7));
  CHECK(numbers.find(nodes[4].node()) == 7);
}

TEST_CASE("a node has a number of its own in each graph that holds it") {
  Recording r;
  const Tensor x = r.x(), shared = exp(x), other = sin(x);
  const Graph alone = make_graph(r.trace.inputs, {shared}, {}), both = make_graph(r.trace.inputs, {shared + other}, {});
  verify(alone);
  verify(both);
  CHECK(alone.number(other) == NodeNumbers::none);
  for (const Graph* graph : {&alone, &both})
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) CHECK(graph->number(graph->nodes[i]) == i);
  const Graph without = make_graph(r.trace.inputs, {other}, {});
  CHECK(without.number(other) == 1);
  CHECK(both.number(other) == 2);
}

TEST_CASE("threads optimize one traced graph at once, each into the same text") {
  Recording r;
  const Tensor x = r.x();
  Tensor y = x;
  for (int i = 0; i < 40; ++i) y = sin(y) * 2 + reshape(sum(exp(y), 0, true), {1, 3});
  const Graph graph = r.graph({y, sum(y)});
  const std::string wanted = structure_text(optimize(graph, {}));
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& text : found)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) text = structure_text(optimize(graph, {}));
      });
  }
  for (const std::string& text : found) CHECK(text == wanted);
}

#ifndef NDEBUG
TEST_CASE("a debug build notices a node that was changed after its graph was made") {
  Recording r;
  const Graph graph = r.graph({exp(r.x())});
  verify(graph);
  graph.outputs[0].node()->recomputation = 1;
  CHECK_THROWS_AS(verify(graph), InternalError);
}
#endif
