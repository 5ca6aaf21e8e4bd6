// The public functions: promotion, broadcasting, argument checks, and composites over the primitives of weft/ops.def.
#include "weft/ops.hpp"

#include "base/fail.hpp"
#include "tensor/elementwise.hpp"
#include "tensor/expressions.hpp"
#include "tensor/record.hpp"

namespace weft {

// ---- pointwise primitives: one definition for every row -------------------------------------------------------------

#define WEFT_DEFINE_1(name) \
  Tensor name(At a) { return pointwise(Op::name, std::span<const At>(&a, 1)); }
#define WEFT_DEFINE_2(name)                                     \
  Tensor name(At a, At b) {                                     \
    const At operands[] = {a, b};                               \
    return pointwise(Op::name, operands);                       \
  }
#define WEFT_DEFINE_3(name)                                     \
  Tensor name(At a, At b, At c) {                               \
    const At operands[] = {a, b, c};                            \
    return pointwise(Op::name, operands);                       \
  }
#define WEFT_POINTWISE(name, arity, ...) WEFT_DEFINE_##arity(name)
#include "weft/ops.def"
#undef WEFT_DEFINE_1
#undef WEFT_DEFINE_2
#undef WEFT_DEFINE_3

namespace {
bool is_boolean(const At& x) { return x.tensor ? x.tensor->defined() && type_of(*x.tensor).dtype == DType::boolean
                                               : x.kind == DTypeKind::boolean; }
}  // namespace

// PyTorch: bool + bool is or, bool * bool is and.
Tensor operator+(At a, At b) { return is_boolean(a) && is_boolean(b) ? bitwise_or(a, b) : add(a, b); }
Tensor operator*(At a, At b) { return is_boolean(a) && is_boolean(b) ? bitwise_and(a, b) : mul(a, b); }
Tensor operator-(At a, At b) { return sub(a, b); }
Tensor operator/(At a, At b) { return div(a, b); }
Tensor operator%(At a, At b) { return remainder(a, b); }
Tensor operator-(At a) { return neg(a); }
Tensor operator==(At a, At b) { return equal(a, b); }
Tensor operator!=(At a, At b) { return not_equal(a, b); }
Tensor operator<(At a, At b) { return less(a, b); }
Tensor operator<=(At a, At b) { return less_equal(a, b); }
Tensor operator>(At a, At b) { return less(b, a); }
Tensor operator>=(At a, At b) { return less_equal(b, a); }
Tensor operator&(At a, At b) { return bitwise_and(a, b); }
Tensor operator|(At a, At b) { return bitwise_or(a, b); }
Tensor operator^(At a, At b) { return bitwise_xor(a, b); }
Tensor operator~(At a) { return bitwise_not(a); }

// In-place forms rebind the handle; the dtype and the shape stay, as in PyTorch.
namespace {
Tensor& assign(Tensor& a, Tensor result, const At& b) {
  if (!type_of(result).shape.same(type_of(a).shape))
    fail("in-place", b.loc, "the result ", to_string(type_of(result)), " does not fit into ", to_string(type_of(a)));
  if (type_of(result).dtype != type_of(a).dtype) {
    if (is_floating(type_of(result).dtype) && !is_floating(type_of(a).dtype))
      fail("in-place", b.loc, "a result of ", to_string(type_of(result)), " can't be kept in ", to_string(type_of(a)));
    result = cast(At(result, b.loc), type_of(a).dtype);
  }
  return a = std::move(result);
}
}  // namespace
Tensor& operator+=(Tensor& a, At b) { return assign(a, At(a, b.loc) + b, b); }
Tensor& operator-=(Tensor& a, At b) { return assign(a, At(a, b.loc) - b, b); }
Tensor& operator*=(Tensor& a, At b) { return assign(a, At(a, b.loc) * b, b); }
Tensor& operator/=(Tensor& a, At b) { return assign(a, At(a, b.loc) / b, b); }

Scalar operator+(const Scalar& a, const Scalar& b) { return Scalar(add(a, b)); }
Scalar operator-(const Scalar& a, const Scalar& b) { return Scalar(sub(a, b)); }
Scalar operator*(const Scalar& a, const Scalar& b) { return Scalar(mul(a, b)); }
Scalar operator/(const Scalar& a, const Scalar& b) { return Scalar(div(a, b)); }
Scalar pow(const Scalar& a, const Scalar& b) { return Scalar(pow(At(a), At(b))); }
Scalar sqrt(const Scalar& a) { return Scalar(sqrt(At(a))); }

// ---- dtype --------------------------------------------------------------------------------------------------------

Tensor cast(At x, DType dtype) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "cast");
  if (type_of(value).dtype == dtype && !type_of(value).weak) return value;
  return record(Op::cast, {value}, {}, Type{dtype}, call.loc());
}
Tensor bitcast(At x, DType dtype) {
  Composite call(nullptr, x.loc);
  return record(Op::bitcast, {resolve(x, "bitcast")}, {}, Type{dtype}, call.loc());
}

// ---- views --------------------------------------------------------------------------------------------------------

namespace {
Tensor view(Op op, const Tensor& value, const Attributes& attributes, const Shape& shape, Loc loc) {
  return record(op, {value}, attributes, Type{type_of(value).dtype, false, {}, shape}, loc);
}
Tensor reshape_to(const Tensor& value, const Shape& shape, Loc loc) {
  return type_of(value).shape.same(shape) ? value : view(Op::reshape, value, {}, shape, loc);
}
}  // namespace

void Sizes::append(Dim size, Loc loc) {
  if (shape_.rank() == max_rank) fail("shape", loc, "more than ", max_rank, " axes");
  shape_.push_back(size);
}

Tensor reshape(At x, Sizes sizes) {
  Composite call(nullptr, x.loc);
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
    if (known.same(Dim(0))) fail("reshape", call.loc(), "-1 is ambiguous for ", to_string(type_of(value)));
    shape[inferred] = count / known;
    if (!(shape[inferred] * known == count)) {
      shape[inferred] = Dim(-1);
      fail("reshape", call.loc(), to_string(type_of(value)), " does not divide into ", to_string(Type{type_of(value).dtype, false, {}, shape}));
    }
  }
  return reshape_to(value, shape, call.loc());
}

Tensor flatten(At x, int first_axis, int last_axis) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "flatten");
  const Shape& from = type_of(value).shape;
  if (from.rank() == 0) return reshape_to(value, Shape::of(1), call.loc());
  int first = normalize_axis("flatten", first_axis, from.rank(), call.loc());
  int last = normalize_axis("flatten", last_axis, from.rank(), call.loc());
  Shape shape;
  Dim merged = 1;
  for (int i = 0; i < from.rank(); ++i) {
    if (i < first || i > last) shape.push_back(from[i]);
    else merged = merged * from[i];
    if (i == last) shape.push_back(merged);
  }
  return reshape_to(value, shape, call.loc());
}

Tensor permute(At x, std::initializer_list<int> axes) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "permute");
  int rank = type_of(value).shape.rank();
  if (static_cast<int>(axes.size()) != rank)
    fail("permute", call.loc(), axes.size(), " axes for ", to_string(type_of(value)));
  Attributes attributes;
  int i = 0;
  for (int axis : axes) attributes.axes[i++] = static_cast<std::uint8_t>(normalize_axis("permute", axis, rank, call.loc()));
  return view(Op::permute, value, attributes, {}, call.loc());
}

Tensor transpose(At x, int a, int b) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "transpose");
  int rank = type_of(value).shape.rank();
  a = normalize_axis("transpose", a, rank, call.loc());
  b = normalize_axis("transpose", b, rank, call.loc());
  Attributes attributes;
  for (int i = 0; i < rank; ++i) attributes.axes[i] = static_cast<std::uint8_t>(i == a ? b : i == b ? a : i);
  return view(Op::permute, value, attributes, {}, call.loc());
}

Tensor expand(At x, Sizes sizes) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "expand");
  const Shape& from = type_of(value).shape;
  Shape shape = sizes.shape();
  int lead = shape.rank() - from.rank();
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i].same(Dim(-1)) && i >= lead) shape[i] = from[i - lead];
  return from.same(shape) ? value : view(Op::expand, value, {}, shape, call.loc());
}

Tensor squeeze(At x, int axis) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "squeeze");
  const Shape& from = type_of(value).shape;
  axis = normalize_axis("squeeze", axis, from.rank(), call.loc());
  if (!from[axis].same(Dim(1))) return value;
  Shape shape;
  for (int i = 0; i < from.rank(); ++i)
    if (i != axis) shape.push_back(from[i]);
  return reshape_to(value, shape, call.loc());
}

Tensor unsqueeze(At x, int axis) {
  Composite call(nullptr, x.loc);
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

Tensor slice(At x, int axis, Dim start, Dim stop, std::int64_t step) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "slice");
  Shape shape = type_of(value).shape;
  axis = normalize_axis("slice", axis, shape.rank(), call.loc());
  if (step == 0) fail("slice", call.loc(), "the step is 0");
  Dim size = shape[axis];
  // Python's rules: negative positions count from the end, everything is clamped to what exists.
  auto clamp = [&](Dim position, Dim low, Dim high) { return position < low ? low : position > high ? high : position; };
  auto from_end = [&](Dim position) { return position < Dim(0) ? position + size : position; };
  if (step > 0) {
    start = clamp(from_end(start), 0, size);
    stop = stop.same(Dim(slice_end)) ? size : clamp(from_end(stop), 0, size);
  } else {
    start = start.same(Dim(slice_end)) ? size - Dim(1) : clamp(from_end(start), -1, size - Dim(1));
    stop = stop.same(Dim(slice_end)) ? Dim(-1) : clamp(from_end(stop), -1, size - Dim(1));
  }
  Dim span = step > 0 ? stop - start : start - stop;
  Dim width = step > 0 ? Dim(step) : Dim(-step);
  Dim count = span <= Dim(0) ? Dim(0) : (span + width - Dim(1)) / width;
  if (step == 1 && start.same(Dim(0)) && count.same(size)) return value;
  Attributes attributes;
  attributes.axes[0] = static_cast<std::uint8_t>(axis);
  attributes.value = step;
  attributes.start = count.same(Dim(0)) ? Dim(0) : start;
  shape[axis] = count;
  return view(Op::slice, value, attributes, shape, call.loc());
}

Tensor select(At x, int axis, Dim index) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "select");
  const Shape& from = type_of(value).shape;
  axis = normalize_axis("select", axis, from.rank(), call.loc());
  Dim position = index < Dim(0) ? index + from[axis] : index;
  if (position < Dim(0) || position >= from[axis])
    fail("select", call.loc(), "index ", dims::to_string(index), " is out of range for axis ", axis, " of ", to_string(type_of(value)));
  return squeeze(slice(value, axis, position, position + Dim(1)), axis);
}

Tensor flip(At x, int axis) {
  Composite call(nullptr, x.loc);
  return slice(x, axis, slice_end, slice_end, -1);
}

std::vector<Tensor> split(At x, Dim size, int axis) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "split");
  axis = normalize_axis("split", axis, type_of(value).shape.rank(), call.loc());
  if (size < Dim(1)) fail("split", call.loc(), "the size of a part is ", dims::to_string(size));
  auto total = static_cast<std::int64_t>(type_of(value).shape[axis]), step = static_cast<std::int64_t>(size);
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < total; at += step) parts.push_back(slice(value, axis, at, std::min(at + step, total)));
  return parts;
}

// ---- assembling ---------------------------------------------------------------------------------------------------

Tensor concat(std::span<const Tensor> parts, int axis, Loc loc) {
  Composite call(nullptr, loc);
  if (parts.empty()) fail("concat", call.loc(), "of no tensors");
  std::vector<Tensor> values;
  Promotable common{};
  for (const Tensor& part : parts) {
    values.push_back(resolve(At(part, loc), "concat"));
    const Type& type = type_of(part);
    Promotable next{type.dtype, type.shape.rank() == 0, type.weak};
    common = values.size() == 1 ? next : Promotable{promote(common, next), common.scalar && next.scalar, common.weak && next.weak};
  }
  axis = normalize_axis("concat", axis, type_of(values[0]).shape.rank(), call.loc());
  for (Tensor& value : values) value = cast(value, common.dtype);
  if (values.size() == 1) return values[0];
  Attributes attributes;
  attributes.axes[0] = static_cast<std::uint8_t>(axis);
  return record(Op::concat, values, attributes, {}, call.loc());
}
Tensor concat(std::initializer_list<Tensor> parts, int axis, Loc loc) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, loc);
}
Tensor stack(std::span<const Tensor> parts, int axis, Loc loc) {
  Composite call(nullptr, loc);
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
Tensor pad(At x, int axis, Dim before, Dim after, std::int64_t interior) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "pad");
  axis = normalize_axis("pad", axis, type_of(value).shape.rank(), call.loc());
  if (before < Dim(0) || after < Dim(0) || interior < 0) fail("pad", call.loc(), "negative padding");
  if (before.same(Dim(0)) && after.same(Dim(0)) && interior == 0) return value;
  if (interior && type_of(value).shape[axis] == Dim(0)) fail("pad", call.loc(), "interior padding of an empty axis");
  Attributes attributes;
  attributes.axes[0] = static_cast<std::uint8_t>(axis);
  attributes.start = before;
  attributes.stop = after;
  attributes.value = interior;
  return record(Op::pad, {value}, attributes, {}, call.loc());
}

// ---- reductions ---------------------------------------------------------------------------------------------------

namespace {

Tensor reduce(Op op, const Tensor& value, const Axes& axes, bool keepdim, Loc loc) {
  const char* name = info(op).name;
  const Shape& from = type_of(value).shape;
  if (axes.count() > max_rank) fail(name, loc, "more than ", max_rank, " axes");
  Attributes attributes;
  bool reduced[max_rank] = {};
  if (axes.count() == 0)
    for (int i = 0; i < from.rank(); ++i) reduced[i] = true;
  for (int i = 0; i < axes.count(); ++i) {
    int axis = normalize_axis(name, axes[i], from.rank(), loc);
    if (reduced[axis]) fail(name, loc, "axis ", axis, " is named twice");
    reduced[axis] = true;
  }
  Shape squeezed;
  for (int i = 0; i < from.rank(); ++i) {
    attributes.axes[i] = reduced[i];
    if (!reduced[i]) squeezed.push_back(from[i]);
  }
  Tensor result = record(op, {value}, attributes, {}, loc);
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
  for (int i = 0; i < axes.count(); ++i) count = count * from[normalize_axis(name, axes[i], from.rank(), loc)];
  return count;
}

}  // namespace

Tensor sum(At x, Axes axes, bool keepdim) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "sum");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::i64);
  return reduce(Op::sum, value, axes, keepdim, call.loc());
}
Tensor prod(At x, Axes axes, bool keepdim) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "prod");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::i64);
  return reduce(Op::prod, value, axes, keepdim, call.loc());
}
Tensor amax(At x, Axes axes, bool keepdim) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "amax");
  if (type_of(value).dtype == DType::boolean) return reduce_boolean(Op::amax, value, axes, keepdim, call.loc());
  return reduce(Op::amax, value, axes, keepdim, call.loc());
}
Tensor amin(At x, Axes axes, bool keepdim) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "amin");
  if (type_of(value).dtype == DType::boolean) return reduce_boolean(Op::amin, value, axes, keepdim, call.loc());
  return reduce(Op::amin, value, axes, keepdim, call.loc());
}
Tensor any(At x, Axes axes, bool keepdim) {
  Composite call("any", x.loc);
  Tensor value = resolve(x, "any");
  return cast(sum(cast(not_equal(value, type_of(value).dtype == DType::boolean ? At(false) : At(0)), DType::i64), axes, keepdim), DType::boolean);
}
Tensor all(At x, Axes axes, bool keepdim) {
  Composite call("all", x.loc);
  Tensor value = resolve(x, "all");
  return ~any(equal(value, type_of(value).dtype == DType::boolean ? At(false) : At(0)), axes, keepdim);
}
Tensor argmax(At x, int axis, bool keepdim) {
  Composite call(nullptr, x.loc);
  Tensor value = resolve(x, "argmax");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::u8);
  return reduce(Op::argmax, value, Axes(axis), keepdim, call.loc());
}
Tensor mean(At x, Axes axes, bool keepdim) {
  Composite call("mean", x.loc);
  Tensor value = resolve(x, "mean");
  if (!is_floating(type_of(value).dtype))
    fail("mean", call.loc(), "needs a floating dtype, it is ", to_string(type_of(value)), ": cast it first");
  return sum(value, axes, keepdim) / dim_value(reduced_count(value, axes, "mean", call.loc()), call.loc());
}
Tensor var(At x, Axes axes, double correction, bool keepdim) {
  Composite call("var", x.loc);
  Tensor value = resolve(x, "var");
  Tensor centered = value - mean(value, axes, true);
  Tensor count = dim_value(reduced_count(value, axes, "var", call.loc()), call.loc());
  return sum(centered * centered, axes, keepdim) / (count - correction);
}

// ---- contractions ---------------------------------------------------------------------------------------------------

Tensor matmul(At left, At right) {
  Composite call(nullptr, left.loc);
  Tensor a = resolve(left, "matmul"), b = resolve(right, "matmul");
  const Type ta = type_of(a), tb = type_of(b);
  if (ta.shape.rank() == 0 || tb.shape.rank() == 0)
    fail("matmul", call.loc(), "needs at least 1 axis: ", to_string(ta), " x ", to_string(tb));
  DType dtype = promote({ta.dtype, false, ta.weak}, {tb.dtype, false, tb.weak});
  a = cast(a, dtype);
  b = cast(b, dtype);
  bool vector_a = ta.shape.rank() == 1, vector_b = tb.shape.rank() == 1;
  if (vector_a) a = unsqueeze(a, 0);
  if (vector_b) b = unsqueeze(b, 1);
  Shape sa = type_of(a).shape, sb = type_of(b).shape;
  if (!(sa[sa.rank() - 1] == sb[sb.rank() - 2]))
    fail("matmul", call.loc(), "inner sizes differ: ", to_string(ta), " x ", to_string(tb));
  int rank = std::max(sa.rank(), sb.rank());
  if (rank > 2) {
    Shape full_a, full_b;
    full_a.resize(rank), full_b.resize(rank);
    for (int axis = 3; axis <= rank; ++axis) {
      Dim x = axis <= sa.rank() ? sa[sa.rank() - axis] : Dim(1), y = axis <= sb.rank() ? sb[sb.rank() - axis] : Dim(1);
      Dim merged = x.same(Dim(1)) ? y : x;
      if (!y.same(Dim(1)) && !(merged == y))
        fail("matmul", call.loc(), "batch sizes differ: ", to_string(ta), " x ", to_string(tb));
      full_a[rank - axis] = full_b[rank - axis] = merged;
    }
    for (int axis = 1; axis <= 2; ++axis) {
      full_a[rank - axis] = sa[sa.rank() - axis];
      full_b[rank - axis] = sb[sb.rank() - axis];
    }
    a = expand(a, full_a);
    b = expand(b, full_b);
  }
  Tensor result = record(Op::matmul, {a, b}, {}, {}, call.loc());
  if (vector_b) result = squeeze(result, -1);
  if (vector_a) result = squeeze(result, vector_b ? -1 : -2);
  return result;
}

// ---- indexing -----------------------------------------------------------------------------------------------------

void check_range(const Tensor& index, Dim rows, const char* operation, Loc loc) {
  if (index.element_count().same(Dim(0))) return;
  Tensor fine = ~any((index < 0) | (index >= dim_value(rows, loc)));
  std::string message = concat_text("[", operation, "] an index is out of range [0, ", dims::to_string(rows), ")");
  if (loc.file) message += ", at " + to_string(loc);
  Tensor token = record(Op::check, {fine}, Attributes::integer(intern_text(message)), {}, loc);
  if (!recorder().trace()) token.eval(loc);
}

Tensor gather(At x, At index) {
  Composite call("gather", x.loc);
  Tensor table = resolve(x, "gather"), rows = cast(index, DType::i64);
  if (is_floating(type_of(resolve(index, "gather")).dtype))
    fail("gather", call.loc(), "the index must be an integer, it is ", to_string(type_of(resolve(index, "gather"))));
  if (type_of(table).shape.rank() == 0) fail("gather", call.loc(), "from a 0-d tensor");
  check_range(rows, type_of(table).shape[0], "gather", call.loc());
  return record(Op::gather, {table, rows}, {}, {}, call.loc());
}

Tensor one_hot(At index, Dim classes, DType dtype) {
  Composite call("one_hot", index.loc);
  Tensor rows = resolve(index, "one_hot");
  if (is_floating(type_of(rows).dtype)) fail("one_hot", call.loc(), "the index must be an integer, it is ", to_string(type_of(rows)));
  rows = cast(rows, DType::i64);
  check_range(rows, classes, "one_hot", call.loc());
  return cast(unsqueeze(rows, -1) == arange(classes), dtype);
}

// ---- activations --------------------------------------------------------------------------------------------------

Tensor square(At x) {
  Composite call("square", x.loc);
  Tensor value = resolve(x, "square");
  return value * value;
}
Tensor gelu(At x, Gelu form) {
  Composite call("gelu", x.loc);
  Tensor result;
  detail::apply_elementwise(form == Gelu::exact ? *own_expressions().gelu : *own_expressions().gelu_tanh, &x, &result);
  return result;
}
Tensor silu(At x) {
  Composite call("silu", x.loc);
  Tensor value = resolve(x, "silu");
  return value * sigmoid(value);
}
Tensor clamp(At x, At low, At high) {
  Composite call("clamp", x.loc);
  return minimum(maximum(x, low), high);
}

// A row that is all -inf has no distribution: its softmax is NaN, as in PyTorch.
Tensor softmax(At x, int axis) {
  Composite call("softmax", x.loc);
  Tensor value = resolve(x, "softmax");
  Tensor e = exp(value - stop_gradient(amax(value, axis, true)));
  return e / sum(e, axis, true);
}
Tensor log_softmax(At x, int axis) {
  Composite call("log_softmax", x.loc);
  Tensor value = resolve(x, "log_softmax");
  Tensor shifted = value - stop_gradient(amax(value, axis, true));
  return shifted - log(sum(exp(shifted), axis, true));
}
Tensor logsumexp(At x, int axis, bool keepdim) {
  Composite call("logsumexp", x.loc);
  Tensor value = resolve(x, "logsumexp");
  Tensor top = stop_gradient(amax(value, axis, true));
  Tensor finite = where(isfinite(top), top, 0);
  Tensor result = log(sum(exp(value - finite), axis, true)) + finite;
  return keepdim ? result : squeeze(result, axis);
}

Tensor stop_gradient(At x) {
  Composite call(nullptr, x.loc);
  return record(Op::stop_gradient, {resolve(x, "stop_gradient")}, {}, {}, call.loc());
}

}  // namespace weft
