// PyTorch's promotion: dimensioned tensors over 0-d tensors over plain numbers; the higher group keeps its dtype unless
// a lower group has a higher kind (integers with a float).
#include "weft/dtype.hpp"

#include <algorithm>

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

}  // namespace weft
