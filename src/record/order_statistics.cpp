// What is sorted: the order of an axis, and what it tells: the elements at some places of it, the most frequent one,
// medians and quantiles, also of what is no NaN. Positions first, then the elements there, so that gradients go to
// these.
#include <cmath>
#include <limits>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/statistics.hpp"

namespace weft {
namespace {

// What `compute` gives of a 0-d tensor, which it takes as a row of one.
template <class Compute>
ValuesAndIndices of_row(const Tensor& value, Loc loc, Compute compute) {
  const auto [values, indices] = compute(unsqueeze(value, 0));
  return {reshape_to(values, {}, loc), reshape_to(indices, {}, loc)};
}
// An axis that exists, of a tensor that has one.
int order_axis(const char* name, const Tensor& value, int axis, Loc loc) {
  return normalize_axis(name, axis, type_of(value).shape.rank(), loc);
}
Tensor order_of(const Tensor& value, int axis, Order order, Loc loc) {
  const DType dtype = type_of(value).dtype;
  const Tensor sorted = cast(movedim(value, axis, -1), dtype == DType::boolean ? DType::u8 : computed_in(dtype));
  return movedim(record(Op::argsort, {sorted}, order, {}, loc), -1, axis);
}
// `count` places of the order from `first` on, which lie in it. Few are selected, many are sorted with the rest.
Tensor part_of_order(const Tensor& value, int axis, bool descending, Dim first, Dim count, Loc loc) {
  const Dim size = type_of(value).shape[axis];
  const bool few = count.is_constant() && count.constant() > 0 &&
                   count.constant() <= (size.is_constant() ? std::max<std::int64_t>(16, size.constant() / 16) : 64);
  if (few && !count.same(size)) return order_of(value, axis, {descending, first, count}, loc);
  return narrow(order_of(value, axis, {descending}, loc), axis, first, count);
}
// What lies at one place of `picks`.
ValuesAndIndices at_position(const Tensor& value, const Tensor& order, int axis, Dim position, bool keepdim) {
  const Tensor picks = narrow(order, axis, position, 1), values = gather(value, axis, picks);
  if (keepdim) return {values, picks};
  return {squeeze(values, axis), squeeze(picks, axis)};
}
// What has a NaN in it is NaN.
Tensor or_nan(const Tensor& values, const Tensor& of, int axis, bool keepdim) {
  if (!is_floating(type_of(of).dtype)) return values;
  return where(any(isnan(of), axis, keepdim), std::numeric_limits<double>::quiet_NaN(), values);
}

// The axis, of a tensor that has elements along it.
int filled_axis(const char* name, const Tensor& value, int axis, Loc loc) {
  const int normal = normalize_axis(name, axis, type_of(value).shape.rank(), loc);
  if (type_of(value).shape[normal] == Dim(0)) fail(name, loc, "of no elements: ", to_string(type_of(value)));
  return normal;
}

Tensor along(int axis, const Tensor& value, Loc loc) {
  return positions(axis, type_of(value).shape, type_of(value).device, loc);
}

Tensor at_place(const Tensor& value, int axis, const Tensor& place, Loc loc) {
  return record(Op::gather, {flatten(value), flat_positions(place, type_of(value).shape, axis, loc)}, {}, {}, loc);
}
// What lies at `place` of the order, one for each row. It is in range, which is not checked again.
ValuesAndIndices picked(const Tensor& value, const Tensor& order, int axis, const Tensor& place, bool keepdim,
                        Loc loc) {
  const Tensor picks = at_place(order, axis, place, loc), values = at_place(value, axis, picks, loc);
  if (keepdim) return {values, picks};
  return {squeeze(values, axis), squeeze(picks, axis)};
}

// How many elements of each row are no NaN, i64, less one; those come first in the order. 0 where there are none.
Tensor last_number(const Tensor& value, int axis, Loc loc) {
  return maximum(sum(cast(~isnan(At(value, loc)), DType::i64), axis, true) - 1, 0);
}

}  // namespace

Tensor argsort(At x, int axis, bool descending) {
  LooseComposite call("argsort", x.loc);
  const Tensor value = resolve(x, "argsort");
  if (type_of(value).shape.rank() == 0)
    return reshape_to(argsort(unsqueeze(value, 0), axis, descending), {}, call.loc());
  return order_of(value, order_axis("argsort", value, axis, call.loc()), {descending}, call.loc());
}

ValuesAndIndices sort(At x, int axis, bool descending) {
  LooseComposite call("sort", x.loc);
  const Tensor value = resolve(x, "sort");
  if (type_of(value).shape.rank() == 0)
    return of_row(value, call.loc(), [&](const Tensor& row) { return sort(row, axis, descending); });
  const int normal = order_axis("sort", value, axis, call.loc());
  const Tensor order = order_of(value, normal, {descending}, call.loc());
  return {gather(value, normal, order), order};
}

ValuesAndIndices topk(At x, Dim count, int axis, bool largest) {
  LooseComposite call("topk", x.loc);
  const Tensor value = resolve(x, "topk");
  if (type_of(value).shape.rank() == 0 && count == Dim(1))
    return of_row(value, call.loc(), [&](const Tensor& row) { return topk(row, 1, axis, largest); });
  const int normal = order_axis("topk", value, axis, call.loc());
  if (count < Dim(0) || count > type_of(value).shape[normal])
    fail("topk", call.loc(), dims::to_string(count), " elements of axis ", axis, " of ", to_string(type_of(value)));
  const Tensor order = part_of_order(value, normal, largest, 0, count, call.loc());
  return {gather(value, normal, order), order};
}

ValuesAndIndices kthvalue(At x, std::int64_t k, int axis, bool keepdim) {
  LooseComposite call("kthvalue", x.loc);
  const Tensor value = resolve(x, "kthvalue");
  if (type_of(value).shape.rank() == 0)
    return of_row(value, call.loc(), [&](const Tensor& row) { return kthvalue(row, k, axis); });
  const int normal = order_axis("kthvalue", value, axis, call.loc());
  if (k < 1 || Dim(k) > type_of(value).shape[normal])
    fail("kthvalue", call.loc(), "element ", k, ", from 1, of axis ", axis, " of ", to_string(type_of(value)));
  return at_position(value, part_of_order(value, normal, false, k - 1, 1, call.loc()), normal, 0, keepdim);
}

ValuesAndIndices median(At x, int axis, bool keepdim) {
  LooseComposite call("median", x.loc);
  const Tensor value = resolve(x, "median");
  if (type_of(value).shape.rank() == 0)
    return of_row(value, call.loc(), [&](const Tensor& row) { return median(row, axis); });
  const int normal = order_axis("median", value, axis, call.loc());
  const Dim size = type_of(value).shape[normal];
  if (size == Dim(0)) fail("median", call.loc(), "of no elements: ", to_string(type_of(value)));
  const Tensor middle = part_of_order(value, normal, false, (size - Dim(1)) / Dim(2), 1, call.loc());
  auto [values, indices] = at_position(value, middle, normal, 0, keepdim);
  if (!is_floating(type_of(value).dtype)) return {values, indices};
  // A NaN is the result where there is one, with its place.
  const Tensor nans = isnan(value), first = argmax(cast(nans, DType::u8), normal, keepdim);
  return {or_nan(values, value, normal, keepdim), where(any(nans, normal, keepdim), first, indices)};
}
Tensor median(At x) {
  LooseComposite call("median", x.loc);
  const Tensor value = resolve(x, "median");
  return median(flatten(value), 0).values;
}

// In sorted rows equal elements are runs. The longest of them, the first of several, ends where the number of elements
// since the start of the run is greatest.
ValuesAndIndices mode(At x, int axis, bool keepdim) {
  LooseComposite call("mode", x.loc);
  const Tensor value = resolve(x, "mode");
  if (type_of(value).shape.rank() == 0)
    return of_row(value, call.loc(), [&](const Tensor& row) { return mode(row, axis); });
  const int normal = filled_axis("mode", value, axis, call.loc());
  const Tensor order = argsort(value, normal), sorted = at_place(value, normal, order, call.loc());
  const Tensor differs = cast(slice(sorted, normal, 1) != slice(sorted, normal, 0, -1), DType::i64);
  const Tensor place = along(normal, sorted, call.loc()), starts = pad(differs, normal, 1, 0) * place;
  const Tensor length = place - cummax(starts, normal).values;
  return picked(value, order, normal, argmax(length, normal, true), keepdim, call.loc());
}

ValuesAndIndices nanmedian(At x, int axis, bool keepdim) {
  LooseComposite call("nanmedian", x.loc);
  const Tensor value = resolve(x, "nanmedian");
  if (!is_floating(type_of(value).dtype)) return median(value, axis, keepdim);
  if (type_of(value).shape.rank() == 0)
    return of_row(value, call.loc(), [&](const Tensor& row) { return nanmedian(row, axis); });
  const int normal = filled_axis("nanmedian", value, axis, call.loc());
  const Tensor middle = floor_divide(last_number(value, normal, call.loc()), 2);
  return picked(value, argsort(value, normal), normal, middle, keepdim, call.loc());
}
Tensor nanmedian(At x) {
  LooseComposite call("nanmedian", x.loc);
  return nanmedian(flatten(resolve(x, "nanmedian")), 0).values;
}

// ---- quantiles ------------------------------------------------------------------------------------------------------

namespace {

void check_fractions(const char* name, std::span<const double> qs, Loc loc) {
  if (qs.empty()) fail(name, loc, "of no q");
  for (const double q : qs)
    if (!(q >= 0 && q <= 1)) fail(name, loc, "q is ", q, ", which is not in 0 to 1");
}

// One result for each q; an axis of no elements is refused.
std::vector<Tensor> quantiles(const Tensor& value, std::span<const double> qs, int axis, bool keepdim, Loc loc) {
  const Type& type = type_of(value);
  const int normal = order_axis("quantile", value, axis, loc);
  if (!is_floating(type.dtype)) fail("quantile", loc, "needs a floating dtype, it is ", to_string(type));
  check_fractions("quantile", qs, loc);
  const Dim size = type.shape[normal];
  if (size == Dim(0)) fail("quantile", loc, "of no elements: ", to_string(type));
  const auto place_of = [last = static_cast<double>(static_cast<std::int64_t>(size) - 1)](double q) {
    return q * last;
  };
  const auto [least, greatest] = std::ranges::minmax(qs);
  const auto begin = static_cast<std::int64_t>(std::floor(place_of(least))),
             end = static_cast<std::int64_t>(std::ceil(place_of(greatest))) + 1;
  const Tensor order = part_of_order(value, normal, false, begin, end - begin, loc);
  std::vector<Tensor> results;
  for (const double q : qs) {
    const double place = place_of(q), low = std::floor(place);
    const auto at = [&](std::int64_t position) {
      const Tensor element = at_position(value, order, normal, position - begin, keepdim).values;
      return cast(element, computed_in(type.dtype));
    };
    const auto first = static_cast<std::int64_t>(low);
    const Tensor from = at(first), between = place == low ? from : from + (at(first + 1) - from) * (place - low);
    results.push_back(or_nan(cast(between, type.dtype), value, normal, keepdim));
  }
  return results;
}

// One result for each q.
std::vector<Tensor> nanquantiles(const Tensor& value, std::span<const double> qs, int axis, bool keepdim, Loc loc) {
  const DType dtype = type_of(value).dtype, wide = computed_in(dtype);
  if (!is_floating(dtype)) fail("nanquantile", loc, "needs a floating dtype, it is ", to_string(type_of(value)));
  check_fractions("nanquantile", qs, loc);
  const int normal = filled_axis("nanquantile", value, axis, loc);
  const Tensor last = cast(last_number(value, normal, loc), DType::f64), order = argsort(value, normal);
  const auto at = [&](const Tensor& position) {
    return cast(picked(value, order, normal, cast(position, DType::i64), true, loc).values, wide);
  };
  std::vector<Tensor> results;
  for (const double q : qs) {
    const Tensor place = last * q, low = floor(place);
    // Where the place is that of an element, it is the result: the difference to the next one may be infinite.
    const Tensor from = at(low), way = cast(place - low, wide);
    const Tensor between = where(way == 0, from, from + (at(ceil(place)) - from) * way);
    const Tensor result = cast(between, dtype);
    results.push_back(keepdim ? result : squeeze(result, normal));
  }
  return results;
}

// What the public functions of one kind of quantile do, along an axis and of all elements, for one q and for several.
struct Quantiles {
  const char* name;
  // One result for each q.
  std::vector<Tensor> (*compute)(const Tensor& value, std::span<const double> qs, int axis, bool keepdim, Loc loc);

  Tensor one(const At& x, double q, int axis, bool keepdim) const {
    LooseComposite call(name, x.loc);
    const Tensor value = resolve(x, name);
    const auto along = [&](const Tensor& of, bool keeps) {
      return compute(of, std::span(&q, 1), axis, keeps, call.loc())[0];
    };
    const bool has_axes = type_of(value).shape.rank() > 0;
    return has_axes ? along(value, keepdim) : reshape_to(along(unsqueeze(value, 0), false), {}, call.loc());
  }
  Tensor one_of_all(const At& x, double q) const {
    LooseComposite call(name, x.loc);
    return compute(flatten(resolve(x, name)), std::span(&q, 1), 0, false, call.loc())[0];
  }
  Tensor several(const At& x, std::span<const double> qs, int axis, bool keepdim) const {
    LooseComposite call(name, x.loc);
    const Tensor value = resolve(x, name);
    const bool has_axes = type_of(value).shape.rank() > 0;
    return stack(compute(has_axes ? value : unsqueeze(value, 0), qs, axis, has_axes && keepdim, call.loc()), 0,
                 call.loc());
  }
  Tensor several_of_all(const At& x, std::span<const double> qs) const {
    LooseComposite call(name, x.loc);
    return stack(compute(flatten(resolve(x, name)), qs, 0, false, call.loc()), 0, call.loc());
  }
};
constexpr Quantiles of_all{"quantile", quantiles}, of_numbers{"nanquantile", nanquantiles};
using Fractions = std::initializer_list<double>;

}  // namespace

Tensor quantile(At x, double q, int axis, bool keepdim) { return of_all.one(x, q, axis, keepdim); }
Tensor quantile(At x, double q) { return of_all.one_of_all(x, q); }
Tensor quantile(At x, std::span<const double> q, int axis, bool keepdim) { return of_all.several(x, q, axis, keepdim); }
Tensor quantile(At x, Fractions q, int axis, bool keepdim) {
  return of_all.several(x, std::span(q.begin(), q.size()), axis, keepdim);
}
Tensor quantile(At x, std::span<const double> q) { return of_all.several_of_all(x, q); }
Tensor quantile(At x, Fractions q) { return of_all.several_of_all(x, std::span(q.begin(), q.size())); }

Tensor nanquantile(At x, double q, int axis, bool keepdim) { return of_numbers.one(x, q, axis, keepdim); }
Tensor nanquantile(At x, double q) { return of_numbers.one_of_all(x, q); }
Tensor nanquantile(At x, std::span<const double> q, int axis, bool keepdim) {
  return of_numbers.several(x, q, axis, keepdim);
}
Tensor nanquantile(At x, Fractions q, int axis, bool keepdim) {
  return of_numbers.several(x, std::span(q.begin(), q.size()), axis, keepdim);
}
Tensor nanquantile(At x, std::span<const double> q) { return of_numbers.several_of_all(x, q); }
Tensor nanquantile(At x, Fractions q) { return of_numbers.several_of_all(x, std::span(q.begin(), q.size())); }

}  // namespace weft
