// Values that are computed again: passes keep them apart from those that they repeat.
#include <doctest/doctest.h>

#include "ir/parse.hpp"
#include "passes/algebra.hpp"
#include "passes/cse.hpp"
#include "passes/decompose.hpp"
#include "passes/regions.hpp"
#include "pipeline.hpp"

using namespace weft;

namespace {

std::string product_of_two(const char* first, const char* second) {
  return std::string("%0 f32[8] = input(0)\n%1 f32[8] = sin(%0)") + first + "\n%2 f32[8] = sin(%0)" + second +
         "\n%3 f32[8] = mul(%1, %2)\nreturn %3\n";
}
std::ptrdiff_t count(const Graph& graph, Op op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Tensor& value) { return value.node()->op == op; });
}

}  // namespace

TEST_CASE("equal values of two recomputations stay two, of one they become one") {
  for (const auto& [first, second, left] : {std::tuple{"", "", 1},
                                            {" recomputation 1", " recomputation 1", 1},
                                            {"", " recomputation 1", 2},
                                            {" recomputation 1", " recomputation 2", 2}}) {
    const Graph graph = parse_graph(product_of_two(first, second));
    CHECK(structure_text(parse_graph(to_text(graph))) == structure_text(graph));
    CHECK(count(common_subexpressions(graph), Op::sin) == left);
    CHECK(count(optimize(graph, {}), Op::sin) == left);
  }
}

TEST_CASE("what takes a node's place is of its recomputation") {
  const Graph graph = parse_graph(
      "%0 f32[8,4] = input(0)\n%1 f32[4,8] = input(1)\n%2 f32[8,8] = matmul(%0, %1)\n"
      "%3 f32[8,8] = matmul(%0, %1) recomputation 7\n%4 f32[8,8] = neg(%3) recomputation 7\n"
      "%5 f32[8,8] = sub(%2, %4) recomputation 7\nreturn %5\n");
  const Graph optimized = optimize(graph, {});
  CHECK(count(optimized, Op::matmul) == 2);
  REQUIRE(count(optimized, Op::add) == 1);  // a - -b
  for (const Tensor& value : optimized.nodes)
    if (value.node()->op == Op::add) CHECK(value.node()->recomputation == 7);
  // With nobody who multiplies, each product becomes a sum of products.
  const PassContext nobody{Device::cpu(), [](const Node&) { return false; }};
  const Graph decomposed = common_subexpressions(decompose_matmul(graph, nobody));
  REQUIRE(count(decomposed, Op::sum) == 2);
  CHECK(std::count_if(decomposed.nodes.begin(), decomposed.nodes.end(), [](const Tensor& value) {
          return value.node()->op == Op::sum && value.node()->recomputation == 7;
        }) == 1);
}

TEST_CASE("the body of a call is of the call's recomputation") {
  const Graph graph = parse_graph(
      "%0 f32[8] = input(0)\n%1 f32[8] = call(%0; \"one\")\n  %0 f32[8] = input(0)\n"
      "  %1 f32[8] = sin(%0)\n  return %1\n"
      "%2 f32[8] = call(%0; \"one\") recomputation 3\n  %0 f32[8] = input(0)\n  %1 f32[8] = sin(%0)\n"
      "  return %1\n%3 f32[8] = mul(%1, %2)\nreturn %3\n");
  const Graph inlined = common_subexpressions(inline_calls(graph));
  REQUIRE(count(inlined, Op::sin) == 2);
}
