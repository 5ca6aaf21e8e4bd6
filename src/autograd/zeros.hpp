// The derivative of what does not depend, as a value.
#pragma once
#include "record/record.hpp"

namespace weft {

// Zeros of this type, which take no dtype from what they meet: gradients and tangents are not weak.
inline Tensor zeros_of(Type type, Loc loc) {
  type.weak = false;
  return constant_like(0, type, loc);
}
inline Tensor zeros_of(const Tensor& like, Loc loc) { return zeros_of(type_of(like), loc); }

}  // namespace weft
