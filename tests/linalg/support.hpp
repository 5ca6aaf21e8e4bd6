// What the tests of linear algebra share.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/ops.hpp"

namespace weft::test {

using Numbers = std::vector<double>;

inline Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::f64);
  Numbers numbers;
  for (const double x : wide.data<double>()) numbers.push_back(x);
  return numbers;
}

inline Tensor identity(Dim n, DType dtype = DType::f64) {
  const Tensor places = arange(n);
  return cast(unsqueeze(places, 0) == unsqueeze(places, 1), dtype);
}

// Within a bound relative to 1 or to the number, whichever is more.
inline void check_near(const Numbers& got, const Numbers& expected, double bound) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    CHECK(std::abs(got[i] - expected[i]) <= bound * std::max(1.0, std::abs(expected[i])));
  }
}
inline void check_near(const Tensor& got, const Tensor& expected, double bound) {
  check_near(numbers_of(got), numbers_of(expected), bound);
}

}  // namespace weft::test
