// Public functions that move elements and compute none: views, and what puts tensors together. In: the user's sizes,
// axes and positions, negative ones and -1 included. Out: primitives with plain ones.
#include "base/fail.hpp"
#include "record/indexing.hpp"
#include "record/ones.hpp"

namespace weft {

// ---- views --------------------------------------------------------------------------------------------------------

namespace {
// Recorded also where the sizes stay: with symbolic ones that may not be known, and gradients are added up in the order
// in which values were recorded.
Tensor view(Op op, const Tensor& value, const Attributes& attributes, const Shape& shape, Loc loc) {
  if (shape.rank() == 0 && type_of(value).shape.rank() == 0) return value;
  return record(op, {value}, attributes, Type{type_of(value).dtype, false, {}, shape}, loc);
}
}  // namespace

Tensor reshape_to(const Tensor& value, const Shape& shape, Loc loc) { return view(Op::reshape, value, {}, shape, loc); }

void Sizes::append(Dim size, Loc loc) {
  if (shape_.rank() == max_rank) fail("shape", loc, "more than ", max_rank, " axes");
  shape_.push_back(size);
}

Tensor reshape(At x, Sizes sizes) {
  Operation call("reshape", x.loc);
  Tensor value = resolve(x, "reshape");
  Shape shape = sizes.shape();
  int inferred = -1;
  Dim known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!shape[i].same(Dim(-1))) {
      known = known * shape[i];
    } else if (inferred >= 0) {
      fail("reshape", call.loc(), "more than one size is -1");
    } else {
      inferred = i;
    }
  }
  if (inferred >= 0) {
    Dim count = type_of(value).shape.element_count();
    if (known == Dim(0)) fail("reshape", call.loc(), "-1 is ambiguous for ", to_string(type_of(value)));
    shape[inferred] = count / known;
    if (!(shape[inferred] * known == count)) {
      shape[inferred] = Dim(-1);
      fail("reshape", call.loc(), to_string(type_of(value)), " does not divide into ",
           to_string(Type{type_of(value).dtype, false, {}, shape}));
    }
  }
  return reshape_to(value, shape, call.loc());
}

Tensor flatten(At x, int first_axis, int last_axis) {
  Operation call("flatten", x.loc);
  Tensor value = resolve(x, "flatten");
  const Shape& from = type_of(value).shape;
  if (from.rank() == 0) return reshape_to(value, Shape::of(1), call.loc());
  int first = normalize_axis("flatten", first_axis, from.rank(), call.loc());
  int last = normalize_axis("flatten", last_axis, from.rank(), call.loc());
  if (first > last)
    fail("flatten", call.loc(), "from axis ", first, " back to axis ", last, " of ", to_string(type_of(value)));
  Shape shape;
  Dim merged = 1;
  for (int i = 0; i < from.rank(); ++i) {
    if (i < first || i > last)
      shape.push_back(from[i]);
    else
      merged = merged * from[i];
    if (i == last) shape.push_back(merged);
  }
  return reshape_to(value, shape, call.loc());
}

Tensor permute(At x, Axes axes) {
  Operation call("permute", x.loc);
  Tensor value = resolve(x, "permute");
  int rank = type_of(value).shape.rank();
  if (axes.count() != rank)
    fail("permute", call.loc(), counted(axes.count(), "axis", "axes"), " for ", to_string(type_of(value)));
  AxisList order;
  for (int i = 0; i < rank; ++i)
    order.push_back(static_cast<std::uint8_t>(normalize_axis("permute", axes[i], rank, call.loc())));
  return view(Op::permute, value, Permute{order}, {}, call.loc());
}

Tensor transpose(At x, int a, int b) {
  Operation call("transpose", x.loc);
  Tensor value = resolve(x, "transpose");
  int rank = type_of(value).shape.rank();
  a = normalize_axis("transpose", a, rank, call.loc());
  b = normalize_axis("transpose", b, rank, call.loc());
  AxisList order;
  for (int i = 0; i < rank; ++i) order.push_back(static_cast<std::uint8_t>(i == a ? b : i == b ? a : i));
  return view(Op::permute, value, Permute{order}, {}, call.loc());
}

Tensor expand(At x, Sizes sizes) {
  Operation call("expand", x.loc);
  Tensor value = with_plain_ones(resolve(x, "expand"), call.loc());
  const Shape& from = type_of(value).shape;
  Shape shape = sizes.shape();
  int lead = shape.rank() - from.rank();
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i].same(Dim(-1)) && i >= lead) shape[i] = from[i - lead];
  return view(Op::expand, settled_for(value, shape, call.loc()), {}, shape, call.loc());
}

Tensor squeeze(At x, int axis) {
  Operation call("squeeze", x.loc);
  Tensor value = resolve(x, "squeeze");
  const Shape& from = type_of(value).shape;
  axis = normalize_axis("squeeze", axis, from.rank(), call.loc());
  if (from[axis] != Dim(1)) return value;
  Shape shape;
  for (int i = 0; i < from.rank(); ++i)
    if (i != axis) shape.push_back(from[i]);
  return reshape_to(value, shape, call.loc());
}

Tensor unsqueeze(At x, int axis) {
  Operation call("unsqueeze", x.loc);
  Tensor value = resolve(x, "unsqueeze");
  const Shape& from = type_of(value).shape;
  if (from.rank() == max_rank) fail("unsqueeze", call.loc(), "more than ", max_rank, " axes");
  axis = normalize_axis("unsqueeze", axis, from.rank() + 1, call.loc());
  Shape shape;
  for (int i = 0; i <= from.rank(); ++i) {
    if (i == axis) shape.push_back(1);
    if (i < from.rank()) shape.push_back(from[i]);
  }
  return reshape_to(value, shape, call.loc());
}

SliceRange slice_range(const char* name, Dim size, Dim start, Dim stop, Dim by, Loc loc) {
  auto step = static_cast<std::int64_t>(by);
  if (step == 0) fail(name, loc, "the step is 0");
  // Python's rules: negative positions count from the end, everything is clamped to what exists.
  const Dim low = step > 0 ? Dim(0) : Dim(-1), high = step > 0 ? size : size - Dim(1);
  auto clamp = [&](Dim position) {
    if (position.beyond()) return position.constant() < 0 ? low : high;
    if (position < Dim(0)) position = position + size;
    return position < low ? low : position > high ? high : position;
  };
  // slice_end is the end that the step leads from, or to.
  start = !start.same(slice_end) ? clamp(start) : step > 0 ? low : high;
  stop = !stop.same(slice_end) ? clamp(stop) : step > 0 ? high : low;
  const Dim span = step > 0 ? stop - start : start - stop, width = step > 0 ? Dim(step) : Dim(-step);
  // A step that is longer than any axis reaches the first element only. Adding it to the span could saturate.
  const Dim whole = width > Dim(count_limit) ? Dim(1) : (span + width - Dim(1)) / width;
  const Dim count = span <= Dim(0) ? Dim(0) : whole;
  if (count.same(Dim(0)) || count.same(Dim(1))) step = 1;  // it leads nowhere
  return {count.same(Dim(0)) ? Dim(0) : start, count, step};
}

Tensor slice(At x, int axis, Dim start, Dim stop, Dim by) {
  Operation call("slice", x.loc);
  Tensor value = resolve(x, "slice");
  Shape shape = type_of(value).shape;
  axis = normalize_axis("slice", axis, shape.rank(), call.loc());
  const SliceRange range = slice_range("slice", shape[axis], start, stop, by, call.loc());
  shape[axis] = range.count;
  return view(Op::slice, value, Slice{static_cast<std::uint8_t>(axis), range.start, range.step}, shape, call.loc());
}

Dim place_on_axis(const char* name, Dim index, const Type& type, int axis, Loc loc) {
  const Dim place = index < Dim(0) ? index + type.shape[axis] : index;
  if (place < Dim(0) || place >= type.shape[axis])
    fail(name, loc, "index ", dims::to_string(index), " is out of range for axis ", axis, " of ", to_string(type));
  return place;
}

Tensor select(At x, int axis, Dim index) {
  Operation call("select", x.loc);
  Tensor value = resolve(x, "select");
  axis = normalize_axis("select", axis, type_of(value).shape.rank(), call.loc());
  const Dim place = place_on_axis("select", index, type_of(value), axis, call.loc());
  return squeeze(slice(value, axis, place, place + Dim(1)), axis);
}

Tensor detail::Rows::operator*() const { return select(*x, 0, i); }

Tensor Tensor::operator[](At index) const {
  Operation call("index", index.loc);
  const At x(*this, call.loc());
  const Tensor value = resolve(x, "index");
  if (type_of(value).shape.rank() == 0) fail("index", call.loc(), "a 0-d tensor has no rows");
  if (index.tensor) {
    const Tensor given = integers("index", index, call.loc());
    const Tensor rows = from_end(given, type_of(value).shape[0], "index", call.loc(), value, 0);
    return record(Op::gather, {value, beside(rows, value, call.loc())}, {}, {}, call.loc());
  }
  if (index.kind != DTypeKind::integer) fail("index", call.loc(), "the index must be an integer");
  return select(x, 0, index.symbolic ? index.size : Dim(index.integer));
}

Tensor flip(At x, int axis) {
  Operation call("flip", x.loc);
  return slice(x, axis, slice_end, slice_end, -1);
}

std::vector<Tensor> split(At x, Dim size, int axis) {
  Operation call("split", x.loc);
  Tensor value = resolve(x, "split");
  axis = normalize_axis("split", axis, type_of(value).shape.rank(), call.loc());
  if (size < Dim(1)) fail("split", call.loc(), "the size of a part is ", dims::to_string(size));
  auto total = static_cast<std::int64_t>(type_of(value).shape[axis]), step = static_cast<std::int64_t>(size);
  const std::int64_t count = total / step + (total % step != 0), most = UINT16_MAX;  // each part is recorded
  if (count > most) fail("split", call.loc(), "makes ", count, " parts; there can be at most ", most);
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  do parts.push_back(slice(value, axis, at, std::min(at + step, total)));
  while ((at += step) < total);
  return parts;
}

// ---- assembling ---------------------------------------------------------------------------------------------------

Tensor concat(std::span<const Tensor> parts, int axis, Loc loc) {
  Operation call("concat", loc);
  if (parts.empty()) fail("concat", call.loc(), "of no tensors");
  std::vector<Tensor> values;
  Promotable common{};
  for (const Tensor& part : parts) {
    values.push_back(resolve(At(part, loc), "concat"));
    common = values.size() == 1 ? promotable(part) : promoted(common, promotable(part), call.loc());
  }
  axis = normalize_axis("concat", axis, type_of(values[0]).shape.rank(), call.loc());
  for (Tensor& value : values) value = cast(value, common.dtype);
  if (values.size() == 1) return values[0];
  return record(Op::concat, values, Along{static_cast<std::uint8_t>(axis)}, {}, call.loc());
}
Tensor concat(std::initializer_list<Tensor> parts, int axis, Loc loc) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, loc);
}
Tensor stack(std::span<const Tensor> parts, int axis, Loc loc) {
  Operation call("stack", loc);
  if (parts.empty()) fail("stack", call.loc(), "of no tensors");
  std::vector<Tensor> values;
  for (const Tensor& part : parts) {
    const Tensor value = resolve(At(part, loc), "stack");
    if (const Type& first = type_of(parts[0]); !(type_of(value).shape == first.shape))
      fail("stack", call.loc(), "shapes differ: ", to_string(first), " x ", to_string(type_of(value)));
    values.push_back(unsqueeze(At(value, loc), axis));
  }
  return concat(values, axis, loc);
}
Tensor stack(std::initializer_list<Tensor> parts, int axis, Loc loc) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis, loc);
}
Tensor detail::stack_rows(const void* rows, std::size_t count, Tensor (*row)(const void* rows, std::size_t i, Loc loc),
                          Loc loc) {
  Operation call("from_list", loc);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(row(rows, i, loc));
  return stack(parts, 0, call.loc());
}
Tensor pad(At x, int axis, Dim before, Dim after, Dim between) {
  Operation call("pad", x.loc);
  Tensor value = resolve(x, "pad");
  axis = normalize_axis("pad", axis, type_of(value).shape.rank(), call.loc());
  for (Dim zeros : {before, after, between}) check_extent("pad", "the number of zeros", zeros, call.loc());
  const auto interior = static_cast<std::int64_t>(between);
  if (before < Dim(0) || after < Dim(0) || interior < 0) fail("pad", call.loc(), "negative padding");
  if (interior && type_of(value).shape[axis] == Dim(0)) fail("pad", call.loc(), "interior padding of an empty axis");
  return record(Op::pad, {value}, Pad{static_cast<std::uint8_t>(axis), before, after, interior}, {}, call.loc());
}

}  // namespace weft
