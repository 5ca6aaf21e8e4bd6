// What sorting an axis tells besides the order itself: the most frequent element, and medians and quantiles of what is
// no NaN. Positions first, then the elements there, so that gradients go to these.
#include <limits>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/statistics.hpp"

namespace weft {
namespace {

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

// Of a 0-d tensor, a row of one.
template <class Compute>
ValuesAndIndices of_row(const Tensor& value, Loc loc, Compute compute) {
  const ValuesAndIndices row = compute(unsqueeze(value, 0));
  return {reshape_to(row.values, {}, loc), reshape_to(row.indices, {}, loc)};
}

}  // namespace

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

// One result for each q.
static std::vector<Tensor> nanquantiles(const At& x, std::span<const double> qs, int axis, bool keepdim, Loc loc) {
  const Tensor value = resolve(x, "nanquantile");
  const DType dtype = type_of(value).dtype, wide = computed_in(dtype);
  if (!is_floating(dtype)) fail("nanquantile", loc, "needs a floating dtype, it is ", to_string(type_of(value)));
  if (qs.empty()) fail("nanquantile", loc, "of no q");
  for (const double q : qs)
    if (!(q >= 0 && q <= 1)) fail("nanquantile", loc, "q is ", q, ", which is not in 0 to 1");
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
Tensor nanquantile(At x, double q, int axis, bool keepdim) {
  LooseComposite call("nanquantile", x.loc);
  const Tensor value = resolve(x, "nanquantile");
  if (type_of(value).shape.rank() == 0) return reshape_to(nanquantile(unsqueeze(value, 0), q, axis), {}, call.loc());
  return nanquantiles(value, std::span(&q, 1), axis, keepdim, call.loc())[0];
}
Tensor nanquantile(At x, double q) {
  LooseComposite call("nanquantile", x.loc);
  return nanquantile(flatten(resolve(x, "nanquantile")), q, 0);
}
Tensor nanquantile(At x, std::span<const double> q, int axis, bool keepdim) {
  LooseComposite call("nanquantile", x.loc);
  const Tensor value = resolve(x, "nanquantile");
  if (type_of(value).shape.rank() == 0) return nanquantile(unsqueeze(value, 0), q, axis);
  return stack(nanquantiles(value, q, axis, keepdim, call.loc()), 0, call.loc());
}
Tensor nanquantile(At x, std::initializer_list<double> q, int axis, bool keepdim) {
  return nanquantile(x, std::span(q.begin(), q.size()), axis, keepdim);
}
Tensor nanquantile(At x, std::span<const double> q) {
  LooseComposite call("nanquantile", x.loc);
  return nanquantile(flatten(resolve(x, "nanquantile")), q, 0);
}
Tensor nanquantile(At x, std::initializer_list<double> q) { return nanquantile(x, std::span(q.begin(), q.size())); }

}  // namespace weft
