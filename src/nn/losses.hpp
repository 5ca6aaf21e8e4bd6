// What the files of losses share.
#pragma once
#include <span>

#include "record/record.hpp"
#include "weft/nn/losses.hpp"

namespace weft::nn {

Tensor reduced(const Tensor& losses, Reduction reduction);
// The dtype that the operands promote to, f32 where that is an integer; and in which one a loss is computed.
DType result_dtype(std::span<const Tensor> operands);
DType loss_dtype(std::span<const Tensor> operands);
bool same_shape(const Tensor& a, const Tensor& b);

}  // namespace weft::nn
