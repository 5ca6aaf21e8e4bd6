// Scalar expressions on tensors: applied, expanded into primitives, differentiated.
#pragma once
#include "ir/elementwise.hpp"

namespace weft {

// The expression as primitives of the table over `operands` (one for each argument, of one shape, numbers of one
// dtype).
std::vector<Tensor> expand_elementwise(const ElementwiseDefinition& definition, std::span<const Tensor> operands,
                                       Loc loc);

// The gradients of the operands of a scalar expression's call from those of its results (undefined means zero):
// one more application. Operands that are bool keep none.
void elementwise_gradients(const Tensor& value, std::span<const Tensor> gradients, std::span<Tensor> results);

namespace detail {
// What a call of an expression does (weft/expr.hpp): promotes and broadcasts the operands, then records one node, with
// the host's kernel where it has one.
void apply_elementwise(const ElementwiseDefinition& definition, const At* operands, Tensor* results);
void apply_elementwise(const ElementwiseDefinition& (*definition)(), const At* operands, Tensor* results);
}  // namespace detail

}  // namespace weft
