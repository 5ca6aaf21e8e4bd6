// Common subexpressions. In: any graph, after autograd. Out: one in which equal computations of equal operands are one
// node, the first recorded. Random draws, effects, inputs, data and places that are differentiated stay as they are.
#pragma once
#include "passes/context.hpp"

namespace weft {

Graph common_subexpressions(const Graph& graph, const PassContext& context = {});

}  // namespace weft
