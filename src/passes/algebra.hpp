// Algebra. In: a graph after autograd. Out: a smaller one with the same values: every rule is exact for all operands,
// with NaN, infinities, the sign of zero and the wrapping of integers (x + 0 is not x for x = -0; x * 0 is not 0 for
// NaN). pow(x, 2) becomes x * x, which is what every kernel's pow gives there. Must run after autograd: it takes out
// variable and stop_gradient.
#pragma once
#include "passes/pattern.hpp"

namespace weft {

extern const RewriteTable algebra;
Graph simplify_algebra(const Graph& graph, const PassContext& context = {});

}  // namespace weft
