// What the tests of loops share.
#pragma once
#include <doctest/doctest.h>

#include <cmath>

#include "weft/weft.hpp"

namespace loops_test {

// f64 numbers in [-1, 1), other ones for another seed.
inline weft::Tensor noise(const weft::Sizes& sizes, std::uint64_t seed) {
  weft::Generator generator(seed);
  return weft::uniform(sizes, -1, 1, generator, {weft::DType::f64});
}

inline void check_close(const weft::Tensor& value, const weft::Tensor& expected, double tolerance = 1e-11) {
  REQUIRE(value.defined());
  REQUIRE(value.shape() == expected.shape());
  REQUIRE(value.dtype() == expected.dtype());
  if (value.element_count() == weft::Dim(0)) return;
  const double difference = max(abs(value - expected)).item(), scale = 1 + max(abs(expected)).item();
  CHECK(difference <= tolerance * scale);
}

}  // namespace loops_test
