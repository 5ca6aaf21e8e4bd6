// What a first program writes without looking anything up: vectors in and out, sizes as numbers, matrices from rows,
// updates in place, printing.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <vector>

#include "tests/message_of.hpp"
#include "weft/explain.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/ops.hpp"

using namespace weft;

namespace {
template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
template <class T = float>
std::vector<T> numbers_of(const Tensor& tensor) {
  const auto view = tensor.data<T>();
  return {view.begin(), view.end()};
}
using weft::test::message_of;
}  // namespace

TEST_CASE("elements come from and go to containers") {
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  std::array<float, 6> array{};
  float plain[6] = {};
  const Tensor x = from_span(six, {2, 3});
  x.copy_to(array);
  x.copy_to(plain);
  CHECK(std::vector(array.begin(), array.end()) == six);
  CHECK(std::vector(plain, plain + 6) == six);
  CHECK(numbers_of(from_span(array, {6}) + from_span(plain, {6})) == std::vector<float>{2, 4, 6, 8, 10, 12});
  CHECK(from_span(std::vector<std::int64_t>{7}, {}).item<int>() == 7);
  CHECK(numbers_of(from_span(x.data<float>(), {6})) == six);
  std::vector<double> wrong(6);
  CHECK_THROWS_WITH_AS(x.copy_to(wrong), doctest::Contains("[copy_to] as f64, the tensor is f32[2,3]"), Error);
  auto f = compile([](const Tensor& x) { return x * constant(std::array{1.f, 10.f}, {2}); });
  CHECK(numbers_of(f(ones({2}))) == std::vector<float>{1, 10});
}

TEST_CASE("a matrix is written by its rows") {
  const Tensor x = from_list({{1, 2, 3}, {4, 5, 6}});
  CHECK(x.shape() == Shape::of(2, 3));
  CHECK(numbers_of<int>(x) == std::vector{1, 2, 3, 4, 5, 6});
  CHECK_THROWS_WITH_AS(from_list({{1.0, 2.0}, {3.0}}),
                       doctest::Contains("[from_list] shapes differ: f64[2] x f64[1], at surface_test.cpp:"), Error);
  CHECK(from_list<float>({}).shape() == Shape::of(0));
  CHECK(from_list<float>({{1, 2}, {3, 4}}).dtype() == DType::f32);
  CHECK(from_list<float>({1, 2}).shape() == Shape::of(2));
  CHECK(stack({x, x}, -1).shape() == Shape::of(2, 3, 2));
  CHECK_THROWS_WITH_AS(stack({x, select(x, 0, 0)}), doctest::Contains("[stack] shapes differ: i32[2,3] x i32[3]"),
                       Error);
  CHECK_THROWS_WITH_AS(stack(std::vector<Tensor>()), doctest::Contains("[stack] of no tensors"), Error);
}

TEST_CASE("sizes are numbers: in loops, conversions, arithmetic with tensors, and lists") {
  const Tensor x = from_list({1.f, 2.f, 3.f, 6.f});
  std::size_t steps = 0;
  for (std::size_t i = 0; i < x.size(0); ++i) ++steps;
  CHECK(steps == 4);
  CHECK(static_cast<std::size_t>(x.size(0)) == 4);
  CHECK(int(x.size(0)) * 0.5 == 2);
  CHECK(double(x.size(0)) / 8 == 0.5);
  CHECK((sum(x) / x.size(0)).item() == 3);
  CHECK((x.size(0) - x).dtype() == DType::f32);
  CHECK((arange(3) * x.size(0)).dtype() == DType::i64);
  Dim n = x.size(0);
  n += 2;
  n *= 3;
  n -= 1;
  CHECK(n == 17);
  CHECK(numbers_of(slice(x, 0, -(x.size(0) / 2))) == std::vector<float>{3, 6});
  CHECK(zeros(std::vector<std::int64_t>{2, 3}).shape() == Shape::of(2, 3));
  CHECK(reshape(x, std::vector{2, -1}).shape() == zeros({steps / 2, 2}).shape());
  CHECK_FALSE(x.shape() == Shape::of(4, 1));
  CHECK_FALSE(x.shape() == Shape::of(5));
  CHECK_THROWS_WITH_AS(zeros(std::vector<int>(9, 1)), doctest::Contains("more than 8 axes"), Error);
}

TEST_CASE("a symbolic size meets tensors as a value") {
  auto mean_of =
      compile([](const Tensor& x) { return sum(x, 0) / x.size(0) + (x.size(0) - x.size(1)); }, {.dynamic = true});
  for (int rows : {2, 5, 9}) {
    const Tensor x = 2 * ones({rows, 3});
    CHECK(numbers_of(mean_of(x)) == std::vector<float>(3, static_cast<float>(2 + rows - 3)));
  }
  CHECK(specialization_count(mean_of) == 1);
}

TEST_CASE("parameters, buffers and Scalars are updated in place; % is the remainder") {
  Param p = from_list({1.f, 2.f});
  const Tensor before = p;
  p -= 0.5 * p;
  p *= 4;
  p += 1;
  p /= 2;
  CHECK(numbers_of(p) == std::vector<float>{1.5, 2.5});
  CHECK(numbers_of(before) == std::vector<float>{1, 2});
  Buffer b = zeros({2});
  b += p;
  CHECK(numbers_of(b) == numbers_of(p));
  Scalar rate = 0.5;
  rate *= 0.5;
  rate += 1;
  rate -= 0.25;
  rate /= 4;
  CHECK(rate.item() == 0.25);
  Index position = 3;
  position = position + 1;
  position += 1;
  position *= 2 * position - 1;
  position -= Index(5);
  CHECK(position.item() == 40);
  static_assert(std::is_same_v<decltype(position + 1.5), Tensor>);  // no Index takes a fraction
  auto next = compile([](Index& i, const Tensor& x) { return x + (i += 2); });
  CHECK(next(position, ones({})).item() == 43);
  CHECK(next(position, ones({})).item() == 45);
  CHECK(position.item() == 44);
  CHECK(specialization_count(next) == 1);
  CHECK(numbers_of<std::int64_t>(arange(7) % 3 - arange(7) % -3) == std::vector<std::int64_t>{0, 3, 3, 0, 3, 3, 0});
  CHECK(numbers_of(from_list({5.5f, -0.5f}) % 2) == std::vector<float>{1.5, 1.5});
  CHECK((7 % (arange(3) + 1)).shape() == Shape::of(3));
  CHECK(numbers_of<int>(from_list({7, -7}) % 0) == std::vector{0, 0});
  CHECK(numbers_of<int>(floor_divide(from_list({7, -7}), from_list({0}))) == std::vector{0, 0});
}

TEST_CASE("everything prints") {
  CHECK(printed(zeros({2, 3}).shape()) == "[2,3]");
  CHECK(printed(zeros({}).shape()) == "[]");
  CHECK(printed(zeros({2, 3}).size(1)) == "3");
  CHECK(printed(DType::bf16) == "bf16");
  CHECK(printed(Device::cpu()) == "cpu");
  CHECK(printed(Device::cuda(1)) == "cuda:1");
  CHECK(printed(Scalar(0.1)) == "0.1");
  CHECK(printed(Index(7)) == "7");
  CHECK(printed(Param(ones({2}))) == "[1, 1] f32[2]");
  CHECK(printed(mean(zeros({0}))) == "nan f32[]");
  CHECK(printed(from_list<std::int64_t>({9007199254740993, INT64_MIN})) ==
        "[9007199254740993, -9223372036854775808] i64[2]");
  CHECK(printed(from_list({true, false})) == "[true, false] bool[2]");
  CHECK(printed(from_list<std::uint8_t>({255, 0})) == "[255, 0] u8[2]");
  CHECK(printed(zeros({0, 2})) == "[] f32[0,2]");
  CHECK(printed(arange(8)) == "[0, 1, 2, 3, 4, 5, 6, 7] i64[8]");
  CHECK(printed(arange(1001)) == "[0, 1, 2, ..., 998, 999, 1000] i64[1001]");
  auto dynamic = compile([](const Tensor& x) { return std::pair(x, printed(x.shape()) + printed(x.size(0) + 1)); },
                         {.dynamic = true});
  CHECK(dynamic(zeros({4, 5})).second == "[s0,s1]s0 + 1");
}

TEST_CASE("a layer is compiled as it is, and its errors name the user's lines") {
  nn::Linear linear(3, 2);
  auto f = compile(linear);
  const Tensor x = from_list({{1.f, 2.f, 3.f}, {-1.f, 0.f, 2.f}});
  CHECK(numbers_of(f(x)) == numbers_of(linear(x)));
  linear.weight = zeros({2, 3});
  linear.bias = ones({2});
  CHECK(numbers_of(f(x)) == std::vector<float>(4, 1));
  CHECK(message_of([&] {
          f(ones({2, 5}));
        }).find("[linear] takes 3 features, the input is f32[2,5], at surface_test.cpp:") == 0);
}

TEST_CASE("an operation and a scalar expression are compiled as they are") {
  const Tensor x = from_list({-1.f, 2.f}), y = from_list({3.f, 1.f});
  auto rectified = compile(relu);
  CHECK(numbers_of(rectified(x)) == std::vector<float>{0, 2});
  auto larger = compile(maximum);
  CHECK(numbers_of(larger(x, y)) == std::vector<float>{3, 2});
  CHECK(message_of([&] {
          larger(x, ones({3}));
        }).find("[maximum] shapes do not broadcast: f32[2] x f32[3], at surface_test.cpp:") == 0);
  constexpr auto gated = elementwise([](auto a, auto b) { return select(a > 0, a * b, b); });
  auto fused = compile(gated);
  CHECK(numbers_of(fused(x, y)) == std::vector<float>{3, 2});
  auto both = compile(elementwise([](auto a, auto b) { return pack(a + b, a - b); }));
  auto [plus, minus] = both(x, y);
  CHECK(numbers_of(plus) == std::vector<float>{2, 3});
  CHECK(numbers_of(minus) == std::vector<float>{-4, 1});
  CHECK(numbers_of(compile(where)(x > 0, x, y)) == std::vector<float>{3, 2});
  CHECK(numbers_of(compile(sqrt)(square(x))) == std::vector<float>{1, 2});
  auto rows = compile(softmax);
  CHECK(numbers_of(rows(zeros({1, 2}), -1)) == std::vector<float>{0.5, 0.5});
}

TEST_CASE("rows are taken by x[i]") {
  const Tensor x = from_list({{1, 2}, {3, 4}, {5, 6}});
  CHECK(numbers_of<int>(x[0]) == std::vector{1, 2});
  CHECK(numbers_of<int>(x[-1]) == std::vector{5, 6});
  CHECK(x[1][0].item<int>() == 3);
  CHECK(numbers_of<int>(x[x.size(0) - 2]) == std::vector{3, 4});
  CHECK(numbers_of<int>(x[from_list({2, 0})]) == std::vector{5, 6, 1, 2});
  auto row = compile([](const Tensor& x, Index i) { return x[i] + x[x.size(0) - 1]; }, {.dynamic = true});
  CHECK(numbers_of<int>(row(x, 1)) == std::vector{8, 10});
  CHECK(numbers_of<int>(row(x, 0)) == std::vector{6, 8});
  CHECK(numbers_of<int>(row(concat({x, x}), 4)) == std::vector{8, 10});
  CHECK(numbers_of<int>(row(x, -1)) == std::vector{10, 12});
  CHECK(numbers_of<int>(row(x, -3)) == std::vector{6, 8});
  CHECK(specialization_count(row) == 1);
  CHECK_THROWS_WITH_AS(
      x[3], doctest::Contains("[index] index 3 is out of range for axis 0 of i32[3,2], at surface_test.cpp:"), Error);
  CHECK_THROWS_WITH_AS(x[0][0][0], doctest::Contains("[index] a 0-d tensor has no rows"), Error);
  CHECK_THROWS_WITH_AS(x[1.5], doctest::Contains("the index must be an integer"), Error);
  CHECK_THROWS_WITH_AS(x[x > 2], doctest::Contains("[index] the index must be an integer, it is bool[3,2]"), Error);
  CHECK_THROWS_WITH_AS(row(x, 3), doctest::Contains("[index] an index is out of range ["), Error);
}

TEST_CASE("axes come as a vector too") {
  const Tensor x = ones({2, 3, 4});
  const std::vector<int> order{2, 0, 1};
  CHECK(permute(x, order).shape() == Shape::of(4, 2, 3));
  CHECK(permute(x, std::array{std::size_t{1}, std::size_t{0}, std::size_t{2}}).shape() == Shape::of(3, 2, 4));
  CHECK(permute(x, std::span(order)).shape() == permute(x, {2, 0, 1}).shape());
  CHECK(sum(x, std::vector{0, -1}).shape() == Shape::of(3));
  CHECK_THROWS_WITH_AS(permute(x, std::vector(9, 0)), doctest::Contains("[permute] 9 axes for f32[2,3,4]"), Error);
}

TEST_CASE("sequences") {
  using Integers = std::vector<std::int64_t>;
  CHECK(numbers_of<std::int64_t>(arange(2, 5)) == Integers{2, 3, 4});
  CHECK(numbers_of<std::int64_t>(arange(0, 7, 3)) == Integers{0, 3, 6});
  CHECK(numbers_of<std::int64_t>(arange(0, 6, 3)) == Integers{0, 3});
  CHECK(numbers_of<std::int64_t>(arange(5, 0, -2)) == Integers{5, 3, 1});
  CHECK(numbers_of<std::int64_t>(arange(5, 2)) == Integers{});
  CHECK(arange(5, 2, 1, {DType::i32}).dtype() == DType::i32);
  CHECK(numbers_of(arange(1, 3, 1, {DType::f32})) == std::vector<float>{1, 2});
  CHECK(numbers_of(arange(0, 1, 0.25)) == std::vector<float>{0, 0.25, 0.5, 0.75});
  CHECK(numbers_of(arange(1.0, 0.0, -0.5)) == std::vector<float>{1, 0.5});
  CHECK(numbers_of(arange(0.5f, 3.f, 1.f)) == std::vector<float>{0.5, 1.5, 2.5});
  CHECK(numbers_of(arange(1., 0., 1.)).empty());
  CHECK_THROWS_WITH_AS(arange(0, 3, 0), doctest::Contains("[arange] the step is 0, at surface_test.cpp:"), Error);
  CHECK_THROWS_WITH_AS(arange(0, 3, 0.0), doctest::Contains("[arange] from 0 to 3 by 0 has no count"), Error);
  auto positions =
      compile([](const Tensor& x) { return arange(1, x.size(0) + 1) * linspace(0, 1, x.size(0), {DType::f64}); },
              {.dynamic = true});
  CHECK(numbers_of<double>(positions(ones({3}))) == std::vector<double>{0, 1, 3});
  CHECK(numbers_of<double>(positions(ones({5}))) == std::vector<double>{0, 0.5, 1.5, 3, 5});
  CHECK(specialization_count(positions) == 1);

  CHECK(numbers_of(linspace(0, 1, 5)) == std::vector<float>{0, 0.25, 0.5, 0.75, 1});
  CHECK(numbers_of(linspace(3, 7, 1)) == std::vector<float>{3});
  CHECK(numbers_of(linspace(3, 7, 0)).empty());
  CHECK(numbers_of<double>(linspace(0.1, 0.3, 3, {DType::f64})).back() == 0.3);
  CHECK(numbers_of<double>(linspace(0.3, 0.3, 4, {DType::f64})) == std::vector(4, 0.3));
  CHECK_THROWS_WITH_AS(linspace(0, 1, -1), doctest::Contains("[linspace] the count is negative: -1"), Error);

  CHECK(numbers_of(eye(2)) == std::vector<float>{1, 0, 0, 1});
  CHECK(numbers_of<int>(eye(2, 3, {DType::i32})) == std::vector{1, 0, 0, 0, 1, 0});
  CHECK(numbers_of<int>(full_like(eye(2, {DType::i32}), 7)) == std::vector(4, 7));
  const std::int64_t large = (std::int64_t{1} << 60) + 1;  // not a double
  CHECK(numbers_of<std::int64_t>(full({2}, large, {DType::i64})) == std::vector(2, large));
  CHECK(numbers_of<std::int64_t>(full_like(arange(1), -large)) == std::vector{-large});
  CHECK(numbers_of(full({2, 2}, from_list({1.f, 2.f}))) == std::vector<float>{1, 2, 1, 2});
  CHECK_THROWS_WITH_AS(full({2, -1}, large), doctest::Contains("[full] a size is negative: -1, at surface_test.cpp:"),
                       Error);
}

TEST_CASE("small surprises: bools, axes that run back, numbers that a sum of their type can't hold") {
  CHECK(full({}, 0.5).item<bool>());
  CHECK(full({}, NAN).item<bool>());
  CHECK_FALSE(full({}, -0.0).item<bool>());
  CHECK_THROWS_WITH_AS(flatten(ones({2, 3, 4}), 1, 0),
                       doctest::Contains("[flatten] from axis 1 back to axis 0 of f32[2,3,4]"), Error);
  Tensor flags = ones({2}) > 0;
  CHECK_THROWS_WITH_AS(flags += 1, doctest::Contains("can't be kept in bool[2]"), Error);
  CHECK_THROWS_WITH_AS(one_hot(arange(2), -1), doctest::Contains("[one_hot] needs a class at least, it has -1"), Error);
  CHECK(printed(where(true, 1, 2.5)).find('\'') == std::string::npos);
  CHECK(numbers_of<double>(linspace(-1e308, 1e308, 3, {DType::f64})) == std::vector<double>{-1e308, 0, 1e308});

  const Options half{DType::f16}, brain{DType::bf16};
  CHECK(mean(ones({100000}, half)).item() == 1);
  CHECK(var(full({70000}, 2, half)).item() == 0);
  CHECK(norm(full({2}, 300, half)).item() == 424.25);  // 424.26 to 11 bits
  CHECK(mean(full({1000}, 3, brain)).item() == 3);
  CHECK(mean(ones({4}, half)).dtype() == DType::f16);
}

TEST_CASE("the third argument of a reduction is keepdim where it is a bool; a number is var's correction") {
  const Tensor x = from_list({{1.f, 3.f}, {2.f, 6.f}});
  CHECK(var(x, 1, true).shape() == Shape::of(2, 1));
  CHECK(numbers_of(var(x, 1, true)) == std::vector<float>{2, 8});
  CHECK(numbers_of(var(x, 1, false)) == numbers_of(var(x, 1)));
  CHECK(numbers_of(var(x, {0, 1}, true)) == std::vector<float>{14 / 3.f});
  CHECK(numbers_of(var(x, 1, 0)) == std::vector<float>{1, 4});
  CHECK(var(x, 1, 0.5, true).shape() == Shape::of(2, 1));
}

TEST_CASE("an empty axis is split into one empty part, and put together again") {
  for (int rows : {0, 2, 5}) {
    const Tensor x = ones({rows, 4});
    const std::vector<Tensor> parts = split(x, 2);
    CHECK(static_cast<int>(parts.size()) == std::max((rows + 1) / 2, 1));
    CHECK(concat(parts).shape() == x.shape());
  }
  CHECK(split(ones({3, 0}), 7, 1).at(0).shape() == Shape::of(3, 0));
  auto halves = compile([](const Tensor& x) { return concat(split(x, 2)) * 2; }, {.dynamic = true});
  CHECK(halves(ones({3, 2})).shape() == Shape::of(3, 2));
  CHECK(halves(ones({0, 2})).shape() == Shape::of(0, 2));
}

TEST_CASE("argmin and norm") {
  const float nan = NAN;
  const Tensor x = from_list({{3.f, 1.f, 1.f}, {2.f, nan, 0.f}});
  CHECK(numbers_of<std::int64_t>(argmin(x)) == std::vector<std::int64_t>{1, 1});
  CHECK(argmin(x, 0, true).shape() == Shape::of(1, 3));
  CHECK(argmin(from_list<std::int64_t>({0, INT64_MIN, INT64_MAX})).item<int>() == 1);
  CHECK(argmin(from_list<std::uint8_t>({3, 0, 255})).item<int>() == 1);
  CHECK(argmin(from_list({true, false, true})).item<int>() == 1);
  const Tensor y = from_list({{3.f, 4.f}, {0.f, 0.f}});
  CHECK(norm(y).item() == 5);
  CHECK(numbers_of(norm(y, 1)) == std::vector<float>{5, 0});
  CHECK(norm(y, 1, true).shape() == Shape::of(2, 1));
  CHECK(numbers_of(grad([](const Tensor& y) { return sum(norm(y, 1)); }, y)) == std::vector{0.6f, 0.8f, 0.f, 0.f});
  CHECK_THROWS_WITH_AS(norm(arange(3)), doctest::Contains("[norm] needs a floating dtype, it is i64[3]"), Error);
}

TEST_CASE("a value that is asked for inside a compiled function is refused by the question's name, with a way out") {
  const char* way_out =
      "is not known in a function that is compiled with {.fullgraph = true}, which has no decisions: choose with "
      "where(";
  auto item = compile([](const Tensor& x) { return sum(x).item() > 3 ? x : -x; }, {.fullgraph = true});
  std::string message = message_of([&] { item(ones({2})); });
  CHECK(message.find("[item] the value of a tensor (f32[], made at surface_test.cpp:") == 0);
  CHECK(message.find(way_out) != message.npos);
  auto data = compile([](const Tensor& x) { return x + x.data<float>()[0]; }, {.fullgraph = true});
  CHECK(message_of([&] { data(ones({2})); }).find("[data] ") == 0);
  auto eval = compile([](const Tensor& x) { return Tensor((x + 1).eval()); });
  CHECK(message_of([&] { eval(ones({2})); }).find("[eval] ") == 0);
  // What a loop gives its body was made where the loop is.
  const std::string where = "made at surface_test.cpp:" + std::to_string(__LINE__ + 1);
  message = message_of([] { scan([](Tensor s, const Tensor& v) { return s + v.item(); }, zeros({}), ones({4})); });
  CHECK(message.find("[item] the value of a tensor (f32[], " + where + ") of the body of a loop") == 0);
}
