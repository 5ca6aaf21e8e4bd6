// The order of the elements of rows, or a part of it. In: values[rows, size]. Out: order[rows, count], positions in
// their row, from the element at place `first` on; equal elements stay in the order of their positions, NaN is the
// greatest. Where whole rows are sorted, each thread allocates scratch memory for one.
#pragma once
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft::runtime {

struct SortSizes {
  std::int64_t rows, size, first, count;
};

// Of dtypes that are computed in themselves, but bool.
void argsort(DType dtype, SortSizes sizes, bool descending, const void* values, std::int64_t* order);

}  // namespace weft::runtime
