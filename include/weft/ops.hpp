// Operations on tensors. Operands are tensors, parameters, Scalars or literals in any mix; shapes broadcast as in NumPy
// and PyTorch; dtypes promote as in PyTorch (weft/dtype.hpp). All throw weft::Error with the caller's line on shapes or
// dtypes that do not fit. Pointwise primitives come from weft/ops.def, the rest are short functions over them.
#pragma once
#include <vector>

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

Tensor operator+(At a, At b);
Tensor operator-(At a, At b);
Tensor operator*(At a, At b);
Tensor operator/(At a, At b);
Tensor operator%(At a, At b);  // remainder: the sign is the divisor's
Tensor operator-(At a);
Tensor operator==(At a, At b);
Tensor operator!=(At a, At b);
Tensor operator<(At a, At b);
Tensor operator<=(At a, At b);
Tensor operator>(At a, At b);
Tensor operator>=(At a, At b);
Tensor operator&(At a, At b);
Tensor operator|(At a, At b);
Tensor operator^(At a, At b);
Tensor operator~(At a);
Tensor& operator+=(Tensor& a, At b);
Tensor& operator-=(Tensor& a, At b);
Tensor& operator*=(Tensor& a, At b);
Tensor& operator/=(Tensor& a, At b);
Param& operator+=(Param& a, At b);
Param& operator-=(Param& a, At b);
Param& operator*=(Param& a, At b);
Param& operator/=(Param& a, At b);
Buffer& operator+=(Buffer& a, At b);
Buffer& operator-=(Buffer& a, At b);
Buffer& operator*=(Buffer& a, At b);
Buffer& operator/=(Buffer& a, At b);
// && || ! would evaluate both sides: write & | ~.
bool operator&&(const Tensor&, const Tensor&) = delete;
bool operator||(const Tensor&, const Tensor&) = delete;
bool operator!(const Tensor&) = delete;

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

// ---- dtype --------------------------------------------------------------------------------------------------------
Tensor cast(At x, DType dtype);
Tensor bitcast(At x, DType dtype);  // same width

// ---- views: no copy ---------------------------------------------------------------------------------------------
// One size may be -1.
Tensor reshape(At x, Sizes sizes);
Tensor flatten(At x, int first_axis = 0, int last_axis = -1);
// axes[i] is the source axis of result axis i.
Tensor permute(At x, Axes axes);
Tensor transpose(At x, int a = -2, int b = -1);
// Size-1 axes (and new leading axes) are repeated; -1 keeps a size.
Tensor expand(At x, Sizes sizes);
Tensor squeeze(At x, int axis);
Tensor unsqueeze(At x, int axis);
// Elements start, start+step, ... before stop along `axis`. Negative start and stop count from the end and are clamped
// as in Python; a negative step walks backwards.
inline constexpr std::int64_t slice_end = INT64_MAX / 2;  // a Dim has 63 bits
Tensor slice(At x, int axis, Dim start, Dim stop = slice_end, std::int64_t step = 1);
Tensor select(At x, int axis, Dim index);
Tensor flip(At x, int axis);
std::vector<Tensor> split(At x, Dim size, int axis = 0);

// ---- assembling ---------------------------------------------------------------------------------------------------
Tensor concat(std::span<const Tensor> parts, int axis = 0, Loc loc = Loc::current());
Tensor concat(std::initializer_list<Tensor> parts, int axis = 0, Loc loc = Loc::current());
Tensor stack(std::span<const Tensor> parts, int axis = 0, Loc loc = Loc::current());
Tensor stack(std::initializer_list<Tensor> parts, int axis = 0, Loc loc = Loc::current());
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
  auto row = [](const void* rows, std::size_t i, Loc loc) {
    return from_list(static_cast<const std::initializer_list<T>*>(rows)[i], loc);
  };
  return detail::stack_rows(rows.begin(), rows.size(), row, loc);
}
// Zeros before and after along `axis`, and `interior` zeros between neighbours.
Tensor pad(At x, int axis, Dim before, Dim after, std::int64_t interior = 0);

// ---- reductions: over `axes` (default all); keepdim keeps reduced axes as size 1 ------------------------------------
Tensor sum(At x, Axes axes = {}, bool keepdim = false);
Tensor mean(At x, Axes axes = {}, bool keepdim = false);
Tensor prod(At x, Axes axes = {}, bool keepdim = false);
Tensor amax(At x, Axes axes = {}, bool keepdim = false);
Tensor amin(At x, Axes axes = {}, bool keepdim = false);
// Index of the first greatest element (NaN counts as greatest) along one axis, i64.
Tensor argmax(At x, int axis = -1, bool keepdim = false);
// Index of the first least element (NaN counts as least).
Tensor argmin(At x, int axis = -1, bool keepdim = false);
Tensor any(At x, Axes axes = {}, bool keepdim = false);
Tensor all(At x, Axes axes = {}, bool keepdim = false);
// Mean squared deviation; `correction` is subtracted from the count (1: the unbiased estimate).
Tensor var(At x, Axes axes = {}, double correction = 1, bool keepdim = false);
// Length of a vector: the square root of the sum of squares. Its gradient at 0 is 0.
Tensor norm(At x, Axes axes = {}, bool keepdim = false);
inline Tensor max(At x) { return amax(x); }
inline Tensor min(At x) { return amin(x); }

// ---- contractions ---------------------------------------------------------------------------------------------------
// Matrix product of the last two axes; leading axes broadcast; 1-d operands as in NumPy.
Tensor matmul(At a, At b);

// ---- indexing -------------------------------------------------------------------------------------------------------
// result[i..., :] = x[index[i...], :]: rows of x (axis 0). Indices out of [0, rows) are an error.
Tensor gather(At x, At index);
Tensor one_hot(At index, Dim classes, DType dtype = DType::f32);

// ---- activations and normalizations -----------------------------------------------------------------------------
enum class Gelu : std::uint8_t { exact, tanh };
Tensor gelu(At x, Gelu form = Gelu::exact);
Tensor softmax(At x, int axis = -1);
Tensor log_softmax(At x, int axis = -1);
Tensor logsumexp(At x, int axis = -1, bool keepdim = false);
Tensor silu(At x);
Tensor clamp(At x, At low, At high);
Tensor square(At x);

// The same value, through which no gradient passes.
Tensor stop_gradient(At x);

}  // namespace weft
