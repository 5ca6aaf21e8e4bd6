// Updates of rows of a table, where the table lies. In: updates[outer, count, inner], index[count]. In and out:
// table[outer, rows, inner]; table[:, index[i], :] is joined with updates[:, i, :], in the order of i, whatever the
// number of threads. The cost is that of the updates.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/host/row_split.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

// An element becomes the update, the sum of both, or the greater of both (f32, f64, i32, i64, u8).
enum class RowJoin : std::uint8_t { replace, add, greatest };

// Bytes that update_rows wants.
std::size_t update_rows_workspace(RowJoin join, DType dtype, const RowSizes& sizes);
// Sums of f16 and bf16 are computed in f32 and rounded once; those of bool are true where one of them is. Indices are
// in range: a check step has seen to it; one that is not writes nothing.
void update_rows(RowJoin join, DType dtype, const RowSizes& sizes, const void* updates, const std::int64_t* index,
                 void* table, std::span<std::byte> workspace);

}  // namespace weft::runtime
