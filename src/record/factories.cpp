// Tensors from nothing: constants, sequences, and the numbers among the operands. All are constants and iotas,
// which have no memory until something needs it.
#include <algorithm>
#include <cmath>

#include "base/fail.hpp"
#include "record/default_device.hpp"
#include "record/record.hpp"

namespace weft {

constinit Device default_device;

Scalar::Scalar(double value) {
  Recorder& r = recorder();
  value_ = record(Op::constant, {}, Constant::number(DType::f64, value), Type{DType::f64, true, {}, {}}, r.loc);
}
Index::Index(std::int64_t value) {
  value_ = record(Op::constant, {}, Constant::integer(value), Type{DType::i64, true, {}, {}}, recorder().loc);
}

static Tensor filled(const Shape& shape, const At& value, DType dtype, Device device, Loc loc) {
  for (Dim size : shape)
    if (size < Dim(0)) fail("full", loc, "a size is negative: ", dims::to_string(size));
  if (!value.tensor && !value.symbolic)
    return record(Op::constant, {}, literal_in(dtype, value, loc), Type{dtype, false, device, shape}, loc);
  Tensor given = resolve(value, "full");
  if (type_of(given).weak) given = coerce(given, dtype, false, type_of(given).shape, type_of(given).device, loc);
  return expand(to(cast(given, dtype), device), shape);
}
Tensor full(Sizes sizes, At value, Options options) {
  Operation call("full", value.loc);
  return filled(sizes.shape(), value, options.dtype, placed(options.device), call.loc());
}
Tensor zeros(Sizes sizes, Options options, Loc loc) {
  Operation call("zeros", loc);
  return full(sizes, At(0, loc), options);
}
Tensor ones(Sizes sizes, Options options, Loc loc) {
  Operation call("ones", loc);
  return full(sizes, At(1, loc), options);
}
namespace {
Tensor filled_like(const Tensor& like, At value, const char* operation) {
  Operation call(operation, value.loc);
  if (!like.defined()) fail(operation, call.loc(), "of an undefined tensor");
  return filled(type_of(like).shape, value, type_of(like).dtype, type_of(like).device, call.loc());
}
}  // namespace
Tensor full_like(const Tensor& like, At value) { return filled_like(like, value, "full_like"); }
Tensor zeros_like(const Tensor& like, Loc loc) { return filled_like(like, At(0, loc), "zeros_like"); }
Tensor ones_like(const Tensor& like, Loc loc) { return filled_like(like, At(1, loc), "ones_like"); }
Tensor positions(int axis, const Shape& shape, Device device, Loc loc) {
  return record(Op::iota, {}, Along{static_cast<std::uint8_t>(axis)}, Type{DType::i64, false, device, shape}, loc);
}
Tensor arange(Dim count, RangeOptions options, Loc loc) {
  Operation call("arange", loc);
  if (count < Dim(0)) fail("arange", call.loc(), "the count is negative: ", dims::to_string(count));
  const Type type{options.dtype, false, placed(options.device), Shape::of(count)};
  return record(Op::iota, {}, Along{0}, type, call.loc());
}

namespace {
// start + i * step in f64 or i64, rounded once.
Tensor arithmetic_sequence(Dim count, At start, At step, const Options& options, Loc loc) {
  const DType wide = step.kind == DTypeKind::floating ? DType::f64 : DType::i64;
  return cast(arange(count, {wide, options.device}, loc) * step + start, options.dtype);
}
}  // namespace

Tensor arange(Dim start, Dim stop, Dim step, RangeOptions options, Loc loc) {
  Operation call("arange", loc);
  check_extent("arange", "the start", start, call.loc());
  check_extent("arange", "the stop", stop, call.loc());
  check_extent("arange", "the step", step, call.loc());
  if (step == Dim(0)) fail("arange", call.loc(), "the step is 0");
  const bool up = step > Dim(0);
  const Dim span = up ? stop - start : start - stop, width = up ? step : -step;
  const Dim count = span <= Dim(0) ? Dim(0) : (span + width - Dim(1)) / width;
  return arithmetic_sequence(count, At(start, loc), At(step, loc), {options.dtype, options.device}, loc);
}
Tensor detail::arange_floating(double start, double stop, double step, const Options& options, Loc loc) {
  Operation call("arange", loc);
  const double count = std::ceil((stop - start) / step);
  if (!(std::abs(count) < static_cast<double>(count_limit)))
    fail("arange", call.loc(), "from ", start, " to ", stop, " by ", step, " has no count");
  return arithmetic_sequence(std::max(static_cast<std::int64_t>(count), std::int64_t{0}), At(start, loc), At(step, loc),
                             options, loc);
}

// Each half is counted from its own end, so that both ends are exact.
Tensor linspace(double start, double stop, Dim count, Options options, Loc loc) {
  Operation call("linspace", loc);
  const Tensor place = arange(count, {DType::f64, options.device}, loc), rest = count - Dim(1) - place;
  const Tensor parts = maximum(At(count, loc) - 1, At(1, loc));
  const double distance = stop - start;
  const Tensor step = std::isfinite(distance) ? distance / parts : stop / parts - start / parts;
  return cast(where(place <= rest, start + step * place, stop - step * rest), options.dtype);
}

Tensor logspace(double start, double stop, Dim count, double base, Options options, Loc loc) {
  Operation call("logspace", loc);
  const Tensor powers = linspace(start, stop, count, {DType::f64, options.device}, call.loc());
  return cast(pow(base, powers), options.dtype);
}

Tensor eye(Dim rows, Dim columns, Options options, Loc loc) {
  Operation call("eye", loc);
  const RangeOptions place{DType::i64, options.device};
  return cast(unsqueeze(arange(rows, place), 1) == arange(columns, place), options.dtype);
}
Tensor eye(Dim size, Options options, Loc loc) { return eye(size, size, options, loc); }

}  // namespace weft
