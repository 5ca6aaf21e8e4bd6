// Loops in graphs: text that reads back, verification, and every pass on bodies.
#include "ir/parse.hpp"
#include "pipeline.hpp"
#include "tests/ir/support.hpp"
#include "tests/loops/support.hpp"

using namespace weft;
using namespace graph_test;

namespace {

std::vector<Tensor> programs(const Tensor& x, const Tensor& y) {
  const auto value = [&](const Tensor& v) {
    auto [last, ys] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              sum(row) > 0, [&](const Tensor& a) { return softmax(a * v[0], 0); },
              [&](const Tensor& a) { return a + v[1]; }, s);
          const Tensor kept = scan([&](const Tensor& t, const Tensor& e) { return sin(t * e) + row; }, next, row);
          return std::pair{kept, gather(kept, arange(2))};
        },
        y[0], v, {.reverse = true});
    return sum(last) + sum(square(ys));
  };
  const Tensor counted = while_loop([&](const Tensor& s) { return sum(s) < 100; },
                                    [&](const Tensor& s) { return s * 2 + abs(y[0]) + 1; }, x[0], {.limit = 20});
  return {value(x), grad(value, x), grad([&](const Tensor& v) { return sum(square(grad(value, v))); }, x), counted};
}

}  // namespace

TEST_CASE("graphs with loops verify, before and after every pass, and read back from their text") {
  Recording r;
  const Tensor x = r.x(), y = r.x();
  Graph graph = r.graph(programs(x, y));
  verify(graph);
  const std::string text = to_text(graph);
  const Graph parsed = parse_graph(text);
  CHECK(to_text(parsed) == text);
  verify(parsed);
  const Graph optimized = optimize(graph, {.verify = true});
  const std::string after = to_text(optimized);
  CHECK(to_text(parse_graph(after)) == after);
  CHECK(after.find("call(") == std::string::npos);
  CHECK(after.find("check(") != std::string::npos);
}

TEST_CASE("a body that does not fit its loop is an internal error") {
  const std::string text =
      "%0 f32[3] = input(0)\n%1 f32[4,3] = input(1)\n"
      "%2 f32[3], f32[4,3] = scan(%0, %1; carries 1, scanned 1, length 4)\n"
      "  %0 f32[3] = input(0)\n  %1 f32[3] = input(1)\n  %2 f32[3] = add(%0, %1)\n  return %2 %0\n"
      "return %2 %2.1\n";
  CHECK(to_text(parse_graph(text)) == text);
  CHECK_NOTHROW(verify(parse_graph(text)));
  const auto broken = [&](std::string from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    CHECK_THROWS_AS(verify(parse_graph(changed)), InternalError);
  };
  broken("length 4", "length 5");
  broken("f32[3], f32[4,3] = scan", "f32[3], f32[4,4] = scan");
  broken("return %2 %0\n", "return %2\n");
  broken("scanned 1, ", "");
}
