// What the table of dtypes does not say by itself: rounding to a floating dtype.
#pragma once
#include "weft/dtype.hpp"

namespace weft {

// The nearest value of a floating dtype, ties to even; infinity beyond the largest.
double round_to(DType dtype, long double value);

}  // namespace weft
