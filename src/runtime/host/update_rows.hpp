// Rows of a table replaced or added to, where the table lies. In: updates[outer, count, inner], index[count]. In and
// out: table[outer, rows, inner]; table[:, index[i], :] becomes updates[:, i, :], or that is added to it, in the order
// of i, whatever the number of threads. The cost is that of the updates.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/dtype.hpp"

namespace weft::runtime {

struct RowSizes {
  std::int64_t outer, rows, inner, count;
};

// Bytes that update_rows wants.
std::size_t update_rows_workspace(bool adds, DType dtype, std::int64_t count);
// Sums of f16 and bf16 are computed in f32 and rounded once; those of bool are true where one of them is. Indices are
// in range: a check step has seen to it; one that is not writes nothing.
void update_rows(bool adds, DType dtype, const RowSizes& sizes, const void* updates, const std::int64_t* index,
                 void* table, std::span<std::byte> workspace);

}  // namespace weft::runtime
