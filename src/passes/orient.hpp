// Transposed products computed the other way round: transpose(a b) = transpose(b) transpose(a), so that what reads the
// result finds it in the order in which it walks. The operands' transposes are strides to the library that multiplies.
#pragma once
#include "passes/pattern.hpp"

namespace weft {

extern const RewriteTable orientation;
Graph orient_matmul(const Graph& graph, const PassContext& context = {});

}  // namespace weft
