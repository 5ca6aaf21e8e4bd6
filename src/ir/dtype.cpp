// Rounding, and PyTorch's promotion: dimensioned tensors over 0-d tensors over plain numbers; the higher group keeps
// its dtype unless a lower group has a higher kind (integers with a float).
#include "ir/dtype.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/fail.hpp"

namespace weft {

namespace {
template <class T>
constexpr IntegerRange range_of() {
  if constexpr (std::is_integral_v<T>)
    return {static_cast<std::int64_t>(std::numeric_limits<T>::min()),
            static_cast<std::int64_t>(std::numeric_limits<T>::max())};
  return {INT64_MIN, INT64_MAX};
}
}  // namespace

IntegerRange integer_range(DType dtype) {
  static constexpr IntegerRange table[] = {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) range_of<type>(),
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  };
  return table[static_cast<int>(dtype)];
}

namespace {

DType promote_equals(DType a, DType b) {
  if (a == b) return a;
  if (only_holds(a) || only_holds(b))
    fail("promotion", {}, info(a).name, " does not meet ", info(b).name, ": a float of 8 bits is cast first");
  if (info(a).kind != info(b).kind) return info(a).kind > info(b).kind ? a : b;
  if (is_floating(a) && info(a).bits == 16 && info(b).bits == 16) return DType::f32;
  if (!is_integer(a)) return std::max(a, b);
  // PyTorch's table, which has no u16 and u32 beside other integers; those follow the same rule, which is NumPy's.
  const auto holds = [](DType dtype, DType other) {
    const IntegerRange outer = integer_range(dtype), inner = integer_range(other);
    return outer.least <= inner.least && inner.greatest <= outer.greatest;
  };
  int row = 0;
  for (DType dtype = DType::boolean; !is_integer(dtype) || !holds(dtype, a) || !holds(dtype, b);)
    dtype = static_cast<DType>(++row);
  return static_cast<DType>(row);
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
  if (b.weak && is_floating(higher)) return higher;
  if (only_holds(higher) || only_holds(lower)) return promote_equals(higher, lower);
  if (is_floating(higher)) return higher;
  if (higher == DType::boolean || is_floating(lower)) return promote_equals(higher, lower);
  return higher;
}

double largest_finite(DType dtype) {
  const int bias = (1 << (info(dtype).exponent - 1)) - 1, digits = significand(dtype);
  if (has_infinity(dtype)) return std::ldexp(2 - std::ldexp(1.0, 1 - digits), bias);
  return std::ldexp(2 - std::ldexp(1.0, 2 - digits), bias + 1);  // the greatest exponent has numbers too, but for NaN
}

double round_to(DType dtype, long double value) {
  if (dtype == DType::f64) return static_cast<double>(value);
  if (dtype == DType::f32) return static_cast<float>(value);
  const int digits = significand(dtype), bias = (1 << (info(dtype).exponent - 1)) - 1;
  const int smallest = 2 - bias - digits;  // exponent of the smallest denormal
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double beyond = std::copysign(has_infinity(dtype) ? infinity : std::numeric_limits<double>::quiet_NaN(),
                                      static_cast<double>(value));
  if (std::isinf(value)) return beyond;
  if (!std::isfinite(value) || value == 0) return static_cast<double>(value);
  int unit = std::max(std::ilogb(value) - digits + 1, smallest);
  long double nearest = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(nearest) > largest_finite(dtype)) return beyond;
  return static_cast<double>(nearest);
}

}  // namespace weft
