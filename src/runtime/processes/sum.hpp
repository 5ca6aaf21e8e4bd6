// Sums over processes, where the library has none: element by element, in the order of ranks.
#pragma once
#include <cstdint>
#include <span>

#include "weft/dtype.hpp"

namespace weft::runtime {

// result[i] = parts[0][i] + parts[1][i] + ... 16-bit floats are added in f32 and rounded once; integers wrap. The
// result may be one of the parts.
void sum_in_order(DType dtype, std::int64_t count, std::span<const void* const> parts, void* result);

}  // namespace weft::runtime
