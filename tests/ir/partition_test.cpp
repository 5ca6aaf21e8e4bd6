// What a forward call saves for its derivative: the minimum cut by itself, and what it chooses of graphs.
#include "ir/partition.hpp"

#include <doctest/doctest.h>

#include <random>

#include "ir/minimum_cut.hpp"
#include "ir/parse.hpp"

using namespace weft;

namespace {

// The places of the saved values in the graph. `read`: places that the derivative reads; `compared`: of these.
std::vector<std::uint32_t> saved(const std::string& text, std::initializer_list<std::size_t> read, double budget = 1,
                                 std::initializer_list<std::size_t> compared = {}) {
  const Graph graph = parse_graph(text);
  ForwardReads reads;
  for (const std::size_t place : read) reads.values.push_back(graph.nodes[place]);
  for (const std::size_t place : compared) reads.compared.push_back(graph.nodes[place]);
  std::vector<std::uint32_t> places;
  for (const SavedValue& each : partition(graph, reads, budget)) places.push_back(graph.number(each.value));
  return places;
}
using Places = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("the minimum cut of random graphs is the least of all cuts") {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; };
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t count = 3 + below(6);
    struct Edge {
      std::uint32_t from, to;
      std::int64_t capacity;
    };
    std::vector<Edge> edges;
    MinimumCut graph(count);
    for (unsigned i = 0; i < 2 * count + below(8); ++i) {
      const Edge edge{below(count), below(count), below(5)};
      edges.push_back(edge);
      graph.edge(edge.from, edge.to, edge.capacity);
    }
    const auto cost = [&](auto is_reached) {
      std::int64_t sum = 0;
      for (const Edge& edge : edges) sum += is_reached(edge.from) && !is_reached(edge.to) ? edge.capacity : 0;
      return sum;
    };
    std::int64_t least = INT64_MAX;
    for (unsigned side = 0; side < 1u << (count - 2); ++side)  // 0 is the source, 1 the sink
      least = std::min(least, cost([&](std::uint32_t v) { return v == 0 || (v > 1 && side >> (v - 2) & 1); }));
    const std::vector<bool> reached = graph.source_side(0, 1);
    CHECK(reached[0]);
    CHECK_FALSE(reached[1]);
    CHECK(cost([&](std::uint32_t v) { return static_cast<bool>(reached[v]); }) == least);
  }
}

TEST_CASE("a product is saved once, and cheap functions of it are computed again") {
  const std::string text =
      "%0 f32[64,32] = input(0)\n%1 f32[32,64] = input(1)\n%2 f32[64,64] = matmul(%0, %1)\n"
      "%3 f32[64,64] = tanh(%2)\n%4 f32[64,64] = mul(%3, %2)\n%5 f32[64,64] = reshape(%4)\n"
      "%6 f32[64,32] = matmul(%5, %0)\nreturn %6\n";
  CHECK(saved(text, {0, 2, 3, 4, 5, 6}) == Places{2});
  CHECK(saved(text, {4}) == Places{4});   // nothing else is read: as many bytes, and no work
  CHECK(saved(text, {0, 1, 6}).empty());  // arguments and results
}

TEST_CASE("what is smallest on the way to what is read is saved") {
  // Reading the wide value back from the narrow one costs nothing but an expansion; a reduction is not done twice.
  CHECK(saved("%0 f32[64,64] = input(0)\n%1 f32[64,64] = matmul(%0, %0)\n%2 f32[64,1] = sum(%1; axes [1])\n"
              "%3 f32[64,1] = exp(%2)\n%4 f32[64,64] = expand(%3)\n%5 f32[64,64] = sin(%4)\n%6 f32[64,64] = matmul(%5, "
              "%0)\n"
              "return %6\n",
              {5}) == Places{3});
}

TEST_CASE("draws are computed again from their offset, and so is the mask") {
  CHECK(saved("%0 i64[] = input(0)\n%1 f32[64,64] = input(1)\n%2 f32[64,64] = matmul(%1, %1)\n%3 i64[] = constant(1)\n"
              "%4 i64[] = add(%0, %3)\n%5 i32[64,64] = random_bits(%0, %4)\n%6 i32[64,64] = constant(7)\n"
              "%7 bool[64,64] = less(%5, %6)\n%8 f32[64,64] = constant(0)\n%9 f32[64,64] = where(%7, %2, %8)\n"
              "%10 f32[64,64] = matmul(%9, %1)\nreturn %10\n",
              {7}) == Places{});
}

TEST_CASE("below a budget of 1 products are computed again, those first whose bytes cost the least time") {
  // %3 takes 64 multiplications for an element, %4 takes 512.
  const std::string wide =
      "%0 f32[64,64] = input(0)\n%1 f32[512,64] = input(1)\n%2 f32[64,512] = input(2)\n"
      "%3 f32[64,512] = matmul(%0, %2)\n%4 f32[64,64] = matmul(%3, %1)\n"
      "%5 f32[64,64] = matmul(%4, %0)\nreturn %5\n";
  CHECK(saved(wide, {3, 4}) == Places{3, 4});
  CHECK(saved(wide, {3, 4}, 0.5) == Places{4});
  CHECK(saved(wide, {3, 4}, 0) == Places{});
}

TEST_CASE("what a comparison depends on has the same bits: it is saved, or computed again exactly") {
  const std::string product =
      "%0 f32[64,64] = input(0)\n%1 f32[64,64] = matmul(%0, %0)\n%2 f32[64,64] = exp(%1)\n%3 f32[64,1] = amax(%2; axes "
      "[1])\n"
      "%4 f32[64,64] = matmul(%2, %0)\nreturn %4 %3\n";
  CHECK(saved(product, {2}, 0) == Places{});
  // With the winner, a result, it is compared: a product that another kernel computes may differ in its last bit.
  const Places exact = saved(product, {2, 3}, 0, {2});
  CHECK((exact == Places{1} || exact == Places{2}));
  // A comparison of the forward graph counts too, where its own result is computed again.
  const std::string mask =
      "%0 f32[64,64] = input(0)\n%1 f32[64,64] = matmul(%0, %0)\n%2 bool[64,64] = less(%1, %0)\n"
      "%3 f32[64,64] = where(%2, %0, %1)\n%4 f32[64,64] = matmul(%3, %0)\nreturn %4\n";
  CHECK(saved(mask, {2}, 0) == Places{2});
  // What rounds the same way in each kernel need not be saved.
  const std::string pointwise =
      "%0 f32[64,64] = input(0)\n%1 f32[64,64] = exp(%0)\n%2 f32[64,1] = amax(%1; axes [1])\n"
      "%3 f32[64,64] = matmul(%1, %0)\nreturn %3 %2\n";
  CHECK(saved(pointwise, {1}, 1, {1}) == Places{});
}

TEST_CASE("the operands of comparisons are found through views and casts of the derivative") {
  const Graph forward =
      parse_graph("%0 f32[8,4] = input(0)\n%1 f32[8,4] = exp(%0)\n%2 f32[8,4] = sin(%0)\nreturn %2\n");
  const Graph derivative = parse_graph(
      "%0 f32[8,4] = input(0)\n%1 f32[8,4] = input(1)\n%2 f32[8,4] = input(2)\n%3 f32[4,8] = permute(%0; axes [1,0])\n"
      "%4 f32[4,8] = permute(%2; axes [1,0])\n%5 bool[4,8] = less(%3, %4)\n%6 f32[4,8] = permute(%1; axes [1,0])\n"
      "%7 f32[4,8] = where(%5, %6, %4)\nreturn %7\n");
  const ForwardReads reads = forward_reads(derivative.outputs, [&](const Tensor& value) {
    const std::uint32_t place = derivative.number(value);
    return place == 0 ? forward.nodes[1] : place == 1 ? forward.nodes[2] : Tensor();
  });
  REQUIRE(reads.compared.size() == 1);
  CHECK(reads.compared[0].same(forward.nodes[1]));
  CHECK(reads.values.size() == 2);
}
