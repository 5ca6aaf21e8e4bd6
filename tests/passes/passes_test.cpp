// Passes over graphs, one case a rule: the canonical text before and after; then for each of a set of graphs that they
// keep the invariants, do nothing the second time, and keep what the graph means (held by the reference interpreter).
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "interpret/reference.hpp"
#include "passes/algebra.hpp"
#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/decompose.hpp"
#include "passes/fold.hpp"
#include "passes/orient.hpp"
#include "passes/regions.hpp"
#include "tests/ir/support.hpp"
#include "weft/linalg.hpp"

using namespace weft;
using namespace graph_test;

namespace {

// What is left of `value` after the pass, without the inputs' lines: "%0" for an input itself.
std::string after(Recording& r, Pass pass, Tensor value) {
  Graph result = pass(r.graph({value}), {});
  verify(result);
  std::string text = structure_text(result), kept;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    if (line.find("= input(") == std::string::npos) kept += line + "\n";
    at = end + 1;
  }
  CHECK(structure_text(pass(result, {})) == text);  // nothing is left to do
  return kept;
}

const std::string is_x = "return %0\n";

Tensor constant(double value, DType dtype = DType::f32) { return full({2, 3}, value, {.dtype = dtype}); }

}  // namespace

TEST_CASE("algebra: additions of nothing, by the sign of zero") {
  Recording r;
  Tensor x = r.x();
  CHECK(after(r, simplify_algebra, x + constant(-0.0)) == is_x);
  CHECK(after(r, simplify_algebra, constant(-0.0) + x) == is_x);
  CHECK(after(r, simplify_algebra, x - constant(0.0)) == is_x);
  CHECK(after(r, simplify_algebra, x + constant(0.0)) != is_x);
  CHECK(after(r, simplify_algebra, x - constant(-0.0)) != is_x);
  Recording integers;
  Tensor i = integers.input(DType::i64, Shape::of(2, 3));
  CHECK(after(integers, simplify_algebra, i + constant(0, DType::i64)) == is_x);
  CHECK(after(integers, simplify_algebra, i - constant(0, DType::i64)) == is_x);
}

TEST_CASE("algebra: products and quotients") {
  Recording r;
  Tensor x = r.x();
  CHECK(after(r, simplify_algebra, x * constant(1)) == is_x);
  CHECK(after(r, simplify_algebra, constant(1) * x) == is_x);
  CHECK(after(r, simplify_algebra, x / constant(1)) == is_x);
  CHECK(after(r, simplify_algebra, x * constant(-1)) == "%1 f32[2,3] = neg(%0)\nreturn %1\n");
  CHECK(after(r, simplify_algebra, x * constant(0)) ==
        "%1 f32[2,3] = constant(0)\n%2 f32[2,3] = mul(%0, %1)\nreturn %2\n");
  CHECK(after(r, simplify_algebra, x / constant(8)) ==
        "%1 f32[2,3] = constant(0.125)\n%2 f32[2,3] = mul(%0, %1)\nreturn %2\n");
  CHECK(after(r, simplify_algebra, x / constant(-2)) ==
        "%1 f32[2,3] = constant(-0.5)\n%2 f32[2,3] = mul(%0, %1)\nreturn %2\n");
  CHECK(after(r, simplify_algebra, x / constant(3)).find("div") != std::string::npos);
  CHECK(after(r, simplify_algebra, x / constant(0x1p127)).find("div") !=
        std::string::npos);  // 2^-127 is denormal in f32
  CHECK(after(r, simplify_algebra, x / constant(0)).find("div") != std::string::npos);
  CHECK(after(r, simplify_algebra, x / constant(INFINITY)).find("div") != std::string::npos);
}

TEST_CASE("algebra: signs") {
  Recording r;
  Tensor x = r.x(), y = r.x();
  CHECK(after(r, simplify_algebra, -(-x)) == is_x);
  CHECK(after(r, simplify_algebra, -(-(-x))) == "%2 f32[2,3] = neg(%0)\nreturn %2\n");
  CHECK(after(r, simplify_algebra, x + -y) == "%2 f32[2,3] = sub(%0, %1)\nreturn %2\n");
  CHECK(after(r, simplify_algebra, -x + y) == "%2 f32[2,3] = sub(%1, %0)\nreturn %2\n");
  CHECK(after(r, simplify_algebra, x - -y) == "%2 f32[2,3] = add(%0, %1)\nreturn %2\n");
}

TEST_CASE("algebra: powers") {
  Recording r;
  Tensor x = r.x();
  CHECK(after(r, simplify_algebra, pow(x, constant(1))) == is_x);
  CHECK(after(r, simplify_algebra, pow(x, constant(2))) == "%1 f32[2,3] = mul(%0, %0)\nreturn %1\n");
  CHECK(after(r, simplify_algebra, pow(x, constant(0.5))).find("pow") != std::string::npos);
  CHECK(after(r, simplify_algebra, pow(x, constant(3))).find("pow") != std::string::npos);
}

TEST_CASE("algebra: choices") {
  Recording r;
  Tensor x = r.x(), y = r.x();
  Tensor c = x < y;
  CHECK(after(r, simplify_algebra, where(c, x, x)) == is_x);
  CHECK(after(r, simplify_algebra, where(constant(1, DType::boolean), x, y)) == is_x);
  CHECK(after(r, simplify_algebra, where(constant(0, DType::boolean), y, x)) == is_x);
  CHECK(after(r, simplify_algebra, ~~c) == "%2 bool[2,3] = less(%0, %1)\nreturn %2\n");
}

TEST_CASE("algebra: casts") {
  Recording r;
  Tensor x = r.x();
  CHECK(after(r, simplify_algebra, cast(cast(x, DType::f64), DType::f32)) == is_x);
  CHECK(after(r, simplify_algebra, cast(cast(x, DType::f64), DType::i64)) == "%1 i64[2,3] = cast(%0)\nreturn %1\n");
  CHECK(after(r, simplify_algebra, cast(cast(x, DType::bf16), DType::f32)) != is_x);
  CHECK(after(r, simplify_algebra, cast(cast(x, DType::i64), DType::f32)) != is_x);
  struct {
    DType from, over;
    bool exact;
  } table[] = {{DType::boolean, DType::f16, true}, {DType::u8, DType::bf16, true},   {DType::u8, DType::i32, true},
               {DType::i32, DType::f64, true},     {DType::i32, DType::f32, false},  {DType::i64, DType::f64, false},
               {DType::i32, DType::i64, true},     {DType::i64, DType::i32, false},  {DType::i32, DType::u8, false},
               {DType::f16, DType::bf16, false},   {DType::bf16, DType::f16, false}, {DType::f16, DType::f32, true},
               {DType::u8, DType::boolean, false}, {DType::f32, DType::f64, true}};
  for (auto [from, over, exact] : table) {
    Recording again;
    Tensor value = again.input(from, Shape::of(2, 3));
    INFO(info(from).name, " ", info(over).name);
    CHECK((after(again, simplify_algebra, cast(cast(value, over), from)) == is_x) == exact);
  }
}

TEST_CASE("algebra: views") {
  Recording r;
  Tensor x = r.x();
  CHECK(after(r, simplify_algebra, reshape(reshape(x, {3, 2}), {6})) == "%1 f32[6] = reshape(%0)\nreturn %1\n");
  CHECK(after(r, simplify_algebra, reshape(reshape(x, {6}), {2, 3})) == is_x);
  CHECK(after(r, simplify_algebra, transpose(transpose(x))) == is_x);
  CHECK(after(r, simplify_algebra, permute(permute(reshape(x, {1, 2, 3}), {1, 2, 0}), {1, 2, 0})) ==
        "%1 f32[1,2,3] = reshape(%0)\n%2 f32[3,1,2] = permute(%1; axes [2,0,1])\nreturn %2\n");
  CHECK(after(r, simplify_algebra, permute(permute(reshape(x, {1, 2, 3}), {1, 2, 0}), {1, 0, 2})) ==
        "%1 f32[1,2,3] = reshape(%0)\n%2 f32[3,2,1] = permute(%1; axes [2,1,0])\nreturn %2\n");
  CHECK(after(r, simplify_algebra, expand(expand(x, {4, 2, 3}), {5, 4, 2, 3})) ==
        "%1 f32[5,4,2,3] = expand(%0)\nreturn %1\n");
  // The public function drops a full slice itself; a pass may leave one behind.
  Tensor all = record(Op::slice, {x}, Slice{0, 0, 1}, Type{DType::f32, false, {}, Shape::of(2, 3)}, {});
  CHECK(after(r, simplify_algebra, all) == is_x);
  CHECK(after(r, simplify_algebra, flip(x, 0)) != is_x);
  CHECK(after(r, simplify_algebra, stop_gradient(x)) == is_x);
  CHECK(after(r, simplify_algebra, record(Op::variable, {x}, {}, {}, {})) == is_x);
}

TEST_CASE("algebra: a weak number is no substitute for a tensor") {
  Recording r;
  Tensor weak = record(Op::input, {}, Parameter{}, Type{DType::f64, true, {}, {}}, {});
  r.trace.inputs.push_back(weak);
  CHECK(after(r, simplify_algebra, cast(weak, DType::f64)) != is_x);
}

TEST_CASE("constants are folded, rounded to their dtype") {
  Recording r;
  r.x();
  CHECK(after(r, fold_constants, constant(1) + constant(2)) == "%1 f32[2,3] = constant(3)\nreturn %1\n");
  CHECK(after(r, fold_constants, cast(constant(0.1), DType::f64)) ==
        "%1 f64[2,3] = constant(0.10000000149011612)\nreturn %1\n");
  CHECK(after(r, fold_constants, cast(constant(-2.7), DType::i64)) == "%1 i64[2,3] = constant(-2)\nreturn %1\n");
  CHECK(after(r, fold_constants, constant(1) < constant(2)) == "%1 bool[2,3] = constant(1)\nreturn %1\n");
  CHECK(after(r, fold_constants, constant(200, DType::u8) + constant(100, DType::u8)) ==
        "%1 u8[2,3] = constant(44)\nreturn %1\n");
  CHECK(after(r, fold_constants, sqrt(constant(2))) == "%1 f32[2,3] = constant(1.4142135381698608)\nreturn %1\n");
  for (Tensor function : {exp(constant(0)), rsqrt(constant(4)), pow(constant(2), constant(3))})  // the kernels' own
    CHECK(after(r, fold_constants, function).find(info(function.node()->op).name) != std::string::npos);
  Tensor view = slice(transpose(expand(constant(5), {4, 2, 3})), 0, 1);
  CHECK(after(r, fold_constants, reshape(view, {-1}) * 2).find("f32[18] = constant(10)\nreturn %1") !=
        std::string::npos);
}

TEST_CASE("a symbolic size is a constant without a number") {
  Recording r;
  Dim n = r.trace.dims.new_symbol(7);
  Tensor x = r.input(DType::f32, Shape::of(n));
  Tensor count = expand(cast(dim_value(n, {}), DType::f32), {n});
  Graph graph = r.graph({x / count});
  graph.symbols = r.trace.dims.symbols;
  Graph folded = fold_constants(graph);
  verify(folded);
  std::string text = structure_text(folded);
  CHECK(text.find("constant(size s0)") != std::string::npos);
  CHECK(text.find("cast(") != std::string::npos);
}

TEST_CASE("equal computations are one; draws, effects and places are not merged") {
  Recording r;
  Tensor x = r.x(), y = r.x();
  CHECK(after(r, common_subexpressions, exp(x + y) * exp(x + y)) ==
        "%2 f32[2,3] = add(%0, %1)\n%3 f32[2,3] = exp(%2)\n%4 f32[2,3] = mul(%3, %3)\nreturn %4\n");
  CHECK(after(r, common_subexpressions, sum(x, 0) + sum(x, 1, true)).find("axes [1]") != std::string::npos);
  CHECK(after(r, common_subexpressions, constant(0.0) * constant(-0.0)).find("constant(-0)") != std::string::npos);
  Tensor front = slice(x, 0, 0, 1), back = slice(x, 0, 1, 2);  // alike but for where they start
  CHECK(after(r, common_subexpressions, front + back).find("add(%2, %3)") != std::string::npos);
  auto bits = [&] {
    Tensor seed = record(Op::constant, {}, Constant::integer(1), Type{DType::i64}, {});
    return record(Op::random_bits, {seed, seed}, {}, Type{DType::i64, false, {}, Shape::of(4)}, {});
  };
  const Graph spectra = common_subexpressions(
      r.graph({linalg::eigh(matmul(x, transpose(y))).eigenvectors, linalg::eigh(matmul(x, transpose(y))).eigenvectors,
               linalg::eigvalsh(matmul(x, transpose(y)))}));
  CHECK(spectra.outputs[0].same(spectra.outputs[1]));  // of several results too
  CHECK_FALSE(spectra.outputs[0].node() == spectra.outputs[2].node());
  Type there = type_of(x);
  there.device = Device::cuda();
  Graph copies = common_subexpressions(
      r.graph({record(Op::transfer, {x}, {}, there, {}), record(Op::transfer, {x}, {}, there, {})}));
  CHECK(copies.outputs[0].same(copies.outputs[1]));
  Graph draws = common_subexpressions(r.graph({bits(), bits()}));
  CHECK_FALSE(draws.outputs[0].same(draws.outputs[1]));
  Graph places =
      common_subexpressions(r.graph({record(Op::variable, {x}, {}, {}, {}), record(Op::variable, {x}, {}, {}, {})}));
  CHECK_FALSE(places.outputs[0].same(places.outputs[1]));
}

TEST_CASE("checks are kept, but for those that are proved, and those that say what another says") {
  Recording r;
  Tensor x = r.input(DType::boolean, {}), y = r.input(DType::boolean, {});
  record(Op::check, {x}, Message{}, {}, {});
  record(Op::check, {y & y}, Message{}, {}, {});
  record(Op::check, {y & y}, Message{}, {}, {});
  record(Op::check, {x}, Message{}, {}, {});
  record(Op::check, {x}, Message{{intern_text("another sentence")}}, {}, {});
  record(Op::check, {~full({}, 0, {.dtype = DType::boolean})}, Message{}, {}, {});
  record(Op::check, {full({}, 0, {.dtype = DType::boolean})}, Message{}, {}, {});
  Graph graph = r.graph({});
  CHECK(graph.effects.size() == 7);
  Graph result = dead_code(common_subexpressions(fold_constants(graph)));
  verify(result);
  CHECK(result.effects.size() == 4);
  CHECK(result.inputs.size() == 2);
}

TEST_CASE(
    "collectives are merged and dropped as others are, keep their group and order, and are the value itself of one") {
  Recording r;
  Tensor x = r.x();
  const auto start = [](const Tensor& value, const char* group, std::int64_t processes) {
    return record(Op::all_reduce_start, {value}, Collective{{intern_text(group)}, processes}, {}, {});
  };
  const auto wait = [](const Tensor& value, const char* group, std::int64_t processes) {
    return record(Op::all_reduce_wait, {value}, Collective{{intern_text(group)}, processes}, {}, {});
  };
  const auto graph_of = [&](std::int64_t processes) {
    Tensor first = start(x, "data", processes), second = start(x, "model", processes),
           again = start(x, "data", processes);
    start(exp(x), "data", processes);  // nobody reads it, in any process
    const Tensor sums =
        wait(first, "data", processes) + wait(second, "model", processes) + wait(again, "data", processes);
    const Tensor gathered = record(Op::all_gather, {sums}, Collective{{intern_text("data")}, processes}, {}, {});
    return r.graph({record(Op::broadcast, {gathered}, RootedCollective{{intern_text("data")}, processes, 0}, {}, {})});
  };
  Graph carried = local_collectives(dead_code(common_subexpressions(simplify_algebra(fold_constants(graph_of(4))))));
  verify(carried);
  CHECK(carried.effects.empty());
  std::string text = to_text(carried);
  const auto count = [&](std::string_view word) {
    int found = 0;
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  CHECK(count("all_reduce_start") == 2);
  CHECK(text.find("all_reduce_start(%0; group \"data\", processes 4)") <
        text.find("all_reduce_start(%0; group \"model\", processes 4)"));
  CHECK(text.find("f32[8,3] = all_gather(") != text.npos);
  CHECK(text.find("f32[8,3] = broadcast(") != text.npos);
  Graph local = dead_code(local_collectives(graph_of(1)));
  verify(local);
  text = to_text(local);
  CHECK(count("all_reduce") + count("all_gather") + count("broadcast") == 0);
  const Tensor first = start(x, "data", 1);
  CHECK_THROWS_WITH_AS(verify(r.graph({wait(first, "model", 1)})),
                       doctest::Contains("no all_reduce_start of its group"), InternalError);
}

TEST_CASE("the transpose of a product is the product of the transposes, the other way round") {
  Recording r;
  Tensor a = r.input(DType::f32, Shape::of(2, 2)), b = r.input(DType::f32, Shape::of(2, 2));
  CHECK(after(r, orient_matmul, transpose(matmul(a, b))) ==
        "%2 f32[2,2] = permute(%0; axes [1,0])\n%3 f32[2,2] = permute(%1; axes [1,0])\n"
        "%4 f32[2,2] = matmul(%3, %2)\nreturn %4\n");
  Tensor product = matmul(a, b);
  CHECK(after(r, orient_matmul, transpose(product) + product).find("permute(%2") != std::string::npos);
}

TEST_CASE("verify names what is broken: a type, an order, a result that is not there, and the same inside a body") {
  auto message = [](const Graph& graph) -> std::string {
    try {
      verify(graph);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "fine";
  };
  auto holds = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  Recording r;
  Tensor x = r.x(), y = exp(x), z = y * x;
  Graph graph = r.graph({z});
  REQUIRE(message(graph) == "fine");
  y.node()->type.dtype = DType::f64;
  CHECK(holds(message(graph), "%1 exp has type f64[2,3], inferred f32[2,3]"));
  y.node()->type.dtype = DType::f32;
  std::swap(graph.nodes[1], graph.nodes[2]);
  graph.number_nodes();
  CHECK(holds(message(graph), "operand of %1 mul comes after its user"));
  std::swap(graph.nodes[1], graph.nodes[2]);
  CHECK(holds(message(graph), "has number"));
  graph.number_nodes();
  REQUIRE(message(graph) == "fine");

  graph.nodes.push_back(exp(z));
  graph.number_nodes();
  CHECK(holds(message(graph), "%3 exp reaches no output and no effect"));
  graph.nodes.pop_back();

  Recording inner;
  Tensor a = inner.x(), b = a - 1;
  auto body = std::make_shared<const Graph>(inner.graph({b}));
  Recording outer;
  Tensor called = record(Op::call, {outer.x()}, Called{}, type_of(b), {});
  called.node()->make_more().bodies = {body};
  Graph around = outer.graph({called});
  REQUIRE(message(around) == "fine");
  b.node()->type.shape = Shape::of(3, 2);
  CHECK(holds(message(around), "sub has type f32[3,2], inferred f32[2,3]"));
  b.node()->type.shape = Shape::of(2, 3);
  called.node()->output_count = 2;
  called.node()->more->types.push_back(type_of(b));
  CHECK(holds(message(around), "its body takes 1 and gives 1"));
}

TEST_CASE("passes keep what a graph means") {
  // Values where shortcuts go wrong.
  std::vector<double> edges = {0.0, -0.0, 1.5, -2.5, INFINITY, -INFINITY, NAN, std::numeric_limits<float>::denorm_min(),
                               3e38};
  auto shape = Shape::of(9);
  auto number = [&](double value) { return full({9}, value); };
  using Make = std::function<Tensor(Tensor, Tensor)>;
  std::vector<Make> graphs = {
      [&](Tensor x, Tensor y) { return (x + number(-0.0)) * (number(1) * y); },
      [&](Tensor x, Tensor) { return x + number(0.0); },
      [&](Tensor x, Tensor) { return x * number(0.0); },
      [&](Tensor x, Tensor) { return x / number(0x1p100); },
      [&](Tensor x, Tensor) { return x / number(-0x1p-100); },
      [&](Tensor x, Tensor y) { return (x + -y) - (-x + y) - -y; },
      [&](Tensor x, Tensor) { return pow(x, number(2)) + pow(x, number(1)); },
      [&](Tensor x, Tensor) { return x * number(-1) + cast(cast(x, DType::f64), DType::f32); },
      [&](Tensor x, Tensor y) { return where(~~(x < y), x, x) + exp(number(1)); },
      [&](Tensor x, Tensor y) {
        return reshape(transpose(transpose(reshape(x * y, {3, 3}))), {9}) * (x * y);
      },
  };
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    INFO("graph ", g);
    Recording r;
    Tensor x = r.input(DType::f32, shape), y = r.input(DType::f32, shape);
    Graph graph = r.graph({graphs[g](x, y)});
    Literal left{graph.inputs[0].node()->type, edges}, right = left;
    std::reverse(right.reals.begin(), right.reals.end());
    std::vector<Literal> values{left, right};
    std::vector<double> expected = interpret(graph, values, {})[0].reals;
    Graph result = dead_code(common_subexpressions(simplify_algebra(fold_constants(inline_calls(graph)))));
    verify(result);
    std::vector<double> found = interpret(result, values, {})[0].reals;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      INFO("element ", i, ": ", expected[i], " became ", found[i]);
      CHECK((std::isnan(expected[i]) ? std::isnan(found[i])
                                     : expected[i] == found[i] && std::signbit(expected[i]) == std::signbit(found[i])));
    }
  }
}
