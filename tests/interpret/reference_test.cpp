// The reference interpreter against answers that are known: what every other executor is held to has to be right
// itself.
#include "interpret/reference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "interpret/reference_math.hpp"
#include "ir/parse.hpp"

using namespace weft;

namespace {

Type type_of_vector(DType dtype, std::int64_t count) { return {dtype, false, {}, Shape::of(count)}; }
Tensor input(std::int64_t slot, const Type& type) { return make_node(Op::input, {}, Parameter{slot}, type, {}); }
Tensor node(Op op, std::initializer_list<Tensor> operands, const Type& type, const Attributes& attributes = {}) {
  return make_node(op, std::span<const Tensor>(operands.begin(), operands.size()), attributes, type, {"model.cpp", 41});
}
Literal run(std::vector<Tensor> inputs, const Tensor& output, const std::vector<Literal>& values) {
  return interpret(make_graph(std::move(inputs), {output}, {}), values, {})[0];
}
std::vector<double> binary(Op op, DType dtype, std::vector<double> a, std::vector<double> b) {
  Type type = type_of_vector(dtype, static_cast<std::int64_t>(a.size()));
  Tensor x = input(0, type), y = input(1, type);
  return run({x, y}, node(op, {x, y}, type), {Literal{type, std::move(a), {}}, Literal{type, std::move(b), {}}}).reals;
}
std::vector<std::int64_t> binary_integers(Op op, DType dtype, std::vector<std::int64_t> a,
                                          std::vector<std::int64_t> b) {
  Type type = type_of_vector(dtype, static_cast<std::int64_t>(a.size()));
  Tensor x = input(0, type), y = input(1, type);
  return run({x, y}, node(op, {x, y}, type), {Literal{type, {}, std::move(a)}, Literal{type, {}, std::move(b)}})
      .integers;
}
using Reals = std::vector<double>;
using Integers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("moved roundings are those of a sum's terms, in bodies of calls too") {
  const std::string body =
      "%0 f32[3] = input(0)\n  %1 f32[1] = sum(%0; axes [0])\n  %2 f32[] = reshape(%1)\n  return %2\n";
  for (const std::string& text :
       {std::string("%0 f32[3] = input(0)\n%1 f32[1] = sum(%0; axes [0])\n%2 f32[] = reshape(%1)\nreturn %2\n"),
        "%0 f32[3] = input(0)\n%1 f32[] = call(%0; \"mean\", axes [0])\n  " + body + "return %1\n"}) {
    CAPTURE(text);
    const Graph graph = parse_graph(text);
    const Literal terms{type_of_vector(DType::f32, 3), {1000, 0.25, -1000}, {}};
    double least = 0, greatest = 0;  // away from the sum
    for (std::uint64_t run = 1; run <= 64; ++run) {
      Perturbation perturbation{run * 0x9e3779b97f4a7c15ull, 3};
      const double moved = interpret(graph, {&terms, 1}, {}, &perturbation)[0].reals[0] - 0.25;
      least = std::min(least, moved), greatest = std::max(greatest, moved);
    }
    // Up and down by three roundings of 2000, and no more.
    const double rounding = 2000.25 * 0x1p-23;
    CHECK(greatest > 2 * rounding);
    CHECK(least < -2 * rounding);
    CHECK(std::max(greatest, -least) <= 3 * rounding + 0x1p-24);
  }
}

TEST_CASE("every node is rounded to its dtype, ties to even") {
  CHECK(round_to(DType::f32, 16777217.0L) == 16777216.0);
  CHECK(round_to(DType::f32, 0x1.000001p0L) == 1.0);
  CHECK(round_to(DType::f32, 0x1.000003p0L) == 0x1.000004p0);
  CHECK(round_to(DType::f32, 1e39L) == INFINITY);
  CHECK(round_to(DType::bf16, 1.00390625L) == 1.0);       // 1 + 2^-8: a tie
  CHECK(round_to(DType::bf16, 1.01171875L) == 1.015625);  // 1 + 3 * 2^-8: a tie, upwards
  CHECK(round_to(DType::bf16, 0x1.FEFp127L) == 0x1.FEp127);
  CHECK(round_to(DType::bf16, 0x1.FFp127L) == INFINITY);
  CHECK(round_to(DType::f8e4m3, 464.0L) == 448);
  CHECK(std::isnan(round_to(DType::f8e4m3, 464.01L)));
  CHECK(std::isnan(round_to(DType::f8e4m3, -std::numeric_limits<long double>::infinity())));
  CHECK(round_to(DType::f8e4m3, 0x1p-10L) == 0);
  CHECK(round_to(DType::f8e4m3, 0x1.8p-10L) == 0x1p-9);
  CHECK(round_to(DType::f8e5m2, -61439.0L) == -57344);
  CHECK(round_to(DType::f8e5m2, -61440.0L) == -INFINITY);
  CHECK(round_to(DType::f16, 65519.0L) == 65504.0);
  CHECK(round_to(DType::f16, -65520.0L) == -INFINITY);
  CHECK(round_to(DType::f16, 0x1p-25L) == 0);
  CHECK(round_to(DType::f16, 0x1.8p-25L) == 0x1p-24);
  CHECK(std::signbit(round_to(DType::f16, -0x1p-30L)));
  CHECK(std::isnan(round_to(DType::bf16, NAN)));
  for (int i = 0; i < 2048; ++i) {  // all f16 of one binade survive, and the middle between two goes to the even one
    double x = 1 + i / 1024.0, middle = x + 1 / 2048.0;
    if (i < 1024) CHECK(round_to(DType::f16, x) == x);
    if (i < 1024) CHECK(round_to(DType::f16, middle) == (i % 2 ? x + 1 / 1024.0 : x));
  }
  CHECK(binary(Op::add, DType::f32, {16777216}, {1}) == Reals{16777216});
  CHECK(binary(Op::mul, DType::f16, {300}, {300}) == Reals{INFINITY});
}

TEST_CASE("integers wrap, divide downwards and never trap") {
  CHECK(binary_integers(Op::add, DType::i32, {INT32_MAX}, {1}) == Integers{INT32_MIN});
  CHECK(binary_integers(Op::mul, DType::i64, {INT64_MAX, INT64_MIN}, {3, -1}) == Integers{INT64_MAX - 2, INT64_MIN});
  CHECK(binary_integers(Op::sub, DType::u8, {3}, {5}) == Integers{254});
  CHECK(binary_integers(Op::floor_divide, DType::i64, {-7, 7, -7, 7, 5, INT64_MIN}, {2, -2, -2, 2, 0, -1}) ==
        Integers{-4, -4, 3, 3, 0, INT64_MIN});
  CHECK(binary_integers(Op::remainder, DType::i64, {-7, 7, -7, 7, 5, INT64_MIN}, {2, -2, -2, 2, 0, -1}) ==
        Integers{1, -1, -1, 1, 0, 0});
  CHECK(binary_integers(Op::pow, DType::i32, {3, -2, 2, 0, -1, 7}, {4, 3, 40, 0, -3, -1}) ==
        Integers{81, -8, 0, 1, -1, 0});
  CHECK(binary_integers(Op::bitwise_xor, DType::u8, {255}, {15}) == Integers{240});
}

TEST_CASE("floats: division rounds down, NaN spreads, zeros keep their signs") {
  CHECK(binary(Op::floor_divide, DType::f64, {-7, 7, 1, -1}, {2, -2, 0.1, INFINITY}) == Reals{-4, -4, 9, -1});
  CHECK(binary(Op::remainder, DType::f64, {-7, 7, 5.5}, {2, -2, 2}) == Reals{1, -1, 1.5});
  Reals greatest = binary(Op::maximum, DType::f32, {NAN, 1, -0.0, 0.0}, {1, NAN, 0.0, -0.0});
  CHECK((std::isnan(greatest[0]) && std::isnan(greatest[1])));
  CHECK((!std::signbit(greatest[2]) && !std::signbit(greatest[3])));
  Reals least = binary(Op::minimum, DType::f32, {NAN, 1, -0.0, 0.0}, {1, NAN, 0.0, -0.0});
  CHECK((std::isnan(least[0]) && std::isnan(least[1]) && std::signbit(least[2]) && std::signbit(least[3])));
  CHECK(reference::round(2.5) == 2);
  CHECK(reference::round(-3.5) == -4);
}

TEST_CASE("casts truncate, saturate and wrap") {
  auto cast = [](DType from, Literal value, DType to) {
    value.type = type_of_vector(from, static_cast<std::int64_t>(std::max(value.reals.size(), value.integers.size())));
    Type type = value.type;
    type.dtype = to;
    Tensor x = input(0, value.type);
    return run({x}, node(Op::cast, {x}, type), {value});
  };
  CHECK(cast(DType::f64, {{}, {-1.9, 1.9, 1e30, -1e30, NAN, INFINITY}, {}}, DType::i32).integers ==
        Integers{-1, 1, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  CHECK(cast(DType::f32, {{}, {-5, 300, 7.99}, {}}, DType::u8).integers == Integers{0, 255, 7});
  CHECK(cast(DType::f64, {{}, {9.3e18, -9.3e18}, {}}, DType::i64).integers == Integers{INT64_MAX, INT64_MIN});
  CHECK(cast(DType::i64, {{}, {}, {300, -1}}, DType::u8).integers == Integers{44, 255});
  CHECK(cast(DType::i64, {{}, {}, {(1LL << 54) + (1LL << 30) + 1}}, DType::f32).reals ==
        Reals{0x1.000002p54});  // not through f64
  CHECK(cast(DType::f64, {{}, {0.5, -0.0, NAN}, {}}, DType::boolean).integers == Integers{1, 0, 1});
}

TEST_CASE("reductions, products, indices and draws") {
  Type matrix{DType::f32, false, {}, Shape::of(2, 3)}, row{DType::f32, false, {}, Shape::of(1, 3)};
  Literal values{matrix, {1, 2, 3, 4, NAN, 6}, {}};
  Reduce first;
  first.axes.insert(0);
  Tensor x = input(0, matrix);
  Reals sums = run({x}, node(Op::sum, {x}, row, first), {values}).reals;
  CHECK((sums[0] == 5 && std::isnan(sums[1]) && sums[2] == 9));
  Type positions = row;
  positions.dtype = DType::i64;
  CHECK(run({x}, node(Op::argmax, {x}, positions, first), {values}).integers == Integers{1, 1, 1});
  values.reals[4] = 5;
  Type square{DType::f32, false, {}, Shape::of(2, 2)}, turned{DType::f32, false, {}, Shape::of(3, 2)};
  const Permute swap{{{1, 0}, 2}};
  Tensor product = node(Op::matmul, {x, node(Op::permute, {x}, turned, swap)}, square);
  CHECK(run({x}, product, {values}).reals == Reals{14, 32, 32, 77});
  Type index_type = type_of_vector(DType::i64, 3), picked{DType::f32, false, {}, Shape::of(3, 3)};
  Tensor index = input(1, index_type), rows = node(Op::gather, {x, index}, picked);
  CHECK(run({x, index}, rows, {values, Literal{index_type, {}, {1, 0, 1}}}).reals == Reals{4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK_THROWS_WITH_AS(run({x, index}, rows, {values, Literal{index_type, {}, {1, 2, 1}}}),
                       doctest::Contains("model.cpp:41"), Error);
  Tensor added = node(Op::scatter_add, {index, rows}, matrix);
  CHECK(run({x, index}, added, {values, Literal{index_type, {}, {1, 0, 1}}}).reals == Reals{1, 2, 3, 8, 10, 12});
  Type number{DType::i64, false, {}, {}};
  Tensor zero = node(Op::constant, {}, number, Constant{});
  CHECK(run({}, node(Op::random_bits, {zero, zero}, type_of_vector(DType::i64, 5)), {}).integers[3] == 0x9b00dbd8);
}

TEST_CASE("a chain of a hundred thousand nodes is walked, not recursed into") {
  Type type = type_of_vector(DType::i64, 1);
  Tensor start = input(0, type), x = start;
  for (int i = 0; i < 100000; ++i) x = node(Op::add, {x, start}, type);
  CHECK(run({start}, x, {Literal{type, {}, {1}}}).integers[0] == 100001);
}

TEST_CASE("sizes may be symbols, and a called body is entered") {
  Type vector{DType::i64, false, {}, Shape::of(dims::symbol(0))};
  auto body = std::make_shared<Graph>();
  Tensor parameter = input(0, vector);
  *body = make_graph({parameter}, {node(Op::neg, {parameter}, vector)}, {});
  Tensor x = input(0, vector), numbers = node(Op::iota, {}, vector, Along{0}),
         called = node(Op::call, {node(Op::add, {x, numbers}, vector)}, vector, Called{});
  called.node()->make_more().bodies = {body};
  Constant size;
  size.size = dims::symbol(0);
  Tensor count = node(Op::constant, {}, Type{DType::i64, true, {}, {}}, size);
  Tensor wide = node(Op::expand, {count}, vector);
  Graph graph = make_graph({x}, {node(Op::mul, {called, wide}, vector)}, {});
  std::int64_t three = 3;
  Literal values{type_of_vector(DType::i64, 3), {}, {10, 20, 30}};
  CHECK(interpret(graph, std::span(&values, 1), std::span(&three, 1))[0].integers == Integers{-30, -63, -96});
}

TEST_CASE("constants fold by the same column") {
  auto constant = [](DType dtype, double value) {
    return make_node(Op::constant, {}, Constant::number(dtype, value), Type{dtype, false, {}, {}}, {});
  };
  Tensor operands[] = {constant(DType::f32, 0.1), constant(DType::f32, 3)};
  std::optional<Constant> folded = fold(Op::mul, Type{DType::f32, false, {}, {}}, operands);
  REQUIRE(folded);
  CHECK(folded->as_number(DType::f32) == static_cast<double>(0.1f * 3.0f));
  folded = fold(Op::less, Type{DType::boolean, false, {}, {}}, operands);
  REQUIRE(folded);
  CHECK(folded->as_integer() == 1);
  folded = fold(Op::cast, Type{DType::i32, false, {}, {}}, std::span<const Tensor>(operands + 1, 1));
  REQUIRE(folded);
  CHECK(folded->as_integer() == 3);
  CHECK_FALSE(fold(Op::sum, Type{}, std::span<const Tensor>(operands, 1)));
  Tensor open[] = {operands[0], input(0, Type{DType::f32, false, {}, {}})};
  CHECK_FALSE(fold(Op::mul, Type{DType::f32, false, {}, {}}, open));
}
