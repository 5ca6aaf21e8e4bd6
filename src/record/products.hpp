// Products that a composite goes on with, before they are rounded to a 16-bit dtype. In: operands of public functions.
// Out: nodes whose dtype is the one in which sums are accumulated, and a layer's product with its bias, rounded once.
#pragma once
#include "record/record.hpp"

namespace weft {

// The dtype of sums of products that are not rounded yet: f32 of f16 and bf16, and else the dtype itself.
DType dtype_of_sums(DType operands);

// As matmul, in dtype_of_sums.
Tensor accumulated_matmul(const Tensor& a, const Tensor& b, Loc loc);

// x [rows, in] times weight [out, in], transposed, + bias [out], which may be undefined: rounded once to the dtype to
// which the three promote. Of one 16-bit dtype a call of `linear`, which a library with a bias in its epilogue takes
// whole.
Tensor linear_product(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc);

}  // namespace weft
