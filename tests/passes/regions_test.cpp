// Bodies: what is inlined, in which order effects then are, and that every pass reaches what is not inlined.
#include "passes/regions.hpp"

#include <doctest/doctest.h>

#include <map>

#include "interpret/reference.hpp"
#include "passes/algebra.hpp"
#include "passes/dead_code.hpp"
#include "passes/fold.hpp"
#include "passes/loops.hpp"
#include "pipeline.hpp"
#include "tests/ir/support.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"

using namespace weft;
using namespace graph_test;

namespace {

using Body = std::shared_ptr<const Graph>;
template <class Make>
Body body(Make make) {
  Recording r;
  Tensor a = r.x(), b = r.x();
  std::vector<Tensor> outputs = make(a, b);
  return std::make_shared<const Graph>(r.graph(outputs));
}
// Fails with this message when an element of x is not above 0.
void expect_positive(const Tensor& x, const char* message) {
  record(Op::check, {~any(x <= 0)}, Message{{intern_text(message)}}, {}, {});
}
std::string messages(const Graph& graph) {
  std::string text;
  for (const Tensor& effect : graph.effects) text += interned_text(effect.node()->attributes<Message>().text.id) + " ";
  return text;
}

}  // namespace

TEST_CASE("calls are inlined, with several results, nested, and with their effects") {
  auto inside = body([](Tensor a, Tensor b) { return std::vector{a - b, a * (b + b)}; });
  auto outside = body([&](Tensor a, Tensor b) {
    record(Op::check, {full({}, 1, {.dtype = DType::boolean})}, Message{}, {}, {});
    Tensor both = call(inside, b, a);
    return std::vector{Tensor(both.node(), 1) + both};
  });
  Recording r;
  Tensor x = r.x(), y = r.x();
  Tensor result = exp(call(outside, x, y));
  Graph before = r.graph({result});
  verify(before);
  Graph flat = inline_calls(before);
  verify(flat);
  CHECK(flat.effects.size() == 1);
  CHECK(structure_text(dead_code(flat))
            .find("%2 f32[2,3] = sub(%1, %0)\n%3 f32[2,3] = add(%0, %0)\n"
                  "%4 f32[2,3] = mul(%1, %3)\n%5 f32[2,3] = add(%4, %2)\n"
                  "%6 f32[2,3] = exp(%5)\nreturn %6") != std::string::npos);
}

// The process shares the bodies of calls: their nodes keep their positions.
TEST_CASE("merging loops leaves the body of a call as it was") {
  const Body shared = body([](Tensor a, Tensor b) {
    const auto f = [&](const Tensor& s, const Tensor& x) { return s * b[0] + x; };
    const Tensor first = scan(f, a[0], a), other = exp(a) - b, second = scan(f, b[0], b);
    return std::vector{first + second + sum(other)};
  });
  Recording r;
  const Graph merged = merge_loops(r.graph({call(shared, r.x(), r.x())}));
  verify(merged);
  for (std::size_t i = 0; i < shared->nodes.size(); ++i) CHECK(shared->number(shared->nodes[i]) == i);
}

TEST_CASE("every pass of the pipeline reaches bodies that are not inlined") {
  const auto matrix = [](const Tensor& x) { return cast(x, DType::i64); };
  // For each pass a body in which there is something to do for it.
  const std::map<std::string, Body> bodies = {
      {"merge_loops", body([](Tensor a, Tensor b) {
         const auto f = [&](const Tensor& v) {
           return sum(scan([&](const Tensor& s, const Tensor& x) { return sin(s * sum(v)) + x; }, b[0], v));
         };
         return std::vector{grad(f, a)};
       })},
      {"place_gathers", body([](Tensor a, Tensor b) {
         const Tensor all = record(Op::all_gather, {a}, Collective{{intern_text("data")}, 2}, {}, {});
         all.node()->recomputation = 1;
         const Tensor first = exp(b);
         return std::vector{first + sum(all)};
       })},
      {"prune_loops", body([](Tensor a, Tensor b) {
         const auto f = [](const Tensor& s, const Tensor& x) { return std::pair{s + x, x * 2}; };
         return std::vector{scan(f, b[0], a).first};
       })},
      {"fold_constants", body([](Tensor a, Tensor) {
         return std::vector{a + (full({2, 3}, 1) + full({2, 3}, 1))};
       })},
      {"simplify_algebra", body([](Tensor a, Tensor) { return std::vector{-(-a)}; })},
      {"common_subexpressions", body([](Tensor a, Tensor b) { return std::vector{exp(a + b) * exp(a + b)}; })},
      {"orient_matmul", body([](Tensor a, Tensor b) { return std::vector{transpose(matmul(a, transpose(b)))}; })},
      {"decompose_convolution", body([](Tensor a, Tensor b) {
         Convolution c;
         for (auto* list : {&c.strides, &c.dilation}) list->push_back(1);
         for (auto* list : {&c.low, &c.high}) list->push_back(0);
         const auto image_of = [](const Tensor& x) { return cast(reshape(x, {1, 2, 3}), DType::f64); };  // no library's
         const Tensor image = image_of(a), weight = image_of(b);
         return std::vector{record(Op::convolution, {image, weight}, c, {}, {})};
       })},
      {"decompose_matmul",
       body([&](Tensor a, Tensor b) { return std::vector{matmul(matrix(a), transpose(matrix(b)))}; })},
      {"decompose_argsort", body([](Tensor a, Tensor) {  // nobody takes part of an order on a device
         const Tensor there = record(Op::transfer, {a}, {}, {DType::f32, false, Device::cuda(), Shape::of(2, 3)}, {});
         const Tensor part = record(Op::argsort, {there}, Order{false, 0, 2}, {}, {});
         return std::vector{part};
       })},
      {"widen_scatter_add", body([](Tensor a, Tensor) {
         const Tensor index = cast(reshape(a, {6}), DType::i64), updates = cast(reshape(a, {6}), DType::bf16);
         const Type rows{DType::bf16, false, {}, Shape::of(4)};
         return std::vector{record(Op::scatter_add, {index, updates}, {}, rows, {})};
       })},
      {"local_collectives", body([](Tensor a, Tensor) {
         const Collective group{{intern_text("data")}};
         return std::vector{
             record(Op::all_reduce_wait, {record(Op::all_reduce_start, {a}, group, {}, {})}, group, {}, {})};
       })},
      {"dead_code", body([](Tensor a, Tensor) {
         record(Op::check, {full({}, 1, {.dtype = DType::boolean})}, Message{}, {}, {});
         return std::vector{exp(a)};
       })},
  };
  std::vector<StageReport> passes;
  Recording none;
  optimize(none.graph({exp(none.x())}), {}, &passes);
  for (const StageReport& pass : passes) {
    if (std::string_view(pass.name) == "inline_calls") continue;     // leaves no body
    if (std::string_view(pass.name) == "fuse_attention") continue;   // of a device
    if (std::string_view(pass.name) == "align_products") continue;   // nobody on the host asks for it
    if (std::string_view(pass.name) == "rematerialize") continue;    // chooses by what the whole graph holds
    if (std::string_view(pass.name) == "fold_batch_norm") continue;  // inputs of a body are no constants
    INFO(pass.name);
    PipelineOptions alone{.verify = true};
    for (const StageReport& other : passes)
      if (std::string_view(other.name) != pass.name) alone.skip.push_back(other.name);
    auto found = bodies.find(pass.name);
    REQUIRE(found != bodies.end());
    const Graph& before = *found->second;
    const std::string untouched = structure_text(before), expected = structure_text(optimize(before, alone));
    REQUIRE(expected != untouched);
    Recording r;
    Tensor x = r.x(), y = r.x();
    Graph after = optimize(r.graph({call(found->second, x, y)}), alone);
    REQUIRE(after.outputs[0].node()->op == Op::call);
    CHECK(structure_text(*after.outputs[0].node()->bodies()[0]) == expected);
  }
}

TEST_CASE("effects of calls are where the calls were, also of calls whose results nobody uses") {
  auto inside = body([](Tensor a, Tensor b) {
    expect_positive(a, "third");
    return std::vector{a + b};
  });
  auto outside = body([&](Tensor a, Tensor b) {
    expect_positive(a, "second");
    call(inside, b, a);
    expect_positive(b, "fourth");
    return std::vector{a};
  });
  Recording r;
  Tensor x = r.x(), y = r.x();
  expect_positive(x + y, "first");
  call(outside, x, y);
  expect_positive(y, "fifth");
  Graph graph = r.graph({exp(x)});
  verify(graph);
  CHECK(graph.effects.size() == 3);
  Graph kept = dead_code(fold_constants(graph));
  verify(kept);
  CHECK(kept.effects.size() == 3);
  CHECK(messages(inline_calls(kept)) == "first second third fourth fifth ");
  CHECK(messages(optimize(graph, {})) == "first second third fourth fifth ");
}

TEST_CASE("effects keep their order when a pass rebuilds some of them") {
  Recording r;
  Tensor x = r.x(), y = r.x();
  expect_positive(x * 1, "rebuilt");
  expect_positive(y, "kept");
  Graph graph = r.graph({x}), result = simplify_algebra(graph);
  REQUIRE_FALSE(result.effects[0].same(graph.effects[0]));
  verify(result);
  CHECK(messages(result) == "rebuilt kept ");
  CHECK(result.number(result.effects[0]) < result.number(result.effects[1]));
  Literal bad{type_of(x), std::vector<double>(6, -1)};
  const std::vector<Literal> values{bad, bad};
  CHECK_THROWS_WITH_AS(interpret(result, values, {}), "rebuilt", Error);
}

TEST_CASE("an effect that is not listed, or out of order, is found") {
  Recording r;
  Tensor x = r.x();
  expect_positive(x, "a");
  // What it gives is read, so it is reached without being listed.
  const Tensor token = record(Op::check, {~any(exp(x) <= 0)}, Message{{intern_text("b")}}, {}, {});
  Graph graph = r.graph({token});
  verify(graph);
  std::swap(graph.effects[0], graph.effects[1]);
  CHECK_THROWS_WITH_AS(verify(graph), doctest::Contains("effect %"), InternalError);
  std::swap(graph.effects[0], graph.effects[1]);
  graph.effects.pop_back();
  CHECK_THROWS_WITH_AS(verify(graph), doctest::Contains("is not listed"), InternalError);
}
