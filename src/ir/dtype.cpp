// Rounding, and PyTorch's promotion: dimensioned tensors over 0-d tensors over plain numbers; the higher group keeps
// its dtype unless a lower group has a higher kind (integers with a float).
#include "ir/dtype.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

DType promote_equals(DType a, DType b) {
  if (a == b) return a;
  if (info(a).kind != info(b).kind) return info(a).kind > info(b).kind ? a : b;
  if (is_floating(a) && info(a).bits == 16 && info(b).bits == 16) return DType::f32;
  return std::max(a, b);
}

int group(Promotable operand) { return operand.weak ? 0 : operand.scalar ? 1 : 2; }

// A plain floating number counts as the default dtype among tensors.
DType dtype_in_group(Promotable operand) {
  return operand.weak && is_floating(operand.dtype) ? DType::f32 : operand.dtype;
}

}  // namespace

DType promote(Promotable a, Promotable b) {
  if (a.weak && b.weak) return promote_equals(a.dtype, b.dtype);
  if (group(a) == group(b)) return promote_equals(a.dtype, b.dtype);
  if (group(a) < group(b)) std::swap(a, b);
  DType higher = a.dtype, lower = dtype_in_group(b);
  if (is_floating(higher)) return higher;
  if (higher == DType::boolean || is_floating(lower)) return promote_equals(higher, lower);
  return higher;
}

double round_to(DType dtype, long double value) {
  if (dtype == DType::f64) return static_cast<double>(value);
  if (dtype == DType::f32) return static_cast<float>(value);
  int digits = dtype == DType::f16 ? 11 : 8;
  int smallest = dtype == DType::f16 ? -24 : -133;  // exponent of the smallest denormal
  long double largest = dtype == DType::f16 ? 65504.0L : 0x1.FEp127L;
  if (!std::isfinite(value) || value == 0) return static_cast<double>(value);
  int unit = std::max(std::ilogb(value) - digits + 1, smallest);
  long double nearest = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(nearest) > largest)
    return std::copysign(std::numeric_limits<double>::infinity(), static_cast<double>(value));
  return static_cast<double>(nearest);
}

}  // namespace weft
