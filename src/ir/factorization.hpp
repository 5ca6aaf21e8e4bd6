// Inference of the primitives of kind `factorization`. In: operands and attributes. Out: the types of all results, and
// the operation as plain data. Throws the user's error on operands that do not fit.
#pragma once
#include <vector>

#include "base/factorization.hpp"
#include "ir/table.hpp"

namespace weft {

std::vector<Type> infer_factorization(Op op, std::span<const Tensor> operands, const Attributes& attributes, Loc loc);

Factorization factorization_of(Op op, const Attributes& attributes, DType dtype);
// Of the shapes of its operands; `b` is that of the last one.
FactorizationSizes<Dim> factorization_sizes(Op op, const Attributes& attributes, const Shape& a, const Shape& b);

}  // namespace weft
