// What the files of losses share.
#pragma once
#include "record/record.hpp"
#include "weft/nn/losses.hpp"

namespace weft::nn {

Tensor reduced(const Tensor& losses, Reduction reduction);
// In which dtype a loss is computed: f32, or f64 where an operand is.
DType loss_dtype(std::initializer_list<Tensor> operands);
bool same_shape(const Tensor& a, const Tensor& b);

}  // namespace weft::nn
