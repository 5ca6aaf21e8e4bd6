// Constant folding. In: any graph. Out: one in which what is computed from numbers alone is a number: pointwise
// primitives and casts of uniform constants, and views of them. The arithmetic is the table's reference column, rounded
// to the dtype; what the kernels don't give to the same bit (exp, say) stays for them to compute.
#pragma once
#include "ir/match.hpp"
#include "passes/context.hpp"

namespace weft {

Graph fold_constants(const Graph& graph, const PassContext& context = {});

}  // namespace weft
