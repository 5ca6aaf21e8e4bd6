// What one writes in the first ten minutes, and expects to work. What must not compile is in tests/compile_fail.
#include <doctest/doctest.h>

#include "weft/weft.hpp"

using namespace weft;

TEST_CASE("for (Tensor row : x) walks along axis 0, in a compiled function too") {
  const auto alternating = [](const Tensor& x) {
    Tensor sum = zeros({2});
    double sign = 1;
    for (Tensor row : x) sum = sum + sign * row, sign = -sign;
    return sum;
  };
  const Tensor x = from_list<float>({{1, 2}, {10, 20}, {100, 300}});
  for (const Tensor& sum : {alternating(x), compile(alternating)(x)}) {
    CHECK(sum[0].item() == 91);
    CHECK(sum[1].item() == 282);
  }
  int rows = 0;
  for (Tensor row : zeros({0, 3})) rows += row.rank();
  CHECK(rows == 0);
  CHECK_THROWS_WITH_AS(([&] {
                         for (Tensor row : x[0][0]) row.eval();
                       }()),
                       doctest::Contains("newcomer_test.cpp"), Error);
}

TEST_CASE("a shape is compared with sizes as they are written") {
  const Tensor x = ones({2, 3});
  CHECK(x.shape() == Sizes{2, 3});
  CHECK(x.shape() != Sizes{3, 2});
  CHECK(Sizes{2, 3} == x.shape());
  CHECK_FALSE(x.shape() == Sizes{2, 3, 1});
}

struct Base {};
struct alignas(64) Aligned : Base {
  Param weight = full({2}, 3);
};
TEST_CASE("a model with an empty base and an alignment is a model") {
  const Aligned model;
  auto f = compile([](const Aligned& m, const Tensor& x) { return sum(m.weight * x); });
  CHECK(f(model, ones({2})).item() == 6);
}

TEST_CASE("nn::parameters gives references, and leaves out a bias that does not exist") {
  nn::Linear layer(2, 3, {.bias = false});
  int count = 0;
  for (auto& p : nn::parameters(layer)) p.value = ones({3, 2}), ++count;
  CHECK(count == 1);
  CHECK(sum(layer.weight).item() == 6);
}

struct Interface {
  virtual ~Interface() = default;
  virtual Tensor operator()(const Tensor& x) const = 0;
};
struct Scaled final : Interface {
  Tensor operator()(const Tensor& x) const override { return weight * x; }
  Param weight = full({2}, 3);
  bool twice = false;
  WEFT_MEMBERS(weight, twice)
};
TEST_CASE("a final class with virtual functions that lists its members is a model") {
  const Scaled model;
  auto f = compile([](const Scaled& m, const Tensor& x) { return sum(m(x)); });
  CHECK(f(model, ones({2})).item() == 6);
}
