// The lengths of a reduction's chunks, of which the kernels have the text.
#pragma once
#include <cstdint>

namespace weft {

namespace chunks {
#include "weft/detail/reduce_chunks.inc"
}
inline constexpr std::int64_t row_chunk = chunks::reduce_row_chunk, column_chunk = chunks::reduce_column_chunk;

}  // namespace weft
