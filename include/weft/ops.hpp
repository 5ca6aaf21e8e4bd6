// Operations on tensors. Operands are tensors, parameters, Scalars or literals in any mix; shapes broadcast as in NumPy
// and PyTorch; dtypes promote by PyTorch's rules (weft/dtype.hpp), also in matrix products, where PyTorch wants one
// dtype. All throw weft::Error with the caller's line on shapes or dtypes that do not fit. Pointwise primitives come
// from weft/ops.def, the rest are short functions over them.
#pragma once
#include <vector>

#include "weft/members.hpp"
#include "weft/tensor.hpp"

namespace weft {

// ---- pointwise primitives: exp(x), maximum(a, b), where(c, a, b), ... -----------------------------------------------
#define WEFT_DECLARE_1(name) Tensor name(At a);
#define WEFT_DECLARE_2(name) Tensor name(At a, At b);
#define WEFT_DECLARE_3(name) Tensor name(At a, At b, At c);
#define WEFT_POINTWISE(name, arity, ...) WEFT_DECLARE_##arity(name)
#include "weft/ops.def"
#undef WEFT_DECLARE_1
#undef WEFT_DECLARE_2
#undef WEFT_DECLARE_3
// Too few arguments are refused. The comment is a part of what the compiler says, here and below.
template <class C>
Tensor where(const C&) = delete;  // weft: where(c, x, y) takes two values; the places where c is true are nonzero(c)
template <class C, class T>
Tensor where(const C&, const T&) = delete;  // weft: where(c, x, y) takes two values

Tensor operator+(At a, At b);              // a + b
Tensor operator-(At a, At b);              // a - b
Tensor operator*(At a, At b);              // a b
Tensor operator/(At a, At b);              // a / b; of integers an f32
Tensor operator%(At a, At b);              // remainder: the sign is the divisor's
Tensor operator-(At a);                    // -a
Tensor operator==(At a, At b);             // bool: a is equal to b
Tensor operator!=(At a, At b);             // bool: a is not equal to b; a NaN is equal to nothing
Tensor operator<(At a, At b);              // bool: a is less than b
Tensor operator<=(At a, At b);             // bool: a is at most b
Tensor operator>(At a, At b);              // bool: a is greater than b
Tensor operator>=(At a, At b);             // bool: a is at least b
Tensor operator&(At a, At b);              // bitwise_and
Tensor operator|(At a, At b);              // bitwise_or
Tensor operator^(At a, At b);              // bitwise_xor
Tensor operator~(At a);                    // bitwise_not
Tensor operator<<(const Tensor& a, At b);  // bitwise_left_shift
Tensor operator>>(const Tensor& a, At b);  // bitwise_right_shift
Tensor& operator+=(Tensor& a, At b);       // a = a + b, in the dtype of a
Tensor& operator-=(Tensor& a, At b);       // a = a - b, in the dtype of a
Tensor& operator*=(Tensor& a, At b);       // a = a * b, in the dtype of a
Tensor& operator/=(Tensor& a, At b);       // a = a / b, in the dtype of a
Param& operator+=(Param& a, At b);         // a = a + b, in the dtype of a
Param& operator-=(Param& a, At b);         // a = a - b, in the dtype of a
Param& operator*=(Param& a, At b);         // a = a * b, in the dtype of a
Param& operator/=(Param& a, At b);         // a = a / b, in the dtype of a
Buffer& operator+=(Buffer& a, At b);       // a = a + b, in the dtype of a
Buffer& operator-=(Buffer& a, At b);       // a = a - b, in the dtype of a
Buffer& operator*=(Buffer& a, At b);       // a = a * b, in the dtype of a
Buffer& operator/=(Buffer& a, At b);       // a = a / b, in the dtype of a
// x[i] += y: x[i] is a new value.
template <std::same_as<Tensor> T>
void operator+=(T&& a, At b) {
  std::move(a) = b;
}
template <std::same_as<Tensor> T>
void operator-=(T&& a, At b) {
  std::move(a) = b;
}
template <std::same_as<Tensor> T>
void operator*=(T&& a, At b) {
  std::move(a) = b;
}
template <std::same_as<Tensor> T>
void operator/=(T&& a, At b) {
  std::move(a) = b;
}
// A string, a vector, a Linear: one sentence instead of every operator there is.
class Sym;
namespace detail {
template <class T>
concept AnyTensor = std::is_same_v<T, Tensor> || std::is_same_v<T, Param> || std::is_same_v<T, Buffer>;
template <class T>
concept NoOperand = !std::is_convertible_v<const T&, At> && !std::is_same_v<T, Sym>;
template <class A, class B>
concept TensorAndOther = (AnyTensor<A> && NoOperand<B>) || (AnyTensor<B> && NoOperand<A>);
template <class A>
Tensor refuse_operand_of_tensor() {
  static_assert(!sizeof(A),
                "weft: the operands of a tensor's operators are tensors, parameters, Scalars, sizes and "
                "numbers: make a tensor of anything else (from_span, from_list)");
  return {};
}
}  // namespace detail
#define WEFT_REFUSE_OTHERS(op)                                                   \
  template <class A, class B>                                                    \
  requires detail::TensorAndOther<A, B> Tensor operator op(const A&, const B&) { \
    return detail::refuse_operand_of_tensor<A>();                                \
  }
WEFT_REFUSE_OTHERS(+)
WEFT_REFUSE_OTHERS(-)
WEFT_REFUSE_OTHERS(*)
WEFT_REFUSE_OTHERS(/)
WEFT_REFUSE_OTHERS(<)
WEFT_REFUSE_OTHERS(>)
#undef WEFT_REFUSE_OTHERS
// && || ! are those of C++, on conditions of one element. Element by element: & | ~.

// Scalars stay scalars under arithmetic with numbers.
Scalar operator+(const Scalar& a, const Scalar& b);
Scalar operator-(const Scalar& a, const Scalar& b);
Scalar operator*(const Scalar& a, const Scalar& b);
Scalar operator/(const Scalar& a, const Scalar& b);
inline Scalar& operator+=(Scalar& a, const Scalar& b) { return a = a + b; }
inline Scalar& operator-=(Scalar& a, const Scalar& b) { return a = a - b; }
inline Scalar& operator*=(Scalar& a, const Scalar& b) { return a = a * b; }
inline Scalar& operator/=(Scalar& a, const Scalar& b) { return a = a / b; }
Scalar pow(const Scalar& a, const Scalar& b);
Scalar sqrt(const Scalar& a);
// An Index stays an Index under + - * with integers.
namespace detail {
Index add(const Index& a, const Index& b);
Index sub(const Index& a, const Index& b);
Index mul(const Index& a, const Index& b);
template <class T>
concept IndexOrInteger = std::is_same_v<T, Index> ||(std::is_integral_v<T> && !std::is_same_v<T, bool>);
template <class A, class B>
concept IndexAndInteger = IndexOrInteger<A> && IndexOrInteger<B> &&
    (std::is_same_v<A, Index> || std::is_same_v<B, Index>);
}  // namespace detail
#define WEFT_INDEX_OPERATOR(op, name)                                                                             \
  template <class A, class B>                                                                                     \
  requires detail::IndexAndInteger<A, B> Index operator op(const A& a, const B& b) { return detail::name(a, b); } \
  inline Index& operator op##=(Index& a, const detail::IndexOrInteger auto& b) { return a = detail::name(a, b); }
WEFT_INDEX_OPERATOR(+, add)
WEFT_INDEX_OPERATOR(-, sub)
WEFT_INDEX_OPERATOR(*, mul)
#undef WEFT_INDEX_OPERATOR

// ---- dtype --------------------------------------------------------------------------------------------------------
// Floats round to nearest, ties to even; to integers they are cut and saturate (NaN: 0); integers wrap; any number but
// 0 is true.
Tensor cast(At x, DType dtype);
// The same bits as another dtype of the same width; throws at another width. No derivative.
Tensor bitcast(At x, DType dtype);

// ---- more elementwise functions, made of the primitives -------------------------------------------------------------
// Values and derivatives are PyTorch's. Floating functions take integers as f32, and compute f16 and bf16 in f32.
Tensor hypot(At a, At b);       // sqrt(a^2 + b^2), without overflow; infinite beside an infinity; gradient 0 at 0
Tensor xlogy(At x, At y);       // x log(y), 0 where x is 0 and y no NaN
Tensor logaddexp(At a, At b);   // log(exp(a) + exp(b)), without overflow
Tensor logaddexp2(At a, At b);  // log2(2^a + 2^b)
Tensor copysign(At a, At b);    // |a| with the sign of b, that of a zero included
// The greater or lesser; of a NaN and a number the number. Integers stay integers.
Tensor fmax(At a, At b);
Tensor fmin(At a, At b);
Tensor frac(At x);     // x - trunc(x)
Tensor rad2deg(At x);  // x * 180 / pi
Tensor deg2rad(At x);  // x * pi / 180
// log(x / (1 - x)), NaN outside of [0, 1]. With an eps that is not negative x is first brought into [eps, 1 - eps];
// throws where eps is above 1/2.
Tensor logit(At x, double eps = -1);
Tensor isinf(At x);  // bool
// Of what is not 0, in bool; of values that are bool already, `~`, `&`, `|` and `^`.
Tensor logical_not(At x);
Tensor logical_and(At a, At b);
Tensor logical_or(At a, At b);
Tensor logical_xor(At a, At b);
Tensor signbit(At x);  // bool: x < 0, or -0, or a NaN with the sign bit
// x with other numbers for NaN and the infinities: by default 0 and the largest finite numbers of the dtype. Integers
// are as they are.
Tensor nan_to_num(At x, double nan = 0);
Tensor nan_to_num(At x, double nan, double positive, double negative);
Tensor heaviside(At x, At value);                // 0 below 0, 1 above, `value` at 0; 0 for NaN
Tensor lerp(At start, At end, At weight);        // start + weight (end - start)
Tensor addcmul(At x, At a, At b, At value = 1);  // x + value a b
Tensor addcdiv(At x, At a, At b, At value = 1);  // x + value a / b
struct Closeness {                               // how close isclose() and allclose() ask for
  double rtol = 1e-5;                            // the distance allowed, as a part of |b|
  double atol = 1e-8;                            // and added to that
  bool equal_nan = false;                        // whether a NaN is close to a NaN
  WEFT_MEMBERS(rtol, atol, equal_nan)
};
// bool: |a - b| <= atol + rtol |b|, or a == b; NaN is close to nothing, or with equal_nan to NaN. Integers compare as
// f64.
Tensor isclose(At a, At b, Closeness within = {});
Tensor allclose(At a, At b, Closeness within = {});  // bool of no axes: all are close

// ---- views: no copy ---------------------------------------------------------------------------------------------
// One size may be -1.
Tensor reshape(At x, Sizes sizes);
// Axes first_axis ... last_axis as one; of a tensor without axes a vector of one element.
Tensor flatten(At x, int first_axis = 0, int last_axis = -1);
// axes[i] is the source axis of result axis i.
Tensor permute(At x, Axes axes);
Tensor transpose(At x, int a = -2, int b = -1);  // with these two axes exchanged
// Size-1 axes (and new leading axes) are repeated; -1 keeps a size.
Tensor expand(At x, Sizes sizes);
// Without the axis if its size is 1, else as it is.
Tensor squeeze(At x, int axis);
// A new axis of size 1 at this place of the result.
Tensor unsqueeze(At x, int axis);
// Elements start, start+step, ... before stop along `axis`. Negative start and stop count from the end and are clamped
// as in Python; a negative step walks backwards. `slice_end` is Python's None: as a start the end from which the step
// leads, as a stop that to which it leads.
inline constexpr Dim slice_end = Dim::end();
Tensor slice(At x, int axis, Dim start, Dim stop = slice_end, Dim step = 1);
// From an Index the number after it is a LENGTH, and no stop as of the slice above: slice(x, 0, 2, 8) has 6 elements,
// slice(x, 0, Index(2), 8) has 8, as narrow(x, 0, 2, 8) does. An Index is known when it runs: another one is no new
// compilation. Throws, or stops the call, where the elements do not all exist.
namespace detail {
Tensor slice_at(At x, int axis, const Index& start, Dim length);
}
template <std::same_as<Index> Position>
Tensor slice(At x, int axis, const Position& start, Dim length) {
  return detail::slice_at(x, axis, start, length);
}
template <std::same_as<Index> Position>
Tensor slice(At, int, const Position&) = delete;  // weft: from an Index a slice has a length: slice(x, axis, index, 8)
template <class Start, std::same_as<Index> Stop>
Tensor slice(At, int, const Start&, const Stop&) = delete;  // weft: a length is a number: slice(x, axis, index, 8)
// x with `update` in the place of its elements from `start` on along `axis`; update has the sizes of x but there. Where
// x is state that a compiled function replaces, or the state of a loop, no more is written than the update. Throws, or
// stops the call, where the update does not fit there; throws where the other sizes or the dtypes differ.
Tensor update_slice(At x, At update, int axis, At start);
// One position along the axis, which goes. A negative index counts from the end; throws out of range.
Tensor select(At x, int axis, Dim index);
Tensor flip(At x, int axis);  // the elements along the axis the other way round
// Parts of this size along the axis, the last one of what is left; an axis of size 0 gives one empty part. Inside a
// compiled function the count of parts is guarded on. Throws where there would be more than 65,535 of them.
std::vector<Tensor> split(At x, Dim size, int axis = 0);

// The axis, at another place among them.
Tensor movedim(At x, int from, int to);
// `length` elements from `start`, which counts from the end where it is negative. Throws where they do not exist.
Tensor narrow(At x, int axis, Dim start, Dim length);
// At most `count` parts of equal size along the axis, the last one of what is left. The axis becomes a number.
std::vector<Tensor> chunk(At x, std::int64_t count, int axis = 0);
// The elements along the axis, which goes. The axis becomes a number.
std::vector<Tensor> unbind(At x, int axis = 0);
// x[..., i + offset] for i = 0, 1, ... of two axes, which go; the diagonal is the last axis.
Tensor diagonal(At x, std::int64_t offset = 0, int first = 0, int second = 1);
// Windows of this size along the axis, every `step` elements: the axis counts windows, and a new last one is the
// window.
Tensor unfold(At x, int axis, std::int64_t size, std::int64_t step = 1);

// ---- assembling ---------------------------------------------------------------------------------------------------
// Along an axis that all have (concat; their other sizes are equal), or along a new one (stack; their shapes are
// equal). Dtypes promote. Throws on no tensors.
Tensor concat(std::span<const Tensor> parts, int axis = 0, Loc loc = Loc::current());
Tensor concat(std::initializer_list<Tensor> parts, int axis = 0, Loc loc = Loc::current());
Tensor stack(std::span<const Tensor> parts, int axis = 0, Loc loc = Loc::current());
Tensor stack(std::initializer_list<Tensor> parts, int axis = 0, Loc loc = Loc::current());
template <detail::AnyTensor T, class... More>
Tensor concat(const T&, const More&...) = delete;  // weft: concat takes a list: concat({x, y}, axis)
template <detail::AnyTensor T, class... More>
Tensor stack(const T&, const More&...) = delete;  // weft: stack takes a list: stack({x, y}, axis)
namespace detail {
// `row(rows, i, loc)` for every i, stacked.
Tensor stack_rows(const void* rows, std::size_t count, Tensor (*row)(const void* rows, std::size_t i, Loc loc),
                  Loc loc);
}  // namespace detail
// A matrix from its rows: from_list({{1.f, 2.f}, {3.f, 4.f}}).
template <class T>
requires is_element<T> Tensor from_list(std::initializer_list<std::initializer_list<T>> rows,
                                        Loc loc = Loc::current()) {
  if (rows.size() == 0) return from_list(std::initializer_list<T>(), Sizes({0}), loc);  // from_list<float>({})
  auto row = [](const void* list, std::size_t i, Loc at) {
    return from_list(static_cast<const std::initializer_list<T>*>(list)[i], at);
  };
  return detail::stack_rows(rows.begin(), rows.size(), row, loc);
}
// Zeros before and after along `axis`, and `interior` zeros between neighbours.
Tensor pad(At x, int axis, Dim before, Dim after, Dim interior = 0);

// What is put before and after the elements: a number; their mirror image, the border not repeated; the border; the
// elements of the other end.
enum class Pads : std::uint8_t { constant, reflect, replicate, circular };
// `widths`: elements before and after the last axis, then before and after the one before it, and so on. A negative
// width cuts elements off. Throws where an axis is too short for what is taken from it.
Tensor pad(At x, Sizes widths, Pads mode = Pads::constant, At fill = 0);
// Elements that leave at one end come in at the other. Without an axis: of the flattened tensor.
Tensor roll(At x, Dim shift);
Tensor roll(At x, Dim shift, int axis);
// Of the last two axes: zeros above, or below, this diagonal.
Tensor tril(At x, std::int64_t diagonal = 0);
Tensor triu(At x, std::int64_t diagonal = 0);
// A matrix with the vector on a diagonal, or the diagonal of a matrix.
Tensor diag(At x, std::int64_t offset = 0);
// The tensor so many times along each axis; axes before the first are new. repeat wants a count for each axis.
Tensor tile(At x, Sizes times);
Tensor repeat(At x, Sizes times);
// Each element so many times, one after the other.
Tensor repeat_interleave(At x, Dim times, int axis);
// Element i of the axis times[i] times: `times` is a vector of integers as long as the axis. The size of the result
// depends on values, as that of nonzero. Throws Error where a count is negative.
Tensor repeat_interleave(At x, const Tensor& times, int axis);
// For vectors x, y, ...: grids of all their combinations, x along axis 0 and y along axis 1, or under `xy` the other
// way round.
enum class Indexing : std::uint8_t { ij, xy };
std::vector<Tensor> meshgrid(std::span<const Tensor> axes, Indexing indexing = Indexing::ij, Loc loc = Loc::current());
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> axes, Indexing indexing = Indexing::ij,
                             Loc loc = Loc::current());

// ---- reductions: over `axes` (default all); keepdim keeps reduced axes as size 1 ------------------------------------
// Sums and products of bool are i64. Means, variances and norms want a floating dtype; those of f16 and bf16 are
// computed in f32 and rounded once. amax, amin, argmax and argmin over nothing throw, a sum is 0 and a product 1. Axis
// 0 or -1 of a 0-d tensor is a row of one, here and in the functions that order.
Tensor sum(At x, Axes axes = {}, bool keepdim = false);
Tensor mean(At x, Axes axes = {}, bool keepdim = false);
Tensor prod(At x, Axes axes = {}, bool keepdim = false);
// Of x cast to this dtype first, and in it: sum(x, 0, false, DType::f64).
Tensor sum(At x, Axes axes, bool keepdim, DType dtype);
Tensor mean(At x, Axes axes, bool keepdim, DType dtype);
Tensor prod(At x, Axes axes, bool keepdim, DType dtype);
Tensor amax(At x, Axes axes = {}, bool keepdim = false);
Tensor amin(At x, Axes axes = {}, bool keepdim = false);
// Index of the first greatest element (NaN counts as greatest) along one axis, i64.
Tensor argmax(At x, int axis = -1, bool keepdim = false);
// Index of the first least element (NaN counts as least).
Tensor argmin(At x, int axis = -1, bool keepdim = false);
Tensor any(At x, Axes axes = {}, bool keepdim = false);  // bool: some element is not 0; false of none
Tensor all(At x, Axes axes = {}, bool keepdim = false);  // bool: no element is 0; true of none
// Mean squared deviation; `correction` is subtracted from the count (1: the unbiased estimate),
// which does not go below 0: the variance of too few values is NaN or infinite. Throws where `correction` is infinite
// or NaN.
Tensor var(At x, Axes axes = {}, double correction = 1, bool keepdim = false);
// A bool is keepdim, as in the other reductions; the correction is 1.
Tensor var(At x, Axes axes, std::same_as<bool> auto keepdim) { return var(x, axes, 1.0, keepdim); }
// The square root of the variance, also where that overflows; its gradient is 0 where it is 0. Beside `using namespace
// weft` it is called weft::std.
Tensor std(At x, Axes axes = {}, double correction = 1, bool keepdim = false);
// A bool is keepdim, as in the other reductions; the correction is 1.
Tensor std(At x, Axes axes, std::same_as<bool> auto keepdim) { return weft::std(x, axes, 1.0, keepdim); }
// The sum of the diagonal of a matrix.
Tensor trace(At x);
// Length of a vector: the square root of the sum of squares. Its gradient at 0 is 0.
Tensor norm(At x, Axes axes = {}, bool keepdim = false);
// The same of the elements that are not NaN; a mean of none is NaN.
Tensor nansum(At x, Axes axes = {}, bool keepdim = false);
Tensor nanmean(At x, Axes axes = {}, bool keepdim = false);
// How many elements are not 0, i64.
Tensor count_nonzero(At x, Axes axes = {}, bool keepdim = false);
// sum(x, 0, 1) would mean axis 0 and keepdim: it is refused with a sentence.
#define WEFT_KEEPDIM_IS_BOOL(name)                                                                                    \
  template <class Number>                                                                                             \
  requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>) Tensor name(At, Axes, Number) {               \
    static_assert(!sizeof(Number),                                                                                    \
                  "weft: keepdim is a bool, as in " #name "(x, 0, true); two axes are a list, " #name "(x, {0, 1})"); \
    return {};                                                                                                        \
  }
WEFT_KEEPDIM_IS_BOOL(sum)
WEFT_KEEPDIM_IS_BOOL(mean)
WEFT_KEEPDIM_IS_BOOL(prod)
WEFT_KEEPDIM_IS_BOOL(amax)
WEFT_KEEPDIM_IS_BOOL(amin)
WEFT_KEEPDIM_IS_BOOL(any)
WEFT_KEEPDIM_IS_BOOL(all)
WEFT_KEEPDIM_IS_BOOL(norm)
WEFT_KEEPDIM_IS_BOOL(nansum)
WEFT_KEEPDIM_IS_BOOL(nanmean)
WEFT_KEEPDIM_IS_BOOL(count_nonzero)
#undef WEFT_KEEPDIM_IS_BOOL
// So is a number for keepdim where one axis is reduced, or the correction comes before.
#define WEFT_LAST_IS_KEEPDIM(Result, name, call, ...)                                                      \
  template <class Number>                                                                                  \
  requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>) Result name(__VA_ARGS__, Number) { \
    static_assert(!sizeof(Number), "weft: keepdim is a bool, as in " call);                                \
    return {};                                                                                             \
  }
WEFT_LAST_IS_KEEPDIM(Tensor, argmax, "argmax(x, 0, true)", At, int)
WEFT_LAST_IS_KEEPDIM(Tensor, argmin, "argmin(x, 0, true)", At, int)
WEFT_LAST_IS_KEEPDIM(Tensor, var, "var(x, 0, 1, true)", At, Axes, double)
WEFT_LAST_IS_KEEPDIM(Tensor, std, "std(x, 0, 1, true)", At, Axes, double)
// x[i + 1] - x[i] along the axis, n times; of bools whether they differ. Throws beyond 65,535 rounds that leave some.
Tensor diff(At x, int n = 1, int axis = -1);
// The integral along an axis by the trapezoidal rule, at places dx apart.
Tensor trapezoid(At y, double dx = 1, int axis = -1);
// Of variables in rows, [variables, observations] or one variable: how each varies with each. `correction` as of var.
Tensor cov(At x, double correction = 1);
Tensor corrcoef(At x);                       // cov(x) by the deviations of both: 1 on the diagonal
inline Tensor max(At x) { return amax(x); }  // the greatest element of all
inline Tensor min(At x) { return amin(x); }  // the least element of all
template <detail::AnyTensor T, class U, class... More>
Tensor max(const T&, const U&, More...) = delete;  // weft: amax(x, axis), argmax(x, axis); of two tensors maximum(x, y)
template <detail::AnyTensor T, class U, class... More>
Tensor min(const T&, const U&, More...) = delete;  // weft: amin(x, axis), argmin(x, axis); of two tensors minimum(x, y)

// ---- contractions ---------------------------------------------------------------------------------------------------
// Matrix product of the last two axes; leading axes broadcast; 1-d operands as in NumPy.
Tensor matmul(At a, At b);

struct ScaledMatmulOptions {  // of scaled_matmul
  Tensor bias = {};           // [n], added before the result is rounded
  DType dtype = DType::bf16;  // of the result: f16, bf16 or f32
};
// The product of two matrices of 8-bit floats, a [m,k] and b [k,n], times their scales: cast(a, f32) b scale_a scale_b
// + bias, with sums in f32, rounded once. The scales are f32: one number each, or scale_a [m,1] with scale_b [1,n].
// f8e4m3 and f8e5m2 may meet. Throws Error on other shapes and dtypes. It has no derivative: a gradient that reaches it
// throws.
Tensor scaled_matmul(At a, At b, At scale_a, At scale_b, const ScaledMatmulOptions& options = {});

// Sums of products over labelled axes: einsum("bij,bjk->bik", {a, b}). A label that the result lacks is summed over;
// one that an operand has twice is its diagonal; "..." stands for axes that broadcast. Without "->" the result has the
// axes of the ellipsis and the labels that occur once, in the order of the alphabet. Operands are multiplied from the
// left. Sums of products have their dtype; a label of one operand alone is summed as sum() does, integers to i64.
Tensor einsum(const char* equation, std::span<const Tensor> operands, Loc loc = Loc::current());
Tensor einsum(const char* equation, std::initializer_list<Tensor> operands, Loc loc = Loc::current());
// Summed over pairs of axes; over the last ones of a and the first ones of b.
Tensor tensordot(At a, At b, Axes axes_a, Axes axes_b);
Tensor tensordot(At a, At b, int axes = 2);
// Of two vectors: the matrix of all products; the sum of products.
Tensor outer(At a, At b);
Tensor dot(At a, At b);
// The Kronecker product: every element of a times all of b. The axes of one that has fewer are continued to the left.
Tensor kron(At a, At b);
// [..., n, m]: the p-norms of the differences of rows of a [..., n, k] and rows of b [..., m, k].
Tensor cdist(At a, At b, double p = 2);

// ---- indexing -------------------------------------------------------------------------------------------------------
// result[i..., :] = x[index[i...], :]: rows of x (axis 0). Indices out of [0, rows) are an error.
Tensor gather(At x, At index);
// result[i, j] = x[index[i, j], j] for axis 0, and so on: as torch.gather. The index has as many axes as x, and is no
// longer than x along the others.
Tensor gather(At x, int axis, At index);
template <class T>
Tensor gather(const T&) = delete;  // weft: gather(x, index) takes rows, gather(x, axis, index) is torch.gather
// The elements at these positions, a vector, along the axis.
Tensor index_select(At x, int axis, At index);
// x plus source[i, j] at [index[i, j], j] for axis 0, and so on; what meets in one place is added up in the order of
// the source. Here and below a floating source, or a number with a fraction, for an x of integers or bools is an error.
Tensor scatter_add(At x, int axis, At index, At source);
// x plus the slices of the source at these positions, a vector, along the axis.
Tensor index_add(At x, int axis, At index, At source);
// x with source[i, j] at [index[i, j], j] for axis 0, and so on. Where several meet, the last one in the order of the
// source stays, on every device. The source is a tensor or one number.
Tensor scatter(At x, int axis, At index, At source);
// What scatter makes of source elements that meet, and of the element of x there (include_self). The gradient of an
// extreme is shared by those that tie for it. `mean` is for floating dtypes. Under `prod` a symbolic size of the index
// is compared with powers of two.
enum class ScatterReduction : std::uint8_t { sum, mean, amax, amin, prod };
Tensor scatter_reduce(At x, int axis, At index, At source, ScatterReduction reduce, bool include_self = true);
// x with the slices of the source, or with this number, at these positions, a vector, along the axis; the last one of
// equal positions stays. Those of index_fill count from the end where they are negative.
Tensor index_copy(At x, int axis, At index, At source);
Tensor index_fill(At x, int axis, At index, At value);
// x with the row values[i..., :] in the place of row rows[i...] of axis 0; the last one of equal rows stays. Values
// broadcast to rows.shape + x.shape[1:]. Rows count from the end where they are negative.
Tensor set_rows(At x, At rows, At values);
// x with values at [indices[0], indices[1], ...], index tensors of integers that broadcast to one shape, one for each
// of the first axes; values broadcast to that shape and the other axes. The last one of equal places stays, or under
// `accumulate` all are added. Indices count from the end where they are negative. Masks, and {} for a whole axis, as of
// index() in weft/indexing.hpp.
Tensor index_put(At x, std::span<const Tensor> indices, At values, bool accumulate = false);
Tensor index_put(At x, std::initializer_list<Tensor> indices, At values, bool accumulate = false);
// x with the elements of the source, in order, where the mask is true. The mask broadcasts to x. Throws, or stops the
// call, where the source has fewer elements than are wanted.
Tensor masked_scatter(At x, At mask, At source);
// x, but this number where the mask is true.
Tensor masked_fill(At x, At mask, At value);
// How often 0, 1, ... count - 1 occur in a vector of integers, i64. Others are an error, and so is a negative count.
Tensor bincount(At index, Dim count);
// How many elements lie in each of equal bins from `least` to `greatest`, which is in the last one; others do not
// count. In the dtype of x. Throws where the bounds do not ascend or are not finite, and where
// the dtype does not hold their distance, or the number of bins by it.
Tensor histc(At x, std::int64_t bins, double least, double greatest);
// Where each value belongs in a sorted row: the number of the row's elements below it (right: not above it), i64.
// One sorted vector for values of any shape, or [..., n] for values [..., m]. NaN counts as the greatest.
Tensor searchsorted(At sorted, At values, bool right = false);
// The same with the operands the other way round: the bin of each element between boundaries.
Tensor bucketize(At x, At boundaries, bool right = false);

// Results whose size depends on values. The host computes them at once, in a compiled function between two compiled
// pieces (docs/guards.md, "Values on the host"); another size compiles nothing again. They throw Error in the body of a
// loop.
// The places where x is not 0, i64 [count, rank], in row-major order.
Tensor nonzero(At x);
// The elements where the mask is true, a vector. Both broadcast. Its derivative is that of the gather.
Tensor masked_select(At x, At mask);
struct Unique {    // what unique() gives
  Tensor values;   // sorted, each once: a vector. NaN differs from itself.
  Tensor inverse;  // in the shape of x: the place of each element among the values, i64
  Tensor counts;   // how often each value occurs, i64
  WEFT_MEMBERS(values, inverse, counts)
};
// The values that x has, each once, and where and how often they are.
Unique unique(At x);

// ---- order: along an axis; equal elements stay in their order, NaN counts as the greatest ---------------------------
struct ValuesAndIndices {  // elements, and where they were along the axis
  Tensor values, indices;  // i64
  WEFT_MEMBERS(values, indices)
};
Tensor argsort(At x, int axis = -1, bool descending = false);         // the indices of sort, i64
ValuesAndIndices sort(At x, int axis = -1, bool descending = false);  // the elements in order
// The `count` greatest (or least) elements, the greatest (least) first. Throws where there are not so many.
ValuesAndIndices topk(At x, Dim count, int axis = -1, bool largest = true);
// The k-th least element, counted from 1, and where it is; the axis goes unless keepdim.
ValuesAndIndices kthvalue(At x, std::int64_t k, int axis = -1, bool keepdim = false);
WEFT_LAST_IS_KEEPDIM(ValuesAndIndices, kthvalue, "kthvalue(x, 2, 0, true)", At, std::int64_t, int)
// The element in the middle, the lower one of two; NaN where there is one. The axis goes unless keepdim.
ValuesAndIndices median(At x, int axis, bool keepdim = false);
WEFT_LAST_IS_KEEPDIM(ValuesAndIndices, median, "median(x, 0, true)", At, int)
Tensor median(At x);  // of all elements
// Between 0 (the least element) and 1 (the greatest), between two elements by their distance; NaN where there is one.
// Floating. The axis becomes a number, and goes unless keepdim.
Tensor quantile(At x, double q, int axis, bool keepdim = false);
WEFT_LAST_IS_KEEPDIM(Tensor, quantile, "quantile(x, 0.5, 0, true)", At, double, int)
Tensor quantile(At x, double q);  // of all elements
// Several: the result has an axis for them before the others. Throws where there are none.
Tensor quantile(At x, std::span<const double> q, int axis, bool keepdim = false);
Tensor quantile(At x, std::initializer_list<double> q, int axis, bool keepdim = false);
WEFT_LAST_IS_KEEPDIM(Tensor, quantile, "quantile(x, {0.1, 0.9}, 0, true)", At, std::initializer_list<double>, int)
Tensor quantile(At x, std::span<const double> q);  // of all elements: a vector
Tensor quantile(At x, std::initializer_list<double> q);

// ---- cumulative: what is reduced up to each element, along an axis. A 0-d tensor is its own result. ---------------
// Sums and products of integers and bool are i64; those of f16 and bf16 are accumulated in wider floats, and each
// element is rounded once.
Tensor cumsum(At x, int axis);
Tensor cumprod(At x, int axis);               // in a function that differentiates it the axis becomes a number
Tensor cumsum(At x, int axis, DType dtype);   // of x cast to this dtype first, and in it
Tensor cumprod(At x, int axis, DType dtype);  // the same
// The greatest (least) element so far and where it is, of equal ones the last; from a NaN on it is the latest NaN.
ValuesAndIndices cummax(At x, int axis);
ValuesAndIndices cummin(At x, int axis);
// log(exp(x[0]) + ... + exp(x[i])), without overflow. Integers become f32.
Tensor logcumsumexp(At x, int axis);

// [...] of integers in [0, classes) to [..., classes], 1 where the class is the index. Indices out of range are an
// error.
Tensor one_hot(At index, Dim classes, DType dtype = DType::f32);

// ---- activations and normalizations -----------------------------------------------------------------------------
// x * Phi(x), Phi by erf, or x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))): Hendrycks and Gimpel 2016.
enum class Gelu : std::uint8_t { exact, tanh };
Tensor gelu(At x, Gelu form = Gelu::exact);
// Along an axis. A row that is -inf throughout gives NaN (logsumexp: -inf, and so does a row of no elements).
Tensor softmax(At x, int axis = -1);
Tensor log_softmax(At x, int axis = -1);
Tensor logsumexp(At x, int axis = -1, bool keepdim = false);
WEFT_LAST_IS_KEEPDIM(Tensor, logsumexp, "logsumexp(x, 0, true)", At, int)
#undef WEFT_LAST_IS_KEEPDIM
Tensor silu(At x);  // x * sigmoid(x)
// The functions from here to threshold take a floating x of any shape, of which integers become f32; f16 and bf16 are
// computed in f32 and rounded once. Values and derivatives are PyTorch's, at kinks, bounds and infinities too; a
// derivative at a kink is that of the side which the inequality includes.
Tensor softplus(At x, double beta = 1,
                double threshold = 20);  // log(1 + exp(beta x)) / beta; x where beta x > threshold; throws if beta is 0
Tensor elu(At x, double alpha = 1);      // x where x > 0, else alpha (exp(x) - 1): Clevert and others 2016
Tensor selu(At x);                       // elu with the two constants of Klambauer and others 2017
Tensor celu(At x, double alpha = 1);     // x where x > 0, else alpha (exp(x / alpha) - 1); throws where alpha is 0
Tensor leaky_relu(At x, double negative_slope = 0.01);  // x where x > 0, else x * negative_slope
// x where x > 0, else x * weight. The weight is one number, or [C] of the sizes of axis 1 of x; throws at others.
Tensor prelu(At x, At weight);
Tensor hardtanh(At x, double low = -1,
                double high = 1);  // low where x <= low, high where x >= high; throws if low > high
Tensor relu6(At x);                // hardtanh from 0 to 6
Tensor hardsigmoid(At x);          // x / 6 + 1/2, from 0 to 1
Tensor hardswish(At x);            // x * hardsigmoid(x): Howard and others 2019
Tensor mish(At x);                 // x * tanh(softplus(x)): Misra 2020
Tensor log_sigmoid(At x);          // log(sigmoid(x))
Tensor softsign(At x);             // x / (1 + |x|)
Tensor tanhshrink(At x);           // x - tanh(x)
Tensor softshrink(At x,
                  double lambda = 0.5);  // x moved by lambda towards 0, which it does not pass; throws if lambda < 0
Tensor hardshrink(At x, double lambda = 0.5);        // 0 where -lambda <= x <= lambda
Tensor threshold(At x, double bound, double value);  // value where x <= bound
// min(max(x, low), high): high where low > high, NaN where any is. At a bound the gradient is x's.
Tensor clamp(At x, At low, At high);
Tensor square(At x);  // x * x; of bool, i64

// The same value, through which no gradient passes.
Tensor stop_gradient(At x);

}  // namespace weft
