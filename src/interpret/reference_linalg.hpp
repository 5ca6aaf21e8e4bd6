// What the primitives of kind `factorization` mean, in float64 by textbook loops: Gauss, Householder, Jacobi, and sums
// over all points of a transform. Signs and orders are as weft/ops.def says, and free where it says nothing.
#pragma once
#include "interpret/reference.hpp"

namespace weft::reference {

// Fills the results, which have their sizes.
void factorize(Op op, const Attributes& attributes, std::span<const Literal* const> operands,
               std::vector<Literal>& results);

}  // namespace weft::reference
