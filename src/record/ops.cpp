// The public functions but for shape_ops.cpp and reductions.cpp: promotion, broadcasting, argument checks, and
// composites over the primitives of weft/ops.def.
#include "weft/ops.hpp"

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/dry_run.hpp"
#include "record/elementwise.hpp"
#include "record/expressions.hpp"
#include "record/indexing.hpp"
#include "record/ones.hpp"
#include "record/products.hpp"

namespace weft {

// ---- pointwise primitives: one definition for every row -------------------------------------------------------------

#define WEFT_DEFINE_1(name) \
  Tensor name(At a) { return pointwise(Op::name, std::span<const At>(&a, 1)); }
#define WEFT_DEFINE_2(name)               \
  Tensor name(At a, At b) {               \
    const At operands[] = {a, b};         \
    return pointwise(Op::name, operands); \
  }
#define WEFT_DEFINE_3(name)               \
  Tensor name(At a, At b, At c) {         \
    const At operands[] = {a, b, c};      \
    return pointwise(Op::name, operands); \
  }
#define WEFT_POINTWISE(name, arity, ...) WEFT_DEFINE_##arity(name)
#include "weft/ops.def"
#undef WEFT_DEFINE_1
#undef WEFT_DEFINE_2
#undef WEFT_DEFINE_3

namespace {
bool is_boolean(const At& x) {
  return x.tensor ? x.tensor->defined() && type_of(*x.tensor).dtype == DType::boolean : x.kind == DTypeKind::boolean;
}
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
Tensor operator<<(const Tensor& a, At b) { return bitwise_left_shift(At(a, b.loc), b); }
Tensor operator>>(const Tensor& a, At b) { return bitwise_right_shift(At(a, b.loc), b); }

// In-place forms rebind the handle; the dtype and the shape stay, as in PyTorch.
namespace {
Tensor& assign(Tensor& a, Tensor result, const At& b) {
  if (!(type_of(result).shape == type_of(a).shape))
    fail("in-place", b.loc, "the result ", to_string(type_of(result)), " does not fit into ", to_string(type_of(a)));
  if (type_of(result).dtype != type_of(a).dtype) {
    if (info(type_of(result).dtype).kind > info(type_of(a).dtype).kind)  // bool < integers < floats
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

Param& operator+=(Param& a, At b) { return a.tensor() += b, a; }
Param& operator-=(Param& a, At b) { return a.tensor() -= b, a; }
Param& operator*=(Param& a, At b) { return a.tensor() *= b, a; }
Param& operator/=(Param& a, At b) { return a.tensor() /= b, a; }
Buffer& operator+=(Buffer& a, At b) { return a.tensor() += b, a; }
Buffer& operator-=(Buffer& a, At b) { return a.tensor() -= b, a; }
Buffer& operator*=(Buffer& a, At b) { return a.tensor() *= b, a; }
Buffer& operator/=(Buffer& a, At b) { return a.tensor() /= b, a; }

Scalar operator+(const Scalar& a, const Scalar& b) { return Scalar(add(a, b)); }
Scalar operator-(const Scalar& a, const Scalar& b) { return Scalar(sub(a, b)); }
Scalar operator*(const Scalar& a, const Scalar& b) { return Scalar(mul(a, b)); }
Scalar operator/(const Scalar& a, const Scalar& b) { return Scalar(div(a, b)); }
Scalar pow(const Scalar& a, const Scalar& b) { return Scalar(pow(At(a), At(b))); }
Scalar sqrt(const Scalar& a) { return Scalar(sqrt(At(a))); }
Index detail::add(const Index& a, const Index& b) { return Index(weft::add(a, b)); }
Index detail::sub(const Index& a, const Index& b) { return Index(weft::sub(a, b)); }
Index detail::mul(const Index& a, const Index& b) { return Index(weft::mul(a, b)); }

// ---- dtype --------------------------------------------------------------------------------------------------------

// A function that would compute a float of 8 bits in a wider one, as it does those of 16 bits.
static void refuse_to_widen(const Tensor& value, DType dtype, Loc loc) {
  const DType from = type_of(value).dtype;
  const std::string_view called = called_operation();
  if (only_holds(from) && from != dtype && called != "cast" && called != "scaled_matmul")
    fail("cast", loc, "is not defined on ", info(from).name,
         ", which holds numbers and computes nothing, cast first: ", to_string(type_of(value)));
}

Tensor cast(At x, DType dtype) {
  Operation call("cast", x.loc);
  Tensor value = resolve(x, "cast");
  if (type_of(value).dtype == dtype && !type_of(value).weak) return value;
  refuse_to_widen(value, dtype, call.loc());
  return record(Op::cast, {value}, {}, Type{dtype}, call.loc());
}
Tensor bitcast(At x, DType dtype) {
  Operation call("bitcast", x.loc);
  return record(Op::bitcast, {resolve(x, "bitcast")}, {}, Type{dtype}, call.loc());
}

// ---- contractions ---------------------------------------------------------------------------------------------------

namespace {
Tensor product(At left, At right, bool accumulated) {
  Operation call("matmul", left.loc);
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
  if (ta.shape.rank() > 2 || tb.shape.rank() > 2) {  // batches broadcast
    Tensor both[] = {a, b};
    settle_ones(both, 2, call.loc());
    a = both[0], b = both[1];
  }
  Shape sa = type_of(a).shape, sb = type_of(b).shape;
  if (!(sa[sa.rank() - 1] == sb[sb.rank() - 2]))
    fail("matmul", call.loc(), "inner sizes differ: ", to_string(ta), " x ", to_string(tb));
  // A batch times one matrix is one product of all rows: the gradient of the matrix is one, too, and no sum of many.
  const Shape unfolded = sa;
  const bool folds = sa.rank() > 2 && sb.rank() == 2;
  if (folds) {
    Dim rows = 1;
    for (int axis = 0; axis + 1 < sa.rank(); ++axis) rows = rows * sa[axis];
    Shape folded;
    folded.resize(2);
    folded[0] = rows, folded[1] = sa[sa.rank() - 1];
    a = reshape_to(a, folded, call.loc());
    sa = type_of(a).shape;
  }
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
  Type wanted = type_of(a);
  if (accumulated) wanted.dtype = dtype_of_sums(wanted.dtype);
  Tensor result = record(Op::matmul, {a, b}, {}, wanted, call.loc());
  if (folds) {
    Shape shape = unfolded;
    shape[shape.rank() - 1] = sb[1];
    result = reshape_to(result, shape, call.loc());
  }
  if (vector_b) result = squeeze(result, -1);
  if (vector_a) result = squeeze(result, vector_b ? -1 : -2);
  return result;
}
}  // namespace

Tensor matmul(At left, At right) { return product(left, right, false); }
Tensor accumulated_matmul(const Tensor& a, const Tensor& b, Loc loc) { return product(At(a, loc), At(b, loc), true); }

// ---- indexing -----------------------------------------------------------------------------------------------------

void require(const Tensor& condition, const char* operation, Loc loc, const std::string& text) {
  const std::string message = error_text(operation, loc, text);
  Tensor token = record(Op::check, {condition}, Message{{intern_text(message)}}, {}, loc);
  if (!recorder().trace() && !is_dry_run) token.eval(loc);
}

Tensor gather(At x, At index) {
  LooseComposite call("gather", x.loc);
  Tensor table = resolve(x, "gather"), rows = integers("gather", index, call.loc());
  if (type_of(table).shape.rank() == 0) fail("gather", call.loc(), "from a 0-d tensor");
  check_places(rows, table, 0, "gather", call.loc());
  return record(Op::gather, {table, beside(rows, table, call.loc())}, {}, {}, call.loc());
}

namespace {

// [0, most] holds the position, or the user's error when the value is computed; it ends with `what`. It says the
// position where that is known at once.
void check_position(const char* operation, const Tensor& position, Dim most, const std::string& what, Loc loc) {
  const Tensor fine = (position >= 0) & (position <= dim_value(most, loc));
  const std::string text = concat_text("the position is out of range [0, ", dims::to_string(most), "]");
  try {
    require(fine, operation, loc, text + ", " + what);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    if (recorder().trace() || type_of(position).device.type != Device::Type::cpu) throw;
    const auto given = position.item<std::int64_t>();
    if (given >= 0 && Dim(given) <= most) throw;
    fail(operation, loc, text, ": ", given, ", ", what);
  }
}
std::string part_text(Dim length, int axis, const Tensor& x) {
  return concat_text("for a part of ", dims::to_string(length), " of axis ", axis, " of ", to_string(type_of(x)));
}
// Where x lies, the position of a part of it, which is checked. A position that the host knows is checked there: nobody
// waits for a device then.
Tensor position_of(const char* operation, const At& start, const Tensor& x, Dim most, const std::string& what,
                   Loc loc) {
  const Tensor given = resolve(start, operation);
  if (!is_integer(type_of(given).dtype) || !(type_of(given).shape.element_count() == Dim(1)))
    fail(operation, loc, "the position must be one integer, it is ", to_string(type_of(given)));
  const Tensor number = reshape_to(given, {}, loc);
  const Device here = type_of(number).device, there = type_of(x).device;
  const bool is_known = here.type == Device::Type::cpu && !recorder().trace();
  const Tensor position = coerce(number, DType::i64, false, {}, is_known ? here : there, loc);
  check_position(operation, position, most, what, loc);
  return coerce(position, DType::i64, false, {}, there, loc);
}

}  // namespace

Tensor detail::slice_at(At x, int axis, const Index& start, Dim length) {
  LooseComposite call("slice", x.loc);
  const Loc loc = call.loc();
  const Tensor value = resolve(x, "slice");
  const int rank = type_of(value).shape.rank();
  axis = normalize_axis("slice", axis, rank, loc);
  const Dim size = type_of(value).shape[axis];
  if (length < Dim(0) || size < length)
    fail("slice", loc, "a part of ", dims::to_string(length), " along axis ", axis, " of ", to_string(type_of(value)));
  const Tensor first = position_of("slice", At(start, loc), value, size - length, part_text(length, axis, value), loc);
  Tensor rows = arange(length, {DType::i64}, loc);
  rows = first + rows;
  if (axis == 0) return record(Op::gather, {value, rows}, {}, {}, loc);
  const Tensor front = record(Op::gather, {transpose(value, 0, axis), rows}, {}, {}, loc);
  return transpose(front, 0, axis);
}

Tensor update_slice(At x, At update, int axis, At start) {
  LooseComposite call("update_slice", x.loc);
  const Tensor value = resolve(x, "update_slice"), part = resolve(update, "update_slice");
  axis = normalize_axis("update_slice", axis, type_of(value).shape.rank(), call.loc());
  return write_slice(value, part, axis, start, {}, call.loc());
}
Tensor write_slice(const Tensor& value, const Tensor& part, int axis, const At& start, const std::string& what,
                   Loc loc) {
  const Shape &whole = type_of(value).shape, &own = type_of(part).shape;
  if (type_of(value).dtype != type_of(part).dtype)
    fail("update_slice", loc, "an update has another dtype than what it is written into: ", to_string(type_of(part)),
         " into ", to_string(type_of(value)));
  bool fits = own.rank() == whole.rank();
  for (int i = 0; fits && i < whole.rank(); ++i) fits = i == axis || whole[i] == own[i];
  if (!fits || whole[axis] < own[axis])
    fail("update_slice", loc, "an update ", to_string(type_of(part)), " does not fit into ", to_string(type_of(value)),
         " along axis ", axis);
  const Tensor first = position_of("update_slice", start, value, whole[axis] - own[axis],
                                   what.empty() ? part_text(own[axis], axis, value) : what, loc);
  return record(Op::update_slice, {value, part, first}, Along{static_cast<std::uint8_t>(axis)}, {}, loc);
}

Tensor one_hot(At index, Dim classes, DType dtype) {
  LooseComposite call("one_hot", index.loc);
  Tensor rows = resolve(index, "one_hot");
  if (is_floating(type_of(rows).dtype))
    fail("one_hot", call.loc(), "the index must be an integer, it is ", to_string(type_of(rows)));
  if (classes < Dim(1)) fail("one_hot", call.loc(), "needs a class at least, it has ", dims::to_string(classes));
  rows = cast(rows, DType::i64);
  check_range(rows, classes, "one_hot", call.loc());
  return cast(unsqueeze(rows, -1) == arange(classes), dtype);
}

// ---- activations --------------------------------------------------------------------------------------------------

Tensor square(At x) {
  LooseComposite call("square", x.loc);
  Tensor value = resolve(x, "square");
  if (type_of(value).dtype == DType::boolean) value = cast(value, DType::i64);  // the number, as in PyTorch
  return value * value;
}
Tensor gelu(At x, Gelu form) {
  check_choice("gelu", "Gelu", form, Gelu::tanh, x.loc);
  const auto& expression = form == Gelu::exact ? own_expressions().gelu : own_expressions().gelu_tanh;
  const auto apply = [&](const At& x) {
    Tensor result;
    detail::apply_elementwise(*expression, &x, &result);
    return result;
  };
  {
    Operation call("gelu", x.loc);
    const Tensor value = resolve(x, "gelu");
    if (is_floating(type_of(value).dtype) && computed_in(type_of(value).dtype) != type_of(value).dtype)
      return composite(
          ChoiceCall{called("gelu"), form == Gelu::tanh}, call.loc(),
          [&](const Tensor& value) { return in_wide(value, [&](const Tensor& wide) { return apply(wide); }); }, value);
  }
  LooseComposite call("gelu", x.loc);
  return apply(x);
}
Tensor silu(At x) {
  Operation call("silu", x.loc);
  const auto record = [](const Tensor& value) {
    return in_wide(value, [](const Tensor& wide) { return wide * sigmoid(wide); });
  };
  return composite(called("silu"), call.loc(), record, resolve(x, "silu"));
}
// PyTorch's derivatives: x has the gradient from bound to bound, both included; `low` where it replaces x and does
// not lie above `high`; `high` where it replaces x or lies below `low`. What has none of them is a constant, NaN among
// it.
Tensor clamp(At x, At low, At high) {
  LooseComposite call("clamp", x.loc);
  Tensor values[] = {resolve(x, "clamp"), resolve(low, "clamp"), resolve(high, "clamp")};
  unify("clamp", values, DTypeClass::arithmetic, call.loc());
  const auto& [value, least, greatest] = values;
  Tensor result = stop_gradient(minimum(maximum(value, least), greatest));
  if (!is_floating(type_of(result).dtype)) return result;
  Tensor above_least = least <= value;
  if (low.tensor || high.tensor) {
    const Tensor turned = (greatest < least) & ~isnan(value);
    result = where((above_least & (greatest < value)) | turned, greatest, result);
    result = where((value < least) & (least <= greatest), least, result);
  }
  return where(above_least & (value <= greatest), value, result);
}

namespace {
// Of a composite over one axis.
int axis_of(const Attributes& called) {
  int axis = 0;
  while (!called.as<ReducedCall>().axes[axis]) ++axis;
  return axis;
}
// A composite over one axis.
template <class F>
Tensor along(const char* name, const At& x, int axis, F record, bool keepdim = false,
             CallDerivative derivative = nullptr) {
  Operation call(name, x.loc);
  Tensor value = resolve(x, name);
  if (type_of(value).shape.rank() == 0)  // a row of one
    return reshape_to(along(name, unsqueeze(value, 0), axis, record, keepdim, derivative), {}, call.loc());
  const int normal = normalize_axis(name, axis, type_of(value).shape.rank(), call.loc());
  ReducedCall over{called(name), {}, keepdim};
  over.axes.insert(normal);
  const auto body = [&](const Tensor& value) {
    return in_wide(value, [&](const Tensor& wide) { return record(wide, normal); });
  };
  return composite_with(derivative, over, call.loc(), body, std::move(value));
}

// Both read the result, which the forward pass has, and not the operand.
void differentiate_softmax(const CallValues& call, std::span<Tensor> gradients) {
  gradients[0] = in_wide(call.results[0], [&](const Tensor& result) {
    const Tensor weighted = result * cast(call.gradients[0], type_of(result).dtype);
    return weighted - result * sum(weighted, axis_of(call.called), true);
  });
}
void differentiate_log_softmax(const CallValues& call, std::span<Tensor> gradients) {
  gradients[0] = in_wide(call.results[0], [&](const Tensor& result) {
    const Tensor gradient = cast(call.gradients[0], type_of(result).dtype);
    return gradient - exp(result) * sum(gradient, axis_of(call.called), true);
  });
}
}  // namespace

// The greatest element of each row, a constant to the derivative. Of a row of no elements that can only be asked of a
// symbolic size, and is -infinity: amax would guard that there are some.
static Tensor greatest(const Tensor& value, int axis) {
  Reduce over;
  over.axes.insert(axis);
  return stop_gradient(record(Op::amax, {value}, over, {}, {}));
}

// A row that is all -inf has no distribution: its softmax is NaN, as in PyTorch. A row of no elements has no greatest
// one, and stays as it is.
Tensor softmax(At x, int axis) {
  const auto record = [](const Tensor& value, int axis) {
    if (type_of(value).shape[axis].same(Dim(0))) return value;
    Tensor e = exp(value - greatest(value, axis));
    return e / sum(e, axis, true);
  };
  return along("softmax", x, axis, record, false, differentiate_softmax);
}
Tensor log_softmax(At x, int axis) {
  const auto record = [](const Tensor& value, int axis) {
    if (type_of(value).shape[axis].same(Dim(0))) return value;
    Tensor shifted = value - greatest(value, axis);
    return shifted - log(sum(exp(shifted), axis, true));
  };
  return along("log_softmax", x, axis, record, false, differentiate_log_softmax);
}
Tensor logsumexp(At x, int axis, bool keepdim) {
  const auto record = [keepdim](const Tensor& value, int axis) {
    Tensor result;
    if (type_of(value).shape[axis].same(Dim(0))) {  // log(0)
      result = log(sum(exp(value), axis, true));
    } else {
      Tensor top = greatest(value, axis);
      Tensor finite = where(isfinite(top), top, 0);
      result = log(sum(exp(value - finite), axis, true)) + finite;
    }
    return keepdim ? result : squeeze(result, axis);
  };
  return along("logsumexp", x, axis, record, keepdim);
}

Tensor stop_gradient(At x) {
  Operation call("stop_gradient", x.loc);
  return record(Op::stop_gradient, {resolve(x, "stop_gradient")}, {}, {}, call.loc());
}

}  // namespace weft
