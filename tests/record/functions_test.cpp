// Elementwise composites: values and gradients as PyTorch gives them (functions_golden.inc), eager and compiled; what
// is special of each; what they refuse.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

using namespace weft;
using namespace weft::test;

namespace {

using Numbers = std::vector<double>;

Tensor tensor_of(const Numbers& numbers, DType dtype) {
  return cast(from_span(std::span<const double>(numbers), {static_cast<std::int64_t>(numbers.size())}), dtype);
}
Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::f64);
  Numbers numbers;
  for (double x : wide.data<double>()) numbers.push_back(x);
  return numbers;
}

// Relative to 1 or to the number, whichever is more. A gradient where PyTorch has a NaN may be a number: some of ours
// are one-sided limits.
void check_near(const Numbers& got, const Numbers& expected, double bound, bool is_gradient) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    if (std::isnan(expected[i]))
      CHECK((is_gradient || std::isnan(got[i])));
    else if (std::isinf(expected[i]))
      CHECK(got[i] == expected[i]);
    else
      CHECK(std::abs(got[i] - expected[i]) <= bound * std::max(1.0, std::abs(expected[i])));
  }
}

using Two = std::tuple<Tensor, Tensor>;

template <class F>
void check_one(F f, const Numbers& values, const Numbers& slopes) {
  const auto both = [](const Tensor& x) {
    return std::tuple(F()(x), grad([](const Tensor& v) { return sum(F()(v)); }, x));
  };
  static_cast<void>(f);
  for (const bool compiled : {false, true}) {
    CAPTURE(compiled);
    const Tensor x = tensor_of(WEFT_GOLDEN_POINTS_OF(), DType::f64);
    const auto [y, dx] = compiled ? compile(both)(x) : both(x);
    check_near(numbers_of(y), values, 1e-14, false);
    check_near(numbers_of(dx), slopes, 1e-14, true);
  }
}

}  // namespace
