// Functions of samples: differences, integrals, how variables vary together, and places in sorted rows.
#include <cmath>

#include "base/fail.hpp"
#include "ir/dtype.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "record/moments.hpp"

namespace weft {
namespace {

Tensor without_first(const Tensor& x, int axis) { return slice(x, axis, 1); }
Tensor without_last(const Tensor& x, int axis) { return slice(x, axis, 0, -1); }

// NaN is the greatest.
Tensor less_of(const Tensor& a, const Tensor& b) {
  const auto nans = [](const Tensor& x) { return is_floating(type_of(x).dtype) ? isnan(x) : x != x; };
  return (a < b) | (nans(b) & ~nans(a));
}

// How many elements of each row stand before the value, found bit by bit from the highest one.
Tensor count_before(const Tensor& rows, const Tensor& values, bool right, Loc loc) {
  const Shape& from = type_of(rows).shape;
  const int last = from.rank() - 1;
  const Dim size = from[last];
  const Type type{DType::i64, false, type_of(values).device, type_of(values).shape};
  const Tensor flat = flatten(rows), all = dim_value(size, loc);
  Tensor count = constant_like(0, type, loc);
  if (size == Dim(0)) return count;
  std::int64_t bit = std::int64_t{1} << 40;  // of a symbolic size
  while (size.is_constant() && bit > size.constant()) bit /= 2;
  for (; bit > 0; bit /= 2) {
    const Tensor next = count + bit, place = minimum(next, all) - 1;
    const Tensor position = last == 0 ? place : flat_positions(place, from, last, loc);
    const Tensor element = record(Op::gather, {flat, position}, {}, {}, loc);
    const Tensor before = right ? ~less_of(values, element) : less_of(element, values);
    count = where((next <= all) & before, next, count);
  }
  return count;
}

}  // namespace

Tensor diff(At x, int n, int axis) {
  LooseComposite call("diff", x.loc);
  Tensor value = resolve(x, "diff");
  const int normal = normalize_axis("diff", axis, type_of(value).shape.rank(), call.loc());
  if (n < 0) fail("diff", call.loc(), n, " times");
  for (int i = 0; i < n; ++i) {
    const Tensor next = without_first(value, normal), before = without_last(value, normal);
    value = type_of(value).dtype == DType::boolean ? next != before : next - before;
  }
  return value;
}

Tensor trapezoid(At y, double dx, int axis) {
  LooseComposite call("trapezoid", y.loc);
  const Tensor value = resolve(y, "trapezoid");
  const int normal = normalize_axis("trapezoid", axis, type_of(value).shape.rank(), call.loc());
  const auto areas = [&](const Tensor& y) {
    return sum(without_first(y, normal) + without_last(y, normal), normal) * (dx / 2);
  };
  return is_floating(type_of(value).dtype) ? in_wide(value, areas) : areas(value);
}

Tensor cov(At x, double correction) {
  LooseComposite call("cov", x.loc);
  if (!std::isfinite(correction)) fail("cov", call.loc(), "the correction must be finite, it is ", correction);
  const Tensor given = resolve(x, "cov");
  const int rank = type_of(given).shape.rank();
  if (rank > 2) fail("cov", call.loc(), "of ", to_string(type_of(given)), ": variables in rows, a matrix at most");
  if (!is_floating(type_of(given).dtype))
    fail("cov", call.loc(), "needs a floating dtype, it is ", to_string(type_of(given)), ": cast it first");
  const Tensor rows = rank == 2 ? given : reshape(given, {1, -1});
  const Dim size = type_of(rows).shape[1];
  const Tensor result = in_wide(rows, [&](const Tensor& wide) {
    const Tensor centered = wide - mean_of_large(wide, -1, true, size, call.loc());
    return matmul(centered, transpose(centered)) / maximum(dim_value(size, call.loc()) - correction, 0.0);
  });
  return rank == 2 ? result : reshape_to(result, {}, call.loc());
}
Tensor corrcoef(At x) {
  LooseComposite call("corrcoef", x.loc);
  const auto correlation = [](const Tensor& wide) {
    const Tensor together = cov(wide);
    if (type_of(together).shape.rank() == 0) return together / together;
    const Tensor deviation = sqrt(diagonal(together));
    return clamp(together / unsqueeze(deviation, 1) / deviation, -1, 1);
  };
  const Tensor given = resolve(x, "corrcoef");
  return is_floating(type_of(given).dtype) ? in_wide(given, correlation) : correlation(given);
}

Tensor searchsorted(At sorted, At values, bool right) {
  Operation call("searchsorted", sorted.loc);
  const Tensor rows = resolve(sorted, "searchsorted"), wanted = resolve(values, "searchsorted");
  const Shape &from = type_of(rows).shape, &shape = type_of(wanted).shape;
  bool fits = from.rank() > 0 && (from.rank() == 1 || from.rank() == shape.rank());
  for (int i = 0; fits && i + 1 < from.rank(); ++i) fits = from[i] == shape[i];
  if (!fits)
    fail("searchsorted", call.loc(), "the rows are ", to_string(type_of(rows)), ", the values ",
         to_string(type_of(wanted)), ": one sorted vector, or the same sizes before the last axis");
  return composite(
      ChoiceCall{called("searchsorted"), right}, call.loc(),
      [&](const Tensor& rows, const Tensor& wanted) { return count_before(rows, wanted, right, call.loc()); }, rows,
      wanted);
}
Tensor bucketize(At x, At boundaries, bool right) {
  Operation call("bucketize", x.loc);
  const Tensor edges = resolve(boundaries, "bucketize");
  if (type_of(edges).shape.rank() != 1)
    fail("bucketize", call.loc(), "the boundaries must be a vector, they are ", to_string(type_of(edges)));
  return searchsorted(edges, resolve(x, "bucketize"), right);
}

}  // namespace weft
