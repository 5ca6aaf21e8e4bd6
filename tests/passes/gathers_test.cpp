// Gathers of parameters that are held in parts: where they come in the order of nodes.
#include "passes/gathers.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/schedule/traced.hpp"

using namespace weft;
using test::Traced;

namespace {

// Operations in order: those of `shown`.
std::vector<std::string> order_of(const Graph& graph, std::initializer_list<Op> shown) {
  std::vector<std::string> names;
  for (const Tensor& value : graph.nodes)
    if (std::ranges::find(shown, value.node()->op) != shown.end()) names.emplace_back(info(value.node()->op).name);
  return names;
}
using Names = std::vector<std::string>;

// Four layers y = cumsum(y) * w, each w gathered at the start, then back through them as a derivative is; the gradients
// are scattered at the end.
Graph layers(bool again) {
  Traced t;
  const Collective group{{intern_text("world")}, 2};
  const Tensor x = t.f32(8);
  std::vector<Tensor> whole, seen, slopes, results;
  for (std::uint32_t i = 0; i < 4; ++i) {
    whole.push_back(record(Op::all_gather, {t.f32(4)}, group, {}, {}));
    if (again) whole.back().node()->recomputation = i + 1;
  }
  Tensor y = x;
  for (const Tensor& w : whole) {
    seen.push_back(cumsum(y, 0));
    y = seen.back() * w;
  }
  for (std::size_t i = 4; i-- > 0;) {
    slopes.push_back(y * seen[i]);
    if (i > 0) y = cumsum(y * whole[i], 0);
  }
  for (const Tensor& slope : slopes) results.push_back(record(Op::reduce_scatter, {slope}, group, {}, {}));
  return inline_calls(t.graph(results));
}

}  // namespace

TEST_CASE("a gather comes before what reads it, again in a derivative, and gradients are scattered as they are there") {
  const Graph graph = layers(true);
  const Graph placed = place_gathers(graph);
  verify(placed);
  std::vector<std::uint32_t> numbers;  // each gather is a recomputation of its own
  for (const Tensor& value : placed.nodes)
    if (value.node()->op == Op::all_gather) numbers.push_back(value.node()->recomputation);
  std::ranges::sort(numbers);
  CHECK(std::ranges::adjacent_find(numbers) == numbers.end());
  CHECK(numbers.front() > 0);
  const std::string g = "all_gather", c = "cumsum", s = "reduce_scatter";
  CHECK(order_of(graph, {Op::all_gather, Op::cumsum, Op::reduce_scatter}) ==
        Names{g, g, g, g, c, c, c, c, c, c, c, s, s, s, s});
  // Forward four; back the last two are held still, and the first layer's is read no more.
  CHECK(order_of(placed, {Op::all_gather, Op::cumsum, Op::reduce_scatter}) ==
        Names{c, g, c, g, c, g, c, g, s, c, s, c, s, g, c, s});
}

TEST_CASE("on a device a gather comes before what reads the gather before it") {
  const Graph placed = place_gathers(layers(true), {.device = Device::cuda()});
  verify(placed);
  const std::string g = "all_gather", c = "cumsum", s = "reduce_scatter";
  CHECK(order_of(placed, {Op::all_gather, Op::cumsum, Op::reduce_scatter}) ==
        Names{c, g, g, c, g, c, g, c, g, s, c, s, c, s, c, s});
}

TEST_CASE("gathers that are to be held stay where they are") {
  const Graph graph = layers(false);
  CHECK(to_text(place_gathers(graph)) == to_text(graph));
}
