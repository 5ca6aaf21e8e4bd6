// Rows that meet in a table at indices. In: index[count], updates[count, width]. Out: table[rows, width], which begins
// as zeros, or with the least value; table[index[i], :] += updates[i, :], or the greater of both, in the order of i,
// whatever the number of threads.
#pragma once
#include <cstdint>

#include "runtime/host/update_rows.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

struct ScatterSizes {
  std::int64_t rows, count, width;
};

// RowJoin::add or greatest. f32, f64, i32, i64, u8. Indices are in range: a check step has seen to it; one that is not
// writes nothing.
void scatter(RowJoin join, DType dtype, ScatterSizes sizes, const std::int64_t* index, const void* updates,
             void* table);

}  // namespace weft::runtime
