// The forward pass. In: recorded values, the variables (Op::variable) that they depend on, and a tangent for each
// variable. Out: the tangent of each value, recorded as ordinary values that carry the location and scope of the
// operation they come from, so they are differentiable again. One walk in recording order, linear in what was recorded
// since the variables.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// `variables` are in recording order. Undefined means zero, in `tangents` and in the result; the tangent of a value
// that is no floating number is zero. Throws Error where an operation has no derivative, and when a value on the way
// was computed with no level open.
std::vector<Tensor> push_forward(std::span<const Tensor> values, std::span<const Tensor> variables,
                                 std::span<const Tensor> tangents, const char* operation, Loc loc);

}  // namespace weft
