// What the table of dtypes does not say by itself: ranges of integers, rounding to a floating dtype.
#pragma once
#include "weft/dtype.hpp"

namespace weft {

// The least and the greatest number of an integer dtype or bool.
struct IntegerRange {
  std::int64_t least, greatest;
};
IntegerRange integer_range(DType dtype);

// Whether a floating dtype has infinities; f8e4m3 has NaN in their place. Its largest number.
constexpr bool has_infinity(DType dtype) { return dtype != DType::f8e4m3; }
double largest_finite(DType dtype);

// The integer dtype of as many bits as this float.
constexpr DType integer_of_bits(DType floating) {
  const int bits = info(floating).bits;
  return bits == 8 ? DType::i8 : bits == 16 ? DType::i16 : bits == 32 ? DType::i32 : DType::i64;
}

// The nearest value of a floating dtype, ties to even; beyond the largest infinity, or NaN where there is none.
double round_to(DType dtype, long double value);

}  // namespace weft
