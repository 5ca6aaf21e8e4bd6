// Public reductions: axes to attributes, dtypes of results, and composites over sum and argmax.
#include <algorithm>
#include <cmath>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/moments.hpp"
#include "record/ones.hpp"

namespace weft {

namespace {

// The axes that a reduction is over: all of them where none is named.
AxisSet axes_over(const char* name, const Axes& axes, int rank, Loc loc) {
  if (axes.count() > max_rank) fail(name, loc, "more than ", max_rank, " axes");
  AxisSet over;
  for (int i = 0; axes.count() == 0 && i < rank; ++i) over.insert(i);
  for (int i = 0; i < axes.count(); ++i) {
    const int axis = normalize_axis(name, axes[i], std::max(rank, 1), loc);  // of a 0-d tensor, which is a row of one
    if (over[axis]) fail(name, loc, "axis ", axis, " is named twice");
    over.insert(axis);
  }
  return rank == 0 ? AxisSet() : over;
}

Tensor reduce(Op op, const Tensor& given, const Axes& axes, bool keepdim, Loc loc) {
  const char* name = info(op).name;
  const bool rounds = is_floating(type_of(given).dtype) && (op == Op::sum || op == Op::prod);
  const int rank = type_of(given).shape.rank();
  const AxisSet over = axes_over(name, axes, rank, loc);
  const Tensor value = rounds ? settled_for_sum(given, over, loc) : given;
  const Shape& from = type_of(value).shape;
  const bool orders = op == Op::amax || op == Op::amin || op == Op::argmax;
  for (int i = 0; orders && i < rank; ++i)
    if (over[i] && from[i] == Dim(0)) fail(name, loc, "over an empty axis: ", to_string(type_of(value)), ", axis ", i);
  Shape squeezed;
  for (int i = 0; i < from.rank(); ++i)
    if (!over[i]) squeezed.push_back(from[i]);
  Tensor result = record(op, {value}, Reduce{over}, {}, loc);
  return keepdim ? result : reshape_to(result, squeezed, loc);
}

Tensor reduce_boolean(Op op, At x, const Axes& axes, bool keepdim, Loc loc) {
  Tensor value = resolve(x, info(op).name);
  Tensor flags = type_of(value).dtype == DType::boolean ? value : not_equal(value, 0);
  return cast(reduce(op, cast(flags, DType::u8), axes, keepdim, loc), DType::boolean);
}

Dim reduced_count(const Tensor& value, const Axes& axes, const char* name, Loc loc) {
  const Shape& from = type_of(value).shape;
  if (axes.count() == 0) return from.element_count();
  Dim count = 1;
  for (int i = 0; i < axes.count() && from.rank() > 0; ++i)
    count = count * from[normalize_axis(name, axes[i], from.rank(), loc)];
  return count;
}

}  // namespace

Tensor sum(At x, Axes axes, bool keepdim) {
  Operation call("sum", x.loc);
  Tensor value = resolve(x, "sum");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::i64);
  return reduce(Op::sum, value, axes, keepdim, call.loc());
}
Tensor prod(At x, Axes axes, bool keepdim) {
  Operation call("prod", x.loc);
  Tensor value = resolve(x, "prod");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::i64);
  return reduce(Op::prod, value, axes, keepdim, call.loc());
}
namespace {
// In this dtype from the start; sums of integers are i64, and wrap at its width then.
Tensor reduced_in(const char* name, const At& x, DType dtype, Tensor (*reduce)(At, Axes, bool), const Axes& axes,
                  bool keepdim) {
  LooseComposite call(name, x.loc);
  return cast(reduce(cast(resolve(x, name), dtype), axes, keepdim), dtype);
}
}  // namespace
Tensor sum(At x, Axes axes, bool keepdim, DType dtype) { return reduced_in("sum", x, dtype, sum, axes, keepdim); }
Tensor prod(At x, Axes axes, bool keepdim, DType dtype) { return reduced_in("prod", x, dtype, prod, axes, keepdim); }
Tensor mean(At x, Axes axes, bool keepdim, DType dtype) { return reduced_in("mean", x, dtype, mean, axes, keepdim); }
Tensor amax(At x, Axes axes, bool keepdim) {
  Operation call("amax", x.loc);
  Tensor value = resolve(x, "amax");
  if (type_of(value).dtype == DType::boolean) return reduce_boolean(Op::amax, value, axes, keepdim, call.loc());
  return reduce(Op::amax, value, axes, keepdim, call.loc());
}
Tensor amin(At x, Axes axes, bool keepdim) {
  Operation call("amin", x.loc);
  Tensor value = resolve(x, "amin");
  if (type_of(value).dtype == DType::boolean) return reduce_boolean(Op::amin, value, axes, keepdim, call.loc());
  return reduce(Op::amin, value, axes, keepdim, call.loc());
}
Tensor any(At x, Axes axes, bool keepdim) {
  LooseComposite call("any", x.loc);
  Tensor value = resolve(x, "any");
  return cast(sum(cast(not_equal(value, type_of(value).dtype == DType::boolean ? At(false) : At(0)), DType::i64), axes,
                  keepdim),
              DType::boolean);
}
Tensor all(At x, Axes axes, bool keepdim) {
  LooseComposite call("all", x.loc);
  Tensor value = resolve(x, "all");
  return ~any(equal(value, type_of(value).dtype == DType::boolean ? At(false) : At(0)), axes, keepdim);
}
Tensor argmax(At x, int axis, bool keepdim) {
  Operation call("argmax", x.loc);
  Tensor value = resolve(x, "argmax");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::u8);
  if (type_of(value).shape.rank() == 0) value = unsqueeze(value, 0), keepdim = false;
  return reduce(Op::argmax, value, Axes(axis), keepdim, call.loc());
}
// What reverses the order: of integers it can't overflow.
Tensor argmin(At x, int axis, bool keepdim) {
  LooseComposite call("argmin", x.loc);
  Tensor value = resolve(x, "argmin");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::u8);
  return argmax(is_floating(type_of(value).dtype) ? -value : ~value, axis, keepdim);
}
namespace {
// Sums and counts of 16-bit floats do not fit into their type: f32 until the result, which `compute` gives, is rounded.
template <class Compute>
Tensor in_f32(Tensor value, const char* operation, Loc loc, Compute compute) {
  const DType dtype = type_of(value).dtype;
  if (!is_floating(dtype))
    fail(operation, loc, "needs a floating dtype, it is ", to_string(type_of(value)), ": cast it first");
  return in_wide(value, compute);
}

// A composite over some axes of a floating value.
template <class Compute>
Tensor statistic(const char* name, const At& x, const Axes& axes, bool keepdim, double correction, Compute compute,
                 CallDerivative derivative = nullptr) {
  Operation call(name, x.loc);
  Tensor value = resolve(x, name);
  const AxisSet over = axes_over(name, axes, type_of(value).shape.rank(), call.loc());
  return composite_with(
      derivative, ReducedCall{called(name), over, keepdim, correction}, call.loc(),
      [&](const Tensor& value) { return in_f32(value, name, call.loc(), compute); }, std::move(value));
}

void check_correction(const char* name, double correction, Loc loc) {
  if (!std::isfinite(correction)) fail(name, loc, "the correction must be finite, it is ", correction);
}

// The square root, whose gradient at 0 is 0 here.
Tensor root(const Tensor& squares) {
  const Tensor none = squares == 0;
  return where(none, 0, sqrt(where(none, 1, squares)));
}

// Over the number of values less the correction, which is not below 0, as in PyTorch: the variance of too few values is
// NaN or infinite.
Tensor over_freedom(const Tensor& value, Dim count, double correction, Loc loc) {
  if (count.is_constant()) return value / std::max(static_cast<double>(count.constant()) - correction, 0.0);
  return value / maximum(dim_value(count, loc) - correction, 0.0);
}

// The mean of the squared distances from the mean, over the degrees of freedom.
Tensor variance(const Tensor& value, const Tensor& mean, const Axes& axes, Dim count, double correction, bool keepdim,
                Loc loc) {
  const Tensor distance = value - mean;
  return over_freedom(sum(distance * distance, axes, keepdim), count, correction, loc);
}

// What brings the squares and their sum into the dtype's range, a power of two by the largest element, and its inverse.
struct Scaling {
  Tensor scale, inverse;  // the axes kept
};
Scaling scaling_for_squares(const Tensor& value, const Tensor& mean, const Axes& axes, Dim count, Loc loc) {
  const bool wide = type_of(value).dtype == DType::f64;
  const double large = wide ? 0x1p440 : 0x1p47, down = wide ? 0x1p-540 : 0x1p-80, small = wide ? 0x1p-400 : 0x1p-40,
               up = wide ? 0x1p500 : 0x1p80;
  const Tensor most = count == Dim(0) ? constant_like(0, type_of(mean), loc) : amax(abs(value), axes, true);
  const Tensor is_large = most > large, is_small = most < small;  // no gradient passes through a comparison
  const auto by_size = [&](double of_large, double of_small) {    // a `where` of literals alone would be f32
    return where(is_large, of_large, where(is_small, of_small, constant_like(1, type_of(most), loc)));
  };
  return {by_size(down, up), by_size(1 / down, 1 / up)};
}

// The square root of the variance, also where that is beyond the dtype. f16 is computed in f32, where no square is.
Tensor deviation(const Tensor& value, DType given, const Axes& axes, double correction, bool keepdim, Loc loc) {
  const Dim count = reduced_count(value, axes, "std", loc);
  const Tensor mean = mean_of_large(value, axes, true, count, loc);
  if (given == DType::f16) return root(variance(value, mean, axes, count, correction, keepdim, loc));
  const Scaling by = scaling_for_squares(value, mean, axes, count, loc);
  const Tensor squared = variance(value * by.scale, mean * by.scale, axes, count, correction, keepdim, loc);
  return root(squared) * reshape_to(by.inverse, type_of(squared).shape, loc);
}

struct CenteredValues {
  Tensor value, gradient, result;  // the last two broadcast to the value
  Dim count;
  double correction;
  Tensor over_freedom(const Tensor& each) const { return weft::over_freedom(each, count, correction, {}); }
};
CenteredValues centered_of(const CallValues& call) {
  const Tensor& value = call.operands[0];
  const auto& how = call.called.as<ReducedCall>();
  const Shape& from = type_of(value).shape;
  std::vector<int> axes;
  Shape kept = from;
  Dim count = 1;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (how.axes[axis]) axes.push_back(axis), kept[axis] = 1, count = count * from[axis];
  const Tensor mean = axes.empty() ? value : mean_of_large(value, Axes(axes), true, count, {});
  return {value - mean, reshape(call.gradients[0], kept), reshape(call.results[0], kept), count, how.correction};
}
void differentiate_var(const CallValues& call, std::span<Tensor> gradients) {
  const CenteredValues in = centered_of(call);
  gradients[0] = in.value * in.over_freedom(in.gradient * 2);
}
void differentiate_std(const CallValues& call, std::span<Tensor> gradients) {
  const CenteredValues in = centered_of(call);
  const Tensor none = in.result == 0;
  gradients[0] = in.value * where(none, 0, in.over_freedom(in.gradient / where(none, 1, in.result)));
}
CallDerivative unless_narrow(const At& x, CallDerivative derivative) {
  const DType dtype = type_of(resolve(x, "var")).dtype;
  return is_floating(dtype) && computed_in(dtype) != dtype ? nullptr : derivative;
}
}  // namespace

Tensor mean_of_large(const Tensor& value, const Axes& axes, bool keepdim, Dim count, Loc loc) {
  const double scale = type_of(value).dtype == DType::f64 ? 0x1p-64 : 0x1p-32;
  const Tensor total = sum(value * scale, axes, keepdim);
  if (count.is_constant()) return total / (static_cast<double>(count.constant()) * scale);
  return total / (dim_value(count, loc) * scale);
}

Tensor mean(At x, Axes axes, bool keepdim) {
  return statistic("mean", x, axes, keepdim, 0, [&](const Tensor& value) {
    return sum(value, axes, keepdim) / dim_value(reduced_count(value, axes, "mean", x.loc), x.loc);
  });
}
Tensor var(At x, Axes axes, double correction, bool keepdim) {
  check_correction("var", correction, x.loc);
  return statistic(
      "var", x, axes, keepdim, correction,
      [&](const Tensor& value) {
        const Dim count = reduced_count(value, axes, "var", x.loc);
        return variance(value, mean_of_large(value, axes, true, count, x.loc), axes, count, correction, keepdim, x.loc);
      },
      unless_narrow(x, differentiate_var));
}
Tensor std(At x, Axes axes, double correction, bool keepdim) {
  check_correction("std", correction, x.loc);
  const DType given = type_of(resolve(x, "std")).dtype;
  return statistic(
      "std", x, axes, keepdim, correction,
      [&](const Tensor& value) { return deviation(value, given, axes, correction, keepdim, x.loc); },
      unless_narrow(x, differentiate_std));
}
Tensor norm(At x, Axes axes, bool keepdim) {
  return statistic("norm", x, axes, keepdim, 0,
                   [&](const Tensor& value) { return root(sum(value * value, axes, keepdim)); });
}

Tensor count_nonzero(At x, Axes axes, bool keepdim) {
  LooseComposite call("count_nonzero", x.loc);
  const Tensor value = resolve(x, "count_nonzero");
  return sum(type_of(value).dtype == DType::boolean ? value : value != 0, axes, keepdim);
}
Tensor nansum(At x, Axes axes, bool keepdim) {
  LooseComposite call("nansum", x.loc);
  const Tensor value = resolve(x, "nansum");
  return sum(is_floating(type_of(value).dtype) ? where(isnan(value), 0, value) : value, axes, keepdim);
}
Tensor nanmean(At x, Axes axes, bool keepdim) {
  return statistic("nanmean", x, axes, keepdim, 0, [&](const Tensor& value) {
    const Tensor missing = isnan(value);
    return sum(where(missing, 0, value), axes, keepdim) / cast(sum(~missing, axes, keepdim), type_of(value).dtype);
  });
}

}  // namespace weft
