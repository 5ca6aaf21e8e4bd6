// Where a derivative jumps: the conventions of docs/numerics.md, which are PyTorch's, eager, compiled and dynamic.
#include <cmath>
#include <tuple>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/nn.hpp"
#include "weft/special.hpp"

using namespace weft;
using trace_test::text_of;
using trace_test::vector_of;

namespace {

using Three = std::tuple<Tensor, Tensor, Tensor>;

// What f gives, as text, each way.
template <class F, class... T>
void check(F f, const std::vector<std::string>& expected, const T&... argument) {
  const CompileOptions ways[] = {{}, {.dynamic = true}, {.backend = Backend::eager}, {.backend = Backend::reference}};
  for (std::size_t way = 0; way <= std::size(ways); ++way) {
    CAPTURE(way);  // compiled, dynamic, eager, reference, plainly
    const std::vector<Tensor> results = way < std::size(ways) ? compile(f, ways[way])(argument...) : f(argument...);
    REQUIRE(results.size() == expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      CAPTURE(i);
      CHECK(text_of(results[i]) == expected[i]);
    }
  }
}

}  // namespace

TEST_CASE("clamp: x has the gradient at both bounds, a bound where it replaces x") {
  check(
      [](const Tensor& x, const Tensor& low, const Tensor& high) {
        auto [dx, dlow, dhigh] =
            grad([](const Three& t) { return sum(clamp(get<0>(t), get<1>(t), get<2>(t))); }, Three(x, low, high));
        return std::vector{clamp(x, low, high), dx, dlow, dhigh};
      },
      //  below, at low, between, at high, above | turned: below, between, above | equal: below, at, above | NaNs
      {"0 0 0.5 1 1 1 1 1 1 1 1 nan nan nan nan nan nan", "0 1 1 1 0 0 0 0 0 1 0 0 0 0 0 0 0",
       "1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0", "0 0 0 0 1 1 1 1 0 0 1 0 0 0 0 0 0"},
      vector_of({-1, 0, 0.5, 1, 2, 0, 1.5, 3, 0, 1, 2, NAN, 2, 2, -1, -1, NAN}),
      vector_of({0, 0, 0, 0, 0, 2, 2, 2, 1, 1, 1, 0, NAN, 0, NAN, 0, 2}),
      vector_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, NAN, 1, NAN, 1}));
}

TEST_CASE("clamp with numbers, with Scalars and of integers; its second derivative") {
  check(
      [](const Tensor& x) {
        return std::vector{grad([](const Tensor& v) { return sum(clamp(v, 0.0, 1.0)); }, x),
                           grad([](const Tensor& v) { return sum(clamp(v, 0, 1)); }, x),
                           grad([](const Tensor& v) { return sum(clamp(v, Scalar(0), Scalar(1))); }, x),
                           grad([](const Tensor& v) { return sum(clamp(v, 1.0, 0.0)); }, x),
                           clamp(x, 1.0, 0.0),
                           grad(
                               [](const Tensor& v) {
                                 return sum(grad([](const Tensor& u) { return sum(clamp(u * u * u, 0.0, 1.0)); }, v));
                               },
                               x),
                           clamp(cast(where(x == x, x, 0) * 4, DType::i32), -2, 3),
                           clamp(cast(x, DType::bf16), 0.0, 0.5)};
      },
      {"0 1 1 1 0 0", "0 1 1 1 0 0", "0 1 1 1 0 0", "0 0 0 0 0 0", "0 0 0 0 0 nan", "-0 0 3 6 0 nan", "-2 0 2 3 3 0",
       "0 0 0.5 0.5 0.5 nan"},
      vector_of({-1, 0, 0.5, 1, 2, NAN}));
}

TEST_CASE("clamp promotes as minimum and maximum do: Scalars take the other operand's dtype") {
  const Tensor half = ones({2}, {DType::f16});
  CHECK((half * clamp(Scalar(2), 0.0, 1.0)).dtype() == DType::f16);
  CHECK(clamp(half, Scalar(0), Scalar(1)).dtype() == DType::f16);
  CHECK(clamp(Index(5), 0, 3).dtype() == DType::i64);
  CHECK(clamp(half, 0, ones({2})).dtype() == DType::f32);
}

TEST_CASE("maximum and minimum halve the gradient at a tie, relu and abs have none at 0") {
  check(
      [](const Tensor& x, const Tensor& y) {
        using Two = std::pair<Tensor, Tensor>;
        auto [a, b] = grad([](const Two& t) { return sum(maximum(t.first, t.second)); }, Two(x, y));
        auto [c, d] = grad([](const Two& t) { return sum(minimum(t.first, t.second)); }, Two(x, y));
        return std::vector{a,
                           b,
                           c,
                           d,
                           grad([](const Tensor& v) { return sum(relu(v)); }, x),
                           grad([](const Tensor& v) { return sum(abs(v)); }, x)};
      },
      {"0.5 0.5 1 0", "0.5 0.5 0 1", "0.5 0.5 0 1", "0.5 0.5 1 0", "0 0 1 0", "0 0 1 -1"}, vector_of({0, -0.0f, 2, -3}),
      vector_of({-0.0f, 0, 1, 1}));
}

TEST_CASE("amax and amin divide the gradient among ties") {
  check(
      [](const Tensor& x) {
        return std::vector{grad([](const Tensor& v) { return sum(amax(v)); }, x),
                           grad([](const Tensor& v) { return sum(amin(v)); }, x)};
      },
      {"0.25 0.25 0 0.25 0.25 0", "0 0 0.5 0 0 0.5"}, vector_of({5, 5, 1, 5, 5, 1}));
}

TEST_CASE("the mean of nothing and the losses of an empty batch are NaN, their gradients empty") {
  check(
      [](const Tensor& x, const Tensor& labels, const Tensor& weight) {
        auto loss = [&](const Tensor& w) { return nn::cross_entropy(matmul(x, w), labels); };
        auto squares = [&](const Tensor& w) { return nn::mse_loss(matmul(x, w), matmul(x, w) * 2); };
        return std::vector{mean(x),
                           loss(weight),
                           squares(weight),
                           grad(loss, weight),
                           grad(squares, weight),
                           grad([&](const Tensor& z) { return nn::cross_entropy(z, labels); }, x),
                           grad([&](const Tensor& z) { return mean(z); }, x)};
      },
      {"nan", "nan", "nan", "0 0 0 0", "0 0 0 0", "", ""}, zeros({0, 2}), arange(0), ones({2, 2}));
}

TEST_CASE("relu passes the gradient of what is not a number, so that the backward pass does not hide it") {
  check(
      [](const Tensor& x) {
        return std::vector{relu(log(x)), grad([](const Tensor& v) { return sum(relu(log(v)) * 3); }, x)};
      },
      {"nan 0 0 0.693147182", "-1.5 0 0 1.5"}, vector_of({-2, 0.5, 1, 2}));
}

TEST_CASE("norms and deviations have gradient 0 where they are 0") {
  check(
      [](const Tensor& x, const Tensor& zero) {
        const auto slope = [](auto f, const Tensor& at) {
          return grad([&](const Tensor& v) { return sum(f(v)); }, at);
        };
        return std::vector{slope([](const Tensor& v) { return weft::std(v); }, x),
                           slope([](const Tensor& v) { return norm(v); }, zero),
                           slope([](const Tensor& v) { return linalg::vector_norm(v, 3); }, zero),
                           slope([](const Tensor& v) { return linalg::vector_norm(v, 0.5); }, zero)};
      },
      {"0 0 0", "0 0 0", "0 0 0", "0 0 0"}, vector_of({2, 2, 2}), vector_of({0, 0, 0}));
}

TEST_CASE("the number of elements that differ from 0 has derivative 0") {
  check(
      [](const Tensor& x) {
        // Whether it is 0 or -0 says nothing.
        const auto slope = [&](auto f) { return abs(grad([&](const Tensor& v) { return sum(f(v)); }, x)); };
        return std::vector{linalg::vector_norm(x, 0), slope([](const Tensor& v) { return linalg::vector_norm(v, 0); }),
                           slope([](const Tensor& v) {
                             return cdist(unsqueeze(v, -1), ones({2, 1}), 0);
                           })};
      },
      {"4", "0 0 0 0 0 0", "0 0 0 0 0 0"}, vector_of({-1, 0, -0.0F, 1, INFINITY, NAN}));
}

TEST_CASE("the derivative of bessel_y1 at 0 is its limit") {
  check([](const Tensor& x) { return std::vector{grad([](const Tensor& v) { return sum(bessel_y1(v)); }, x)}; },
        {"inf nan"}, vector_of({0, -1}));
}
