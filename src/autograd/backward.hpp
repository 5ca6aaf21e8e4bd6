// The backward pass. In: a recorded loss and the variables (Op::variable) to differentiate with respect to. Out: one
// gradient a variable, recorded as ordinary values that carry the location and scope of the operation they come from.
// Iterative, linear in what was recorded since the variables but for one sort; contributions to one value are added in
// the reverse order of recording, so the rounding of a gradient is a function of the program alone.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// `variables` are in recording order. Zeros for a variable that does not reach the loss. Throws Error when none does,
// when the loss is not one floating number, and when a value on the way was computed with no level open. `reached`, by
// variable: whether the loss depends on it.
std::vector<Tensor> backward(const Tensor& loss, std::span<const Tensor> variables, const char* operation, Loc loc,
                             std::vector<bool>& reached);

// The same from the gradients of any values. Undefined for a variable whose gradient is zero.
std::vector<Tensor> pull_back(std::span<const Tensor> values, std::span<const Tensor> gradients,
                              std::span<const Tensor> variables, const char* operation, Loc loc);

// Whether a derivative may be asked for with respect to the value: it depends on a variable that was recorded at
// `start` or later, or on what hides its operands.
bool depends_on_variable(const Tensor& value, std::uint64_t start);

}  // namespace weft
