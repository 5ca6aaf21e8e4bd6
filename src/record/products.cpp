#include "record/products.hpp"

#include "record/composite.hpp"

namespace weft {

DType dtype_of_sums(DType operands) { return is_floating(operands) ? accumulated_in(operands) : operands; }

namespace {

Tensor promoted(const Tensor& value, const Tensor& other) {
  const Type &a = type_of(value), &b = type_of(other);
  return cast(value, promote({a.dtype, false, a.weak}, {b.dtype, false, b.weak}));
}

// Products of what the operands are, not of what the body widens them to.
void differentiate_linear(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &x = call.operands[0], &weight = call.operands[1], &bias = call.operands[2];
  const Tensor gradient = cast(call.gradients[0], type_of(x).dtype);
  gradients[0] = matmul(gradient, weight);
  gradients[1] = matmul(transpose(gradient), x);
  gradients[2] = cast(sum(call.gradients[0], 0), type_of(bias).dtype);
}

}  // namespace

Tensor linear_product(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc) {
  if (!bias.defined()) return matmul(x, transpose(weight));
  const Tensor a = promoted(x, weight), b = promoted(weight, x);
  const DType dtype = type_of(a).dtype, wide = dtype_of_sums(dtype);
  if (dtype == wide) return matmul(a, transpose(b)) + bias;
  const Type &type = type_of(bias), &rows = type_of(weight);
  const DType result = promote({dtype, false, false}, {type.dtype, false, type.weak});
  const auto record = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor product = accumulated_matmul(x, transpose(weight), loc);
    return cast(product + bias, result);
  };
  const bool is_layer = type.shape.rank() == 1 && type.shape[0] == rows.shape[0];
  if (!is_layer) return record(a, b, bias);  // a bias that broadcasts
  return composite_with(differentiate_linear, called("linear"), loc, record, a, b, bias);
}

}  // namespace weft
