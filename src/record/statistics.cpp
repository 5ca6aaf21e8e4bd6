// Functions of samples: how variables vary together, places in sorted rows, and what is counted by them.
#include <cmath>

#include "base/fail.hpp"
#include "ir/dtype.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "record/moments.hpp"
#include "weft/statistics.hpp"

namespace weft {
namespace {

// NaN is the greatest.
Tensor less_of(const Tensor& a, const Tensor& b) {
  const auto nans = [](const Tensor& x) { return is_floating(type_of(x).dtype) ? isnan(x) : x != x; };
  return (a < b) | (nans(b) & ~nans(a));
}

// How many elements of each row come before the value, found bit by bit from the highest one.
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

// The tests are sorted, and each element is compared with the one test that may be equal to it.
Tensor isin(At elements, At test_elements, bool invert) {
  LooseComposite call("isin", elements.loc);
  const auto numbers = [](const At& given) {
    const Tensor value = resolve(given, "isin");
    return type_of(value).dtype == DType::boolean ? cast(value, DType::u8) : value;
  };
  const Tensor wanted = numbers(elements), tests = flatten(numbers(test_elements));
  const Dim count = type_of(tests).shape[0];
  const Type flags{DType::boolean, false, type_of(wanted).device, type_of(wanted).shape};
  if (count == Dim(0)) return constant_like(invert, flags, call.loc());
  const Tensor sorted = sort(tests, 0).values;
  const Tensor place = minimum(searchsorted(sorted, wanted), dim_value(count - Dim(1), call.loc()));
  const Tensor nearest = record(Op::gather, {sorted, place}, {}, {}, call.loc());
  return invert ? nearest != wanted : nearest == wanted;
}

namespace {

// In the dtype of the elements, as are the sums of weights; numbers of elements are i64 until then.
Histogram count_between(const Tensor& value, const Tensor& edges, const HistogramOptions& options, Loc loc) {
  const Type type = type_of(value);
  const Dim bins = type_of(edges).shape[0] - Dim(1);
  const Tensor wide = cast(value, computed_in(type.dtype)), bounds = cast(edges, computed_in(type.dtype));
  const Tensor low = slice(bounds, 0, 0, 1), high = slice(bounds, 0, -1);
  const Tensor inside = (wide >= low) & (wide <= high);
  const Tensor place = minimum(count_before(bounds, wide, true, loc) - 1, dim_value(bins - Dim(1), loc));
  const Tensor bin = where(inside, place, 0);
  Type counts{DType::i64, false, type.device, Shape::of(bins)};
  Tensor sums = cast(inside, DType::i64);
  if (options.weight.defined()) {
    const Tensor weight = resolve(At(options.weight, loc), "histogram");
    if (type_of(weight).dtype != type.dtype || !(type_of(weight).shape.element_count() == type.shape[0]))
      fail("histogram", loc, "needs a weight for each element, of its dtype: ", to_string(type_of(weight)), " for ",
           to_string(type));
    counts.dtype = computed_in(type.dtype);
    sums = where(inside, cast(flatten(weight), counts.dtype), 0);
  }
  Tensor result = cast(record(Op::scatter_add, {bin, sums}, {}, counts, loc), computed_in(type.dtype));
  if (options.density) result = result / (slice(bounds, 0, 1) - slice(bounds, 0, 0, -1)) / sum(result);
  return {cast(result, type.dtype), edges};
}

Tensor floating_vector(const At& x, Loc loc) {
  const Tensor value = flatten(resolve(x, "histogram"));
  if (!is_floating(type_of(value).dtype))
    fail("histogram", loc, "needs a floating dtype, it is ", to_string(type_of(value)));
  return value;
}
void check_bins(std::int64_t bins, Loc loc) {
  if (bins < 1) fail("histogram", loc, "the number of bins is ", bins);
  check_extent("histogram", "the number of bins", bins, loc);
}

}  // namespace

Histogram histogram(At x, std::int64_t bins, const HistogramOptions& options) {
  LooseComposite call("histogram", x.loc);
  const Tensor value = floating_vector(x, call.loc());
  check_bins(bins, call.loc());
  if (type_of(value).shape[0] == Dim(0)) return histogram(value, bins, 0, 1, options);
  const DType dtype = type_of(value).dtype;
  const Tensor still = stop_gradient(value), least = amin(still), greatest = amax(still), equal = least == greatest;
  require(isfinite(least) & isfinite(greatest), "histogram", call.loc(),
          "needs finite elements where no bounds are given: " + to_string(type_of(value)));
  const Tensor low = cast(where(equal, least - 0.5, least), DType::f64),
               high = cast(where(equal, greatest + 0.5, greatest), DType::f64);
  const Tensor place = arange(bins + 1, {DType::i64, type_of(value).device}), share = cast(place, DType::f64) / bins;
  const Tensor between = low * (1 - share) + high * share;
  return count_between(value, cast(where(place == bins, high, between), dtype), options, call.loc());
}
Histogram histogram(At x, std::int64_t bins, double low, double high, const HistogramOptions& options) {
  LooseComposite call("histogram", x.loc);
  const Tensor value = floating_vector(x, call.loc());
  check_bins(bins, call.loc());
  if (std::isfinite(low) && std::isfinite(high) && std::isinf(high - low))
    fail("histogram", call.loc(), "the range from ", low, " to ", high, " is wider than a double holds");
  if (!(low <= high) || !std::isfinite(high - low))
    fail("histogram", call.loc(), "the range must be finite and ascending, it is from ", low, " to ", high);
  if (low == high) low -= 0.5, high += 0.5;
  const Type& type = type_of(value);
  return count_between(value, linspace(low, high, bins + 1, {type.dtype, type.device}), options, call.loc());
}
Histogram histogram(At x, const Tensor& edges, const HistogramOptions& options) {
  LooseComposite call("histogram", x.loc);
  const Tensor value = floating_vector(x, call.loc());
  const Tensor bounds = resolve(At(edges, call.loc()), "histogram");
  const Type& type = type_of(bounds);
  if (type.shape.rank() != 1 || type.shape[0] < Dim(2) || type.dtype != type_of(value).dtype)
    fail("histogram", call.loc(), "the edges must be a vector of two at least, of the dtype of x: ", to_string(type),
         " for ", to_string(type_of(value)));
  return count_between(value, bounds, options, call.loc());
}

}  // namespace weft
