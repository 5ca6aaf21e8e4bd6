// What the table of dtypes does not say by itself: ranges of integers, rounding to a floating dtype.
#pragma once
#include "weft/dtype.hpp"

namespace weft {

// The least and the greatest number of an integer dtype or bool.
struct IntegerRange {
  std::int64_t least, greatest;
};
IntegerRange integer_range(DType dtype);

// The nearest value of a floating dtype, ties to even; infinity beyond the largest.
double round_to(DType dtype, long double value);

}  // namespace weft
