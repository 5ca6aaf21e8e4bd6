// Convolutions in terms of other primitives, for where nobody does one whole. In: the operands of a convolution or of
// one of its gradients. Out: the same value from padding, windows (a view) and a matrix product; where a group has one
// input channel, from products of elements and a sum. An input gradient is a convolution of the stretched gradient.
#pragma once
#include "ir/builder.hpp"

namespace weft {

// The value of `node`, one of the three primitives, of operands of its types. 16-bit floats are summed in f32 only as
// far as the products do so themselves: cast the operands where they do not.
Tensor convolution_by_products(const Node& node, const Tensor& a, const Tensor& b);

}  // namespace weft
