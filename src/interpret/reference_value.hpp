// The elements of a Literal, one by one, and their indices.
#pragma once
#include <array>

#include "base/host_memory.hpp"
#include "interpret/reference.hpp"
#include "interpret/reference_number.hpp"

namespace weft::reference {

using Indices = std::array<std::int64_t, max_rank>;

struct Sizes {
  Indices size = {};
  int rank = 0;
  std::int64_t count() const {
    std::int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= size[i];
    return count;
  }
  std::int64_t position(const Indices& index) const {
    std::int64_t position = 0;
    for (int i = 0; i < rank; ++i) position = position * size[i] + index[i];
    return position;
  }
  // Calls f(index, position) for every element in row-major order.
  template <class Function>
  void each(Function f) const {
    Indices index = {};
    for (std::int64_t i = 0, n = count(); i < n; ++i) {
      f(static_cast<const Indices&>(index), i);
      for (int axis = rank - 1; axis >= 0 && ++index[axis] == size[axis]; --axis) index[axis] = 0;
    }
  }
};

inline Sizes sizes_of(const Type& type) {
  Sizes sizes;
  sizes.rank = type.shape.rank();
  for (int i = 0; i < sizes.rank; ++i) sizes.size[i] = type.shape[i].constant();
  return sizes;
}

inline Literal make_literal(const Type& type) {
  Literal literal{type};
  auto count = static_cast<std::size_t>(sizes_of(type).count());
  require_host_memory(count * 8);
  if (is_floating(type.dtype))
    literal.reals.resize(count);
  else
    literal.integers.resize(count);
  return literal;
}
inline Number get(const Literal& value, std::int64_t i) {
  auto at = static_cast<std::size_t>(i);
  return is_floating(value.type.dtype) ? Number{value.reals[at], 0} : Number{0, value.integers[at]};
}
inline void set(Literal& value, std::int64_t i, Number x) {
  auto at = static_cast<std::size_t>(i);
  if (is_floating(value.type.dtype))
    value.reals[at] = round_to(value.type.dtype, x.real);
  else
    value.integers[at] = wrap(value.type.dtype, x.integer);
}

using Operands = std::span<const Literal* const>;

}  // namespace weft::reference
