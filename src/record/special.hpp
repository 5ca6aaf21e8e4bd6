// What special functions are composed with: polynomials, and composites that are computed in f64 with a derivative of
// their own. In: operands of any dtype; integers become f32. Out: one call, rounded once to the operands' dtype.
#pragma once
#include <limits>
#include <span>

#include "record/composite.hpp"
#include "weft/ops.hpp"

namespace weft {

// The polynomial of these coefficients, by ascending degree, and its derivative.
inline Tensor polynomial(const Tensor& t, std::span<const double> coefficients) {
  std::size_t i = coefficients.size() - 1;
  if (i == 0) return t * 0 + coefficients[0];
  Tensor result = t * coefficients[i] + coefficients[i - 1];
  for (--i; i-- > 0;) result = result * t + coefficients[i];
  return result;
}
inline Tensor polynomial_slope(const Tensor& t, std::span<const double> coefficients) {
  std::size_t i = coefficients.size() - 1;
  Tensor result = t * 0 + coefficients[i] * static_cast<double>(i);
  while (--i > 0) result = result * t + coefficients[i] * static_cast<double>(i);
  return result;
}

inline Tensor in_f64(const Tensor& x) { return cast(x, DType::f64); }

// x * x as a sum of two (Dekker 1971), for |x| < 2^500.
struct Square {
  Tensor high, low;
};
inline Square square_in_two(const Tensor& x) {
  const Tensor shifted = x * 134217729.0, high = shifted - (shifted - x), low = x - high, square = x * x;
  return {square, ((high * high - square) + high * low * 2) + low * low};
}

template <class F>
Tensor special_of_one(const char* name, const At& x, F compute, CallDerivative derivative) {
  Operation call(name, x.loc);
  const auto body = [&](const Tensor& value) {
    const DType dtype = type_of(value).dtype;
    return cast(compute(in_f64(value)), is_floating(dtype) ? dtype : DType::f32);
  };
  return composite_with(derivative, called(name), call.loc(), body, resolve(x, name));
}
template <class F>
Tensor special_of_two(const char* name, const At& a, const At& b, F compute, CallDerivative derivative) {
  Operation call(name, a.loc);
  Tensor values[] = {resolve(a, name), resolve(b, name)};
  unify(name, values, DTypeClass::floating, call.loc());
  const auto body = [&](const Tensor& x, const Tensor& y) {
    return cast(compute(in_f64(x), in_f64(y)), type_of(x).dtype);
  };
  return composite_with(derivative, called(name), call.loc(), body, values[0], values[1]);
}

// The gradient of an operand from the derivative with respect to it, in f64.
inline void put_gradient(const CallValues& call, std::span<Tensor> gradients, std::size_t operand,
                         const Tensor& slope) {
  gradients[operand] = cast(in_f64(call.gradients[0]) * slope, type_of(call.operands[operand]).dtype);
}
// Of a function of one operand, from a function for the derivative.
template <auto slope>
void differentiate_by(const CallValues& call, std::span<Tensor> gradients) {
  put_gradient(call, gradients, 0, slope(in_f64(call.operands[0])));
}

}  // namespace weft
