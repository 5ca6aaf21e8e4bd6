// Arguments that never come again: how many compilations they cost.
#include <random>

#include "tests/trace/support.hpp"

using namespace weft;
using namespace trace_test;

TEST_CASE("storm: 10^4 shapes are at most three compilations") {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(tanh(matmul(x, w) + 1), 1); });
  const Tensor w = full({4, 3}, 0.25).eval();
  for (int i = 0; i < 10000; ++i) {
    const int rows = 1 + i * 37 % 10007;
    const Tensor y = f(full({rows, 4}, 1).eval(), w);
    if (i % 1000 == 0) CHECK(y[0].item<float>() == doctest::Approx(3 * std::tanh(2.)));
  }
  CHECK(specialization_count(f) <= 3);
}

TEST_CASE("storm: 10^4 values of a Scalar are one compilation") {
  const auto f = compile([](Tensor& w, const Tensor& g, const Scalar& rate) { w = w - g * rate; });
  Tensor w = zeros({16});
  const Tensor g = full({16}, 1).eval();
  double expected = 0;
  for (int i = 0; i < 10000; ++i) {
    const double rate = 1. / (1 << (i % 20));
    f(w, g, Scalar(rate));
    expected -= rate;
  }
  CHECK(w[0].item<double>() == doctest::Approx(expected).epsilon(1e-3));
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("storm: 12 inputs of which each is 0 or 1 long now and then are a few compilations, and never run eagerly") {
  using List = std::vector<Tensor>;
  const auto f = compile([](const List& all) {
    Tensor y = zeros({});
    for (const Tensor& x : all) y = y + sum(x * 2);
    return y;
  });
  std::mt19937 bits(1);
  for (int i = 0; i < 2000; ++i) {
    List all;
    double expected = 0;
    for (int k = 0; k < 12; ++k) {
      const int kind = static_cast<int>(bits() % 4), size = kind < 2 ? kind : 2 + static_cast<int>(bits() % 9);
      all.push_back(full({size}, 1).eval());
      expected += 2 * size;
    }
    REQUIRE(f(all).item<double>() == expected);
  }
  const std::size_t found = specialization_count(f);
  CHECK(found <= 13);
  List last;
  for (int k = 0; k < 12; ++k) last.push_back(full({k}, 1).eval());
  CHECK(explain(f, last).fallback.empty());
  MESSAGE(found, " compilations");
}
