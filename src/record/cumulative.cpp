// Cumulative public functions: the primitives, for dtypes that they do not take and tensors without axes.
#include "record/composite.hpp"
#include "record/indexing.hpp"

namespace weft {
namespace {

// A 0-d tensor is taken as a row of one.
Tensor cumulative(Op op, const Tensor& value, int axis, Loc loc) {
  const Shape shape = type_of(value).shape;
  const bool row = shape.rank() == 0;
  const int normal = normalize_axis(info(op).name, axis, row ? 1 : shape.rank(), loc);
  const Tensor rows = row ? reshape_to(value, Shape::of(1), loc) : value;
  const Tensor result = record(op, {rows}, Along{static_cast<std::uint8_t>(normal)}, {}, loc);
  return row ? reshape_to(result, shape, loc) : result;
}

Tensor total(Op op, const At& x, int axis) {
  Operation call(info(op).name, x.loc);
  Tensor value = resolve(x, info(op).name);
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::i64);
  return cumulative(op, value, axis, call.loc());
}

ValuesAndIndices extremes(Op op, const At& x, int axis) {
  LooseComposite call(info(op).name, x.loc);
  Tensor value = resolve(x, info(op).name);
  const DType dtype = type_of(value).dtype;
  if (dtype == DType::boolean) value = cast(value, DType::u8);
  const Shape shape = type_of(value).shape;
  const Tensor values = cumulative(op, value, axis, call.loc());
  if (shape.rank() == 0) return {cast(values, dtype), cast(zeros_like(values), DType::i64)};
  const int normal = normalize_axis(info(op).name, axis, shape.rank(), call.loc());
  return {cast(values, dtype), extreme_positions(value, values, normal, call.loc())};
}

}  // namespace

// An element is the extreme so far where it is equal to it, or a NaN; after a NaN no number is.
Tensor extreme_positions(const Tensor& x, const Tensor& extremes, int axis, Loc loc) {
  Tensor found = x == extremes;
  if (is_floating(type_of(x).dtype)) found = found | isnan(x);
  const Tensor place = positions(axis, type_of(x).shape, type_of(x).device, loc);
  return record(Op::cummax, {where(found, place, 0)}, Along{static_cast<std::uint8_t>(axis)}, {}, loc);
}

Tensor cumsum(At x, int axis) { return total(Op::cumsum, x, axis); }
Tensor cumprod(At x, int axis) { return total(Op::cumprod, x, axis); }
namespace {
// In this dtype from the start; sums of integers are i64, and wrap at its width then.
Tensor total_in(Op op, const At& x, int axis, DType dtype) {
  LooseComposite call(info(op).name, x.loc);
  return cast(total(op, cast(resolve(x, info(op).name), dtype), axis), dtype);
}
}  // namespace
Tensor cumsum(At x, int axis, DType dtype) { return total_in(Op::cumsum, x, axis, dtype); }
Tensor cumprod(At x, int axis, DType dtype) { return total_in(Op::cumprod, x, axis, dtype); }
ValuesAndIndices cummax(At x, int axis) { return extremes(Op::cummax, x, axis); }
ValuesAndIndices cummin(At x, int axis) { return extremes(Op::cummin, x, axis); }

Tensor logcumsumexp(At x, int axis) {
  Operation call("logcumsumexp", x.loc);
  Tensor value = resolve(x, "logcumsumexp");
  if (!is_floating(type_of(value).dtype)) value = cast(value, DType::f32);
  return cumulative(Op::logcumsumexp, value, axis, call.loc());
}

}  // namespace weft
