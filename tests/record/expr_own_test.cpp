// The library's own scalar expressions: gelu and the Adam update are the formulas they stand for, to the last bit,
// eager in one node; and compiled functions that hold expressions agree with what they do eagerly.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "record/elementwise.hpp"
#include "record/record.hpp"
#include "weft/compile.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/optim.hpp"

using namespace weft;

namespace {

Tensor numbers(std::int64_t count, unsigned seed, bool positive = false) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = positive ? std::abs(normal(random)) : normal(random) * 2;
  return from_span(std::span<const float>(values), {count});
}
bool same_bits(const Tensor& a, const Tensor& b) {
  auto x = a.data<float>(), y = b.data<float>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}
// The largest difference in units of the last place of the larger one, or of 1e-6 near zero.
double distance(const Tensor& a, const Tensor& b) {
  auto x = a.data<float>(), y = b.data<float>();
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double size = std::max({std::fabs(double(x[i])), std::fabs(double(y[i])), 1e-6});
    largest = std::max(largest, std::fabs(double(x[i]) - y[i]) / (size * 0x1p-23));
  }
  return largest;
}

constexpr auto own_mish = elementwise([](auto x) { return x * tanh(log1p(exp(x))); });

}  // namespace

TEST_CASE("gelu is one node, and its formula") {
  Tensor x = numbers(1000, 1);
  Tensor y = gelu(x);
  CHECK(y.node()->op == Op::call);
  CHECK(interned_text(y.node()->scope) == "gelu");
  CHECK(same_bits(y, x * 0.5 * (erf(x * 0.7071067811865476) + 1)));
  CHECK(same_bits(gelu(x, Gelu::tanh), x * 0.5 * (tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)) + 1)));
  for (Gelu form : {Gelu::exact, Gelu::tanh}) {
    Tensor wide = cast(x, DType::f64);
    Tensor g = grad([&](const Tensor& v) { return sum(gelu(v, form)); }, wide);
    Tensor difference = (gelu(wide + 1e-5, form) - gelu(wide - 1e-5, form)) / 2e-5;
    CHECK(amax(abs(g - difference)).item() < 1e-8);
  }
}

TEST_CASE("the Adam update is its formula, with three results of one node") {
  Tensor p = numbers(500, 1), g = numbers(500, 2), m = numbers(500, 3), v = numbers(500, 4, true);
  for (bool decoupled : {false, true}) {
    optim::AdamStep step{0.01, 0.3, 0.9, 0.999, 1e-8, decoupled, decoupled ? 0.99 : 0.1};
    optim::AdamResult next = optim::adam_update(p, g, m, v, step);
    CHECK(next.parameter.node() == next.first.node());
    CHECK(next.second.output() == 2);
    Tensor gradient = decoupled ? g : g + p * 0.1, kept = decoupled ? p * 0.99 : p;
    Tensor first = m + (gradient - m) * (1 - 0.9), second = v * 0.999 + gradient * gradient * (1 - 0.999);
    CHECK(same_bits(next.first, first));
    CHECK(same_bits(next.second, second));
    CHECK(same_bits(next.parameter, kept - first / (sqrt(second) / 0.3 + 1e-8) * 0.01));
  }
}

TEST_CASE("compiled functions agree with what they do eagerly") {
  auto forward = [](const Tensor& x, const Tensor& y) {
    constexpr auto both = elementwise([](auto a, auto b) { return pack(a * sigmoid(b), where(a < b, a, b * 0.1)); });
    auto [p, q] = both(own_mish(x), y);
    return gelu(p) + q;
  };
  auto derivative = [](const Tensor& x) { return grad([](const Tensor& v) { return sum(own_mish(v) * gelu(v)); }, x); };
  Tensor x = numbers(1003, 1), y = numbers(1003, 2);
  CHECK(distance(compile(forward)(x, y), forward(x, y)) <= 4);
  CHECK(distance(compile(derivative)(x), derivative(x)) <= 16);
}
