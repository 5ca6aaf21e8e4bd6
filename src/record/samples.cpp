// Sampled functions: differences, integrals and derivatives along an axis.
#include <vector>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "ir/dtype.hpp"
#include "record/composite.hpp"
#include "weft/statistics.hpp"

namespace weft {
namespace {

Tensor without_first(const Tensor& x, int axis) { return slice(x, axis, 1); }
Tensor without_last(const Tensor& x, int axis) { return slice(x, axis, 0, -1); }

// The areas between neighbours: half the sums of two values, times their distances, a number or a tensor. 16-bit floats
// are computed in f32 and rounded once, after `total`.
template <class Total>
Tensor areas(const Tensor& y, int axis, const At& distance, Total total) {
  const auto compute = [&](const Tensor& wide) {
    const Tensor sums = without_first(wide, axis) + without_last(wide, axis);
    if (!distance.tensor) return total(sums) * (distance.number / 2);
    const Tensor& dx = *distance.tensor;
    return total(sums * (is_floating(type_of(wide).dtype) ? cast(dx, type_of(wide).dtype) : dx)) / 2;
  };
  return is_floating(type_of(y).dtype) ? in_wide(y, compute) : compute(y);
}

struct Samples {
  Tensor values, distances;  // in one dtype
  int axis;
};
Samples samples_at(const char* name, const At& y, const At& x, int axis, Loc loc) {
  Tensor values = resolve(y, name), places = resolve(x, name);
  const Shape shape = type_of(values).shape;
  const int rank = shape.rank(), normal = normalize_axis(name, axis, rank, loc);
  const Shape own = type_of(places).shape;
  const bool vector = own.rank() == 1;
  if (own.rank() == 0 || own.rank() > rank || (!vector && own.rank() + normal < rank) ||
      !(own[vector ? 0 : own.rank() - rank + normal] == shape[normal]))
    fail(name, loc, "needs a place for each value along axis ", axis, ": ", to_string(type_of(values)), " at ",
         to_string(type_of(places)));
  if (vector) {
    Shape along;
    for (int i = 0; i < rank; ++i) along.push_back(i == normal ? own[0] : Dim(1));
    places = reshape_to(places, along, loc);
  }
  const int from = normal - rank;
  Tensor distances = slice(places, from, 1) - slice(places, from, 0, -1);
  const DType dtype = promote(promotable(values), promotable(distances));
  return {cast(values, dtype), cast(distances, dtype), normal};
}

// ---- derivatives ----------------------------------------------------------------------------------------------------

Tensor part(const Tensor& x, int axis, Dim from, Dim count) { return slice(x, axis, from, from + count); }

// A row of one-sided differences over the first or last elements: the weights are numbers, or tensors that broadcast.
Tensor weighted(const Tensor& x, int axis, Dim first, std::span<const At> weights) {
  Tensor sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Tensor term = part(x, axis, first + Dim(static_cast<std::int64_t>(i)), 1) * weights[i];
    sum = i == 0 ? term : sum + term;
  }
  return sum;
}

Tensor derivative(const Tensor& x, int axis, double h, int order) {
  const Dim size = type_of(x).shape[axis];
  const Tensor inside = (slice(x, axis, 2) - slice(x, axis, 0, -2)) / (2 * h);
  const At first[] = {-1 / h, 1 / h}, first2[] = {-1.5 / h, 2 / h, -0.5 / h}, last2[] = {0.5 / h, -2 / h, 1.5 / h};
  const Tensor start = order == 1 ? weighted(x, axis, 0, first) : weighted(x, axis, 0, first2);
  const Tensor end = order == 1 ? weighted(x, axis, size - Dim(2), first) : weighted(x, axis, size - Dim(3), last2);
  return concat({start, inside, end}, axis);
}

// At coordinates [..., n, ...] of size 1 along the other axes.
Tensor derivative_at(const Tensor& x, int axis, const Tensor& at, int order) {
  const Dim size = type_of(x).shape[axis], last = size - Dim(2);
  const Tensor d = without_first(at, axis) - without_last(at, axis);
  const Tensor before = without_last(d, axis), after = without_first(d, axis), both = before + after;
  const Tensor inside = slice(x, axis, 0, -2) * (-after / (before * both)) +
                        slice(x, axis, 1, -1) * ((after - before) / (before * after)) +
                        slice(x, axis, 2) * (before / (after * both));
  const Tensor d0 = part(d, axis, 0, 1), dn = part(d, axis, last, 1);
  Tensor start, end;
  if (order == 1) {
    start = (part(x, axis, 1, 1) - part(x, axis, 0, 1)) / d0;
    end = (part(x, axis, size - Dim(1), 1) - part(x, axis, last, 1)) / dn;
  } else {
    const Tensor d1 = part(d, axis, 1, 1), dm = part(d, axis, last - Dim(1), 1);
    const Tensor weights[] = {-(d0 * 2 + d1) / (d0 * (d0 + d1)),
                              (d0 + d1) / (d0 * d1),
                              -d0 / (d1 * (d0 + d1)),
                              dn / (dm * (dm + dn)),
                              -(dm + dn) / (dm * dn),
                              (dn * 2 + dm) / (dn * (dm + dn))};
    const At first[] = {weights[0], weights[1], weights[2]}, final[] = {weights[3], weights[4], weights[5]};
    start = weighted(x, axis, 0, first);
    end = weighted(x, axis, size - Dim(3), final);
  }
  return concat({start, inside, end}, axis);
}

// The axes that are differentiated, and x in a floating dtype; `compute` gives one of them.
template <class Compute>
std::vector<Tensor> derivatives(const At& x, const Axes& axes, int edge_order, std::size_t spacings, Compute compute) {
  LooseComposite call("gradient", x.loc);
  Tensor value = resolve(x, "gradient");
  if (!is_floating(type_of(value).dtype)) value = cast(value, DType::f32);
  const int rank = type_of(value).shape.rank(), count = axes.count() == 0 ? rank : axes.count();
  if (edge_order != 1 && edge_order != 2) fail("gradient", call.loc(), "edge_order must be 1 or 2, it is ", edge_order);
  if (spacings != 1 && spacings != static_cast<std::size_t>(count))
    fail("gradient", call.loc(), spacings, " spacings for ", counted(count, "axis", "axes"));
  if (count > rank) fail("gradient", call.loc(), counted(count, "axis", "axes"), " of ", to_string(type_of(value)));
  AxisSet seen;
  std::vector<Tensor> results;
  for (int i = 0; i < count; ++i) {
    const int axis = axes.count() == 0 ? i : normalize_axis("gradient", axes[i], rank, call.loc());
    if (seen[axis]) fail("gradient", call.loc(), "axis ", axis, " is named twice");
    seen.insert(axis);
    if (type_of(value).shape[axis] < Dim(edge_order + 1))
      fail("gradient", call.loc(), "needs more than ", counted(edge_order, "element", "elements"), " along axis ", axis,
           " of ", to_string(type_of(value)));
    results.push_back(in_wide(value, [&](const Tensor& wide) {
      return compute(wide, axis, spacings == 1 ? 0 : static_cast<std::size_t>(i), call.loc());
    }));
  }
  return results;
}

}  // namespace

Tensor diff(At x, int n, int axis) {
  LooseComposite call("diff", x.loc);
  Tensor value = resolve(x, "diff");
  const int normal = normalize_axis("diff", axis, type_of(value).shape.rank(), call.loc());
  if (n < 0) fail("diff", call.loc(), n, " times");
  const Dim size = type_of(value).shape[normal];
  const std::int64_t rounds = size < Dim(n) ? static_cast<std::int64_t>(size) : n;  // nothing is left after `size`
  check_recorded("diff", "n", rounds, call.loc());
  for (std::int64_t i = 0; i < rounds; ++i) {
    const Tensor next = without_first(value, normal), before = without_last(value, normal);
    value = type_of(value).dtype == DType::boolean ? next != before : next - before;
  }
  return value;
}

Tensor trapezoid(At y, double dx, int axis) {
  LooseComposite call("trapezoid", y.loc);
  const Tensor value = resolve(y, "trapezoid");
  const int normal = normalize_axis("trapezoid", axis, type_of(value).shape.rank(), call.loc());
  return areas(value, normal, dx, [&](const Tensor& parts) { return sum(parts, normal); });
}
Tensor trapezoid(At y, At x, int axis) {
  LooseComposite call("trapezoid", y.loc);
  const Samples of = samples_at("trapezoid", y, x, axis, call.loc());
  const int from_last = of.axis - type_of(of.values).shape.rank();
  return areas(of.values, from_last, of.distances, [&](const Tensor& parts) { return sum(parts, from_last); });
}
Tensor cumulative_trapezoid(At y, double dx, int axis) {
  LooseComposite call("cumulative_trapezoid", y.loc);
  const Tensor value = resolve(y, "cumulative_trapezoid");
  const int normal = normalize_axis("cumulative_trapezoid", axis, type_of(value).shape.rank(), call.loc());
  return areas(value, normal, dx, [&](const Tensor& parts) { return cumsum(parts, normal); });
}
Tensor cumulative_trapezoid(At y, At x, int axis) {
  LooseComposite call("cumulative_trapezoid", y.loc);
  const Samples of = samples_at("cumulative_trapezoid", y, x, axis, call.loc());
  const int from_last = of.axis - type_of(of.values).shape.rank();
  return areas(of.values, from_last, of.distances, [&](const Tensor& parts) { return cumsum(parts, from_last); });
}

std::vector<Tensor> gradient(At x, double spacing, Axes axes, int edge_order) {
  return gradient(x, {spacing}, axes, edge_order);
}
std::vector<Tensor> gradient(At x, std::initializer_list<double> spacings, Axes axes, int edge_order) {
  return derivatives(x, axes, edge_order, spacings.size(), [&](const Tensor& value, int axis, std::size_t i, Loc loc) {
    const double spacing = spacings.begin()[i];
    if (spacing == 0) fail("gradient", loc, "the spacing is 0");
    return derivative(value, axis, spacing, edge_order);
  });
}
std::vector<Tensor> gradient(At x, std::initializer_list<Tensor> coordinates, Axes axes, int edge_order) {
  return gradient(x, std::span<const Tensor>(coordinates.begin(), coordinates.size()), axes, edge_order);
}
std::vector<Tensor> gradient(At x, std::span<const Tensor> coordinates, Axes axes, int edge_order) {
  return derivatives(x, axes, edge_order, coordinates.size(),
                     [&](const Tensor& value, int axis, std::size_t i, Loc loc) {
                       const Tensor places = resolve(At(coordinates[i], loc), "gradient");
                       const Type& type = type_of(value);
                       if (type_of(places).shape.rank() != 1 || !(type_of(places).shape[0] == type.shape[axis]))
                         fail("gradient", loc, "the coordinates along axis ", axis, " of ", to_string(type), " are ",
                              to_string(type_of(places)));
                       Shape along;
                       for (int j = 0; j < type.shape.rank(); ++j)
                         along.push_back(j == axis ? type.shape[axis] : Dim(1));
                       return derivative_at(value, axis, cast(reshape_to(places, along, loc), type.dtype), edge_order);
                     });
}

}  // namespace weft
