// Folds constant scales and shifts of channels into the weights before them, such as a batch norm with running
// statistics after a convolution or a matrix product: conv(x, w) * s + t becomes conv(x, w * s) + t. Requires that the
// weights, s and t depend on constant inputs alone, and that nothing else reads the values in between. What depends on
// constants alone is computed once for many calls (runtime/constants.hpp). Weights of 16-bit floats are scaled in f32,
// in which the norm computes, and rounded once. The result rounds differently (docs/numerics.md).
#pragma once
#include "ir/graph.hpp"
#include "passes/context.hpp"

namespace weft {

Graph fold_batch_norm(const Graph& graph, const PassContext& context);

}  // namespace weft
