// What the oracle's views, reductions and products share: axes, strides, indices, and sums.
#pragma once
#include <cmath>

#include "oracle/semantics.hpp"

namespace oracle {

using Source = std::shared_ptr<const std::vector<std::int64_t>>;

inline int axis_of(const char* name, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw Refused(name);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
inline Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}
// Calls visit(position, indices) for every element in row-major order.
template <class Visit>
void each(const Shape& shape, Visit visit) {
  Shape at(shape.size());
  const std::int64_t count = count_of(shape);
  for (std::int64_t position = 0; position < count; ++position) {
    visit(static_cast<std::size_t>(position), at);
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
}
// A sum in an accumulator of at least f32: any order of additions is allowed.
struct Sum {
  Wide total = 0, magnitude = 0;  // magnitude: of the finite terms
  std::int64_t terms = 0;
  void add(Wide term) {
    total += term;
    if (std::isfinite(term)) magnitude += std::fabs(term);
    ++terms;
  }
  double round(DType dtype) const {
    const DType inner = dtype == DType::f64 ? DType::f64 : DType::f32;
    if (magnitude >= static_cast<Wide>(largest(inner))) return undecided(round_to(dtype, total));
    if (terms <= 1) return open_zero(finish(dtype, total, false));
    const Wide error = std::ldexp(magnitude, -precision(inner)) * (2 + std::sqrt(static_cast<Wide>(terms)));
    return open_zero(finish(dtype, total, true, error + static_cast<Wide>(spacing(inner, 0))));
  }
};
inline std::int64_t position(const Shape& indices, const Shape& strides) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) at += indices[i] * strides[i];
  return at;
}
inline Array lit(double value) { return number(DType::f64, value, true); }
// result[i] = x[source[i]], or 0 where that is negative.
Array take(const Array& x, Shape shape, const Source& source);

}  // namespace oracle
