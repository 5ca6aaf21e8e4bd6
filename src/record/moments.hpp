// Means and squares whose sums do not overflow where what they are for has a value. In: values in the dtype in which
// they are computed. Out: loose nodes, for bodies of composites.
#pragma once
#include "record/record.hpp"

namespace weft {

// The mean over the axes, which have so many elements. It has the bits of the sum divided by the count, but the sum is
// of elements times 2^-32 (2^-64 of f64): no sum of fewer than 2^32 elements overflows. Below 2^-94 (2^-958) an element
// loses digits, which is nothing to whom the squares of the differences matter.
Tensor mean_of_large(const Tensor& value, const Axes& axes, bool keepdim, Dim count, Loc loc);

}  // namespace weft
