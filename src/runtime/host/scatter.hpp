// Rows added into a table at indices. In: index[count], updates[count, width]. Out: table[rows, width], zeroed first;
// table[index[i], :] += updates[i, :] in the order of i, whatever the number of threads.
#pragma once
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft::runtime {

struct ScatterSizes {
  std::int64_t rows, count, width;
};

// f32, f64, i32, i64, u8. Indices are in range: a check step has seen to it; one that is not writes nothing.
void scatter_add(DType dtype, ScatterSizes sizes, const std::int64_t* index, const void* updates, void* table);

}  // namespace weft::runtime
