// What a first program writes without looking anything up: vectors in and out, sizes as numbers, matrices from rows,
// updates in place, printing.
#include <doctest/doctest.h>

#include <array>
#include <sstream>
#include <vector>

#include "weft/explain.hpp"
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
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing thrown)";
}
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
  CHECK_THROWS_WITH_AS(from_list({{1.0, 2.0}, {3.0}}), doctest::Contains("[stack] shapes differ: f64[2] x f64[1], at surface_test.cpp:"), Error);
  CHECK(stack({x, x}, -1).shape() == Shape::of(2, 3, 2));
  CHECK_THROWS_WITH_AS(stack({x, select(x, 0, 0)}), doctest::Contains("[stack] shapes differ: i32[2,3] x i32[3]"), Error);
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
  auto mean_of = compile([](const Tensor& x) { return sum(x, 0) / x.size(0) + (x.size(0) - x.size(1)); }, {.dynamic = true});
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
  CHECK(numbers_of<std::int64_t>(arange(7) % 3 - arange(7) % -3) == std::vector<std::int64_t>{0, 3, 3, 0, 3, 3, 0});
  CHECK(numbers_of(from_list({5.5f, -0.5f}) % 2) == std::vector<float>{1.5, 1.5});
  CHECK((7 % (arange(3) + 1)).shape() == Shape::of(3));
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
  CHECK(printed(arange(8)) == "[0, 1, 2, 3, 4, 5, 6, 7] i64[8]");
  CHECK(printed(arange(1001)) == "[0, 1, 2, ..., 998, 999, 1000] i64[1001]");
  auto dynamic = compile([](const Tensor& x) { return std::pair(x, printed(x.shape()) + printed(x.size(0) + 1)); }, {.dynamic = true});
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
  CHECK(message_of([&] { f(ones({2, 5})); }).find("[linear] takes 3 features, the input is f32[2,5], at surface_test.cpp:") == 0);
}

TEST_CASE("a value that is asked for inside a compiled function is refused by the question's name, with a way out") {
  const char* way_out = "is not known while a compiled function is traced: choose with where(condition, a, b)";
  auto item = compile([](const Tensor& x) { return sum(x).item() > 3 ? x : -x; });
  std::string message = message_of([&] { item(ones({2})); });
  CHECK(message.find("[item] the value of a tensor (f32[], made at surface_test.cpp:") == 0);
  CHECK(message.find(way_out) != message.npos);
  auto data = compile([](const Tensor& x) { return x + x.data<float>()[0]; });
  CHECK(message_of([&] { data(ones({2})); }).find("[data] ") == 0);
  auto eval = compile([](const Tensor& x) { return Tensor((x + 1).eval()); });
  CHECK(message_of([&] { eval(ones({2})); }).find("[eval] ") == 0);
}
