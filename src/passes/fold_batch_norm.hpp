// Scales and shifts of channels, in the weights before them: a batch norm of running statistics, or what else
// multiplies or shifts each channel of a convolution or of a product of matrices by a constant. conv(x, w) * s + t
// becomes conv(x, w * s) + t, where weights, s and t are made of constant inputs alone and nobody else reads what lies
// between: what is made of constants is made once for many calls (runtime/constants.hpp). On the host alone. It rounds
// differently (docs/numerics.md).
#pragma once
#include "ir/graph.hpp"
#include "passes/context.hpp"

namespace weft {

Graph fold_batch_norm(const Graph& graph, const PassContext& context);

}  // namespace weft
