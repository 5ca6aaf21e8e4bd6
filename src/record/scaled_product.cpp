// Products of matrices of 8-bit floats with scales. A composite, whose name says the result's dtype; its second operand
// is b as [n, k], as the libraries that take it whole want it. Numbers of 8 bits are numbers of bf16 too: the body is a
// product of bf16, whose sums are f32, exact but for the order in which they are added up.
#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/products.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

constexpr const char* operation = "scaled_matmul";

void refuse_derivative(const CallValues&, std::span<Tensor>) {
  fail(operation, recorder().loc,
       "scaled_matmul has no derivative: give it one by custom_vjp, or stop_gradient its operands");
}

const char* name_for(DType dtype, Loc loc) {
  switch (dtype) {
    case DType::f16: return "scaled_matmul_f16";
    case DType::bf16: return "scaled_matmul_bf16";
    case DType::f32: return "scaled_matmul_f32";
    default: fail(operation, loc, "gives f16, bf16 or f32, it is asked for ", info(dtype).name);
  }
}

bool is_one(const Shape& shape) {
  for (const Dim size : shape)
    if (!(size == Dim(1))) return false;
  return true;
}

}  // namespace

Tensor scaled_matmul(At left, At right, At left_scale, At right_scale, const ScaledMatmulOptions& options) {
  Operation call(operation, left.loc);
  const Loc loc = call.loc();
  const Tensor a = resolve(left, operation), b = resolve(right, operation);
  Tensor a_scale = resolve(left_scale, operation), b_scale = resolve(right_scale, operation);
  const char* const name = name_for(options.dtype, loc);
  const Type &ta = type_of(a), &tb = type_of(b);
  if (!only_holds(ta.dtype) || !only_holds(tb.dtype))
    fail(operation, loc, "multiplies f8e4m3 and f8e5m2, other dtypes by matmul: ", to_string(ta), " x ", to_string(tb));
  if (ta.shape.rank() != 2 || tb.shape.rank() != 2)
    fail(operation, loc, "multiplies two matrices: ", to_string(ta), " x ", to_string(tb));
  if (!(ta.shape[1] == tb.shape[0])) fail(operation, loc, "inner sizes differ: ", to_string(ta), " x ", to_string(tb));
  const Dim m = ta.shape[0], n = tb.shape[1];
  const auto as_f32 = [&](Tensor& scale) {
    if (type_of(scale).weak) scale = cast(scale, DType::f32);
    if (type_of(scale).dtype != DType::f32) fail(operation, loc, "scales are f32: ", to_string(type_of(scale)));
  };
  as_f32(a_scale), as_f32(b_scale);
  const Shape &sa = type_of(a_scale).shape, &sb = type_of(b_scale).shape;
  if (is_one(sa) && is_one(sb)) {
    a_scale = reshape_to(a_scale, {}, loc);
    b_scale = reshape_to(b_scale, {}, loc);
  } else if (!(sa == Shape::of(m, 1)) || !(sb == Shape::of(1, n))) {
    fail(operation, loc, "scales are one number each, or [m,1] and [1,n]: ", to_string(type_of(a_scale)), " and ",
         to_string(type_of(b_scale)), " for ", to_string(ta), " x ", to_string(tb));
  }
  const auto scaled = [&](const Tensor& a, const Tensor& b, const Tensor& a_scale, const Tensor& b_scale) {
    const Tensor sums = accumulated_matmul(cast(a, DType::bf16), transpose(cast(b, DType::bf16)), loc);
    return sums * a_scale * b_scale;
  };
  const auto wanted = options.dtype;
  if (!options.bias.defined()) {
    const auto record = [&](const Tensor& a, const Tensor& b, const Tensor& a_scale, const Tensor& b_scale) {
      return cast(scaled(a, b, a_scale, b_scale), wanted);
    };
    return composite_with(refuse_derivative, called(name), loc, record, a, transpose(b), a_scale, b_scale);
  }
  const Tensor bias = resolve(At(options.bias, loc), operation);
  if (!is_floating(type_of(bias).dtype) || only_holds(type_of(bias).dtype) || !(type_of(bias).shape == Shape::of(n)))
    fail(operation, loc, "the bias is floats [n]: ", to_string(type_of(bias)), " for ", to_string(ta), " x ",
         to_string(tb));
  const auto record = [&](const Tensor& a, const Tensor& b, const Tensor& a_scale, const Tensor& b_scale,
                          const Tensor& bias) {
    return cast(scaled(a, b, a_scale, b_scale) + cast(bias, DType::f32), wanted);
  };
  return composite_with(refuse_derivative, called(name), loc, record, a, transpose(b), a_scale, b_scale, bias);
}

}  // namespace weft
