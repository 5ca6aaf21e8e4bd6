// How threads share updates that go to rows of a table at indices. In: sizes and the indices. Out: the parts, each of
// which one thread works through. Except for copies, one thread adds all updates of an element, in their order, so the
// split decides nothing about results.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/workers.hpp"

namespace weft::runtime {

// Tables [outer, rows, inner]; updates [outer, count, inner]; index [count].
struct RowSizes {
  std::int64_t outer, rows, inner, count;
};

// Rows narrower than this aren't split: skipping some of them takes as long as reading all.
inline constexpr std::int64_t least_row_bytes = 128;

enum class RowSplit : std::uint8_t {
  none,     // one thread
  columns,  // a part has columns of [outer, inner], and reads the whole index
  copies,   // a thread takes some of the updates into a table of its own; these are joined in the end
  rows,     // a part has the updates of some rows, and reads the whole index
};

struct RowParts {
  RowSplit split = RowSplit::none;
  std::int64_t grain = 0;    // columns: of a part; copies: updates that are taken at a time
  std::int64_t threads = 1;  // copies: tables; rows: parts
  // rows: part i has rows [bounds[i], bounds[i + 1]).
  std::array<std::int64_t, workers::most_threads + 1> bounds = {};
};

// Chooses the split that takes the least time by a model of it, or none where that is as good. Copies only where the
// updates of an element may be joined in any order.
RowParts row_parts(const RowSizes& sizes, std::size_t element_bytes, bool any_order,
                   std::span<const std::int64_t> index, std::int64_t threads);

}  // namespace weft::runtime
