// Operators element by element, reductions, products and what orders elements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/call.hpp"
#include "weft/linalg.hpp"
#include "weft/random.hpp"

namespace weft::onnx {
namespace {

// What the rows below are made of.
template <Tensor (*f)(At)>
void one(NodeCall& c) {
  c.give(f(c.tensor()));
}
template <Tensor (*f)(At, At)>
void two(NodeCall& c) {
  c.give(f(c.tensor(0), c.tensor(1)));
}
// Of any number of operands.
template <Tensor (*f)(At, At)>
void many(NodeCall& c) {
  Tensor result = c.tensor();
  for (std::size_t i = 1; i < c.count(); ++i) result = f(result, c.tensor(i));
  c.give(result);
}
void mean_of_inputs(NodeCall& c) {
  Tensor result = c.tensor();
  for (std::size_t i = 1; i < c.count(); ++i) result = result + c.tensor(i);
  c.give(result / static_cast<double>(c.count()));
}

void divide(NodeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  c.give(is_floating(a.dtype()) ? a / b : floor_divide(a - fmod(a, b), b));
}
void modulo(NodeCall& c) {
  c.give(c.integer("fmod", 0) ? fmod(c.tensor(0), c.tensor(1)) : remainder(c.tensor(0), c.tensor(1)));
}
void power(NodeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  const Value& exponent = c.value(1);
  if (exponent.host() && exponent.host()->numbers.size() == 1 && exponent.rank() == 0 && is_floating(a.dtype()))
    return c.give(pow(a, exponent.host()->numbers[0]));
  if (a.dtype() == b.dtype()) return c.give(pow(a, b));
  const DType wide = is_floating(a.dtype()) || is_floating(b.dtype()) ? DType::f64 : DType::i64;
  if (is_floating(a.dtype())) return c.give(pow(a, cast(b, a.dtype())));
  c.give(cast(pow(cast(a, wide), cast(b, wide)), a.dtype()));
}
void clip(NodeCall& c) {
  Tensor x = c.tensor();
  if (c.version() < 11) {
    c.give(clamp(x, c.number("min", -std::numeric_limits<float>::max()),
                 c.number("max", std::numeric_limits<float>::max())));
    return;
  }
  if (c.has(std::size_t{1})) x = maximum(x, c.tensor(1));
  if (c.has(std::size_t{2})) x = minimum(x, c.tensor(2));
  c.give(x);
}
void shift(NodeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  c.give(c.text("direction", "") == "LEFT" ? bitwise_left_shift(a, b) : bitwise_right_shift(a, b));
}
void is_infinite(NodeCall& c) {
  const Tensor x = c.tensor();
  const bool negative = c.integer("detect_negative", 1), positive = c.integer("detect_positive", 1);
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor result = zeros_like(x) != 0;
  if (positive) result = result | (x == infinity);
  if (negative) result = result | (x == -infinity);
  c.give(result);
}

void cast_to(NodeCall& c, int type) {
  if (!has_dtype(type)) c.refuse("casts to ", element_name(type), ", which is no dtype");
  const DType to = dtype_of_element(type);
  const Tensor x = c.tensor();
  // Floats that no integer of 64 bits holds are undefined in ONNX; others wrap, as they do in NumPy.
  if (is_floating(x.dtype()) && is_integer(to) && storage_bytes(to, 1) < 8)
    return c.give(cast(cast(x, DType::i64), to));
  c.give(cast(x, to));
}

// ---- activations ----------------------------------------------------------------------------------------------------

void hard_sigmoid(NodeCall& c) {
  const Tensor x = c.tensor();
  c.give(clamp(x * c.number("alpha", 0.2) + c.number("beta", 0.5), 0, 1));
}
void prelu_by(NodeCall& c) {
  const Tensor x = c.tensor(0), slope = c.tensor(1);
  c.give(where(x < 0, x * slope, x));
}
void selu_of(NodeCall& c) {
  const Tensor x = c.tensor();
  const double alpha = c.number("alpha", 1.67326319217681884765625),
               gamma = c.number("gamma", 1.05070102214813232421875);
  c.give(where(x <= 0, expm1(x) * (alpha * gamma), x * gamma));
}
void shrink(NodeCall& c) {
  const Tensor x = c.tensor();
  const double lambda = c.number("lambd", 0.5), bias = c.number("bias", 0);
  c.give(where(x < -lambda, x + bias, where(x > lambda, x - bias, zeros_like(x))));
}
// Before operator set 13 all axes from one on are one.
template <Tensor (*f)(At, int)>
void along_axis(NodeCall& c) {
  const Tensor x = c.tensor();
  const int rank = x.rank();
  if (c.version() >= 13) return c.give(f(x, c.axis("axis", -1, rank)));
  const int axis = c.axis("axis", 1, rank);
  Dim rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.size(i);
  c.give(reshape(f(reshape(x, {rows, -1}), 1), x.shape()));
}
Tensor softmax_along(At x, int axis) { return softmax(x, axis); }
Tensor log_softmax_along(At x, int axis) { return log_softmax(x, axis); }
Tensor hardmax_along(At x, int axis) {
  const Tensor& value = *x.tensor;
  const Tensor first = argmax(x, axis, true);
  Shape shape;
  for (int i = 0; i < value.rank(); ++i) shape.push_back(i == axis ? value.size(axis) : Dim(1));
  return cast(reshape(arange(value.size(axis), {DType::i64, value.device()}), shape) == first, value.dtype());
}

// ---- reductions -----------------------------------------------------------------------------------------------------

struct Reduced {
  Tensor x;
  std::vector<int> axes;
  bool keep = true, none = false;  // none: it is as it was
  bool empty = false;              // an axis that goes has no elements
};
Reduced reduced(NodeCall& c) {
  Reduced made{c.tensor()};
  made.keep = c.integer("keepdims", 1);
  const int rank = made.x.rank();
  const auto given = c.integers("axes", std::size_t{1});
  if (given && !given->empty())
    for (std::int64_t each : *given) made.axes.push_back(c.checked_axis(each, rank));
  else if (c.integer("noop_with_empty_axes", 0))
    made.none = true;
  else
    for (int axis = 0; axis < rank; ++axis) made.axes.push_back(axis);
  for (int axis : made.axes)
    if (axis < rank && made.x.size(axis).same(Dim(0))) made.empty = true;
  return made;
}
Tensor over_none(const Reduced& r, double value) {
  Shape shape;
  for (int axis = 0; axis < r.x.rank(); ++axis) {
    const bool goes = std::ranges::find(r.axes, axis) != r.axes.end();
    if (!goes || r.keep) shape.push_back(goes ? Dim(1) : r.x.size(axis));
  }
  return full(shape, value, {r.x.dtype(), r.x.device()});
}
// f(x, axes, keepdim) in the dtype of x; `before` is done to each element, `after` to the results.
template <Tensor (*f)(At, Axes, bool)>
Tensor in_dtype(const Reduced& r, const Tensor& x) {
  return cast(f(x, r.axes, r.keep), x.dtype());
}
Tensor total(const Reduced& r, const Tensor& x) {
  return r.axes.empty() ? x : in_dtype<static_cast<Tensor (*)(At, Axes, bool)>(sum)>(r, x);
}
// Through f32 where f16 and bf16 would lose what is added up.
template <class F>
void reduce_by(NodeCall& c, F f) {
  const Reduced r = reduced(c);
  c.give(f(r));
}
void reduce_sum(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) { return r.none ? r.x : total(r, r.x); });
}
void reduce_mean(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) {
    if (r.none || r.axes.empty()) return r.x;
    return is_floating(r.x.dtype()) ? mean(r.x, r.axes, r.keep)
                                    : cast(mean(cast(r.x, DType::f64), r.axes, r.keep), r.x.dtype());
  });
}
void reduce_prod(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) {
    return r.none || r.axes.empty() ? r.x : in_dtype<static_cast<Tensor (*)(At, Axes, bool)>(prod)>(r, r.x);
  });
}
void reduce_l1(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) { return r.none ? abs(r.x) : total(r, abs(r.x)); });
}
Tensor root(const Tensor& x) { return is_floating(x.dtype()) ? sqrt(x) : cast(sqrt(cast(x, DType::f64)), x.dtype()); }
void reduce_l2(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) { return root(r.none ? r.x * r.x : total(r, r.x * r.x)); });
}
void reduce_square(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) { return r.none ? r.x * r.x : total(r, r.x * r.x); });
}
void reduce_log_sum(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) { return cast(log(r.none ? r.x : total(r, r.x)), r.x.dtype()); });
}
void reduce_log_sum_exp(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) {
    if (r.none || r.axes.empty()) return r.x;
    if (r.axes.size() == 1) return logsumexp(r.x, r.axes[0], r.keep);
    if (r.empty) return log(sum(exp(r.x), r.axes, r.keep));
    const Tensor greatest = amax(r.x, r.axes, true),
                 shifted = where(isfinite(greatest), greatest, zeros_like(greatest));
    const Tensor sums = log(sum(exp(r.x - shifted), r.axes, true)) + shifted;
    return r.keep ? sums : reshape(sums, amax(r.x, r.axes, false).shape());
  });
}
template <bool greatest>
void reduce_extreme(NodeCall& c) {
  reduce_by(c, [](const Reduced& r) {
    if (r.none || r.axes.empty()) return r.x;
    if (r.empty) {
      const double most = std::numeric_limits<double>::infinity();
      if (is_floating(r.x.dtype())) return over_none(r, greatest ? -most : most);
    }
    const bool boolean = r.x.dtype() == DType::boolean;
    const Tensor x = boolean ? cast(r.x, DType::u8) : r.x;
    const Tensor y = greatest ? amax(x, r.axes, r.keep) : amin(x, r.axes, r.keep);
    return boolean ? cast(y, DType::boolean) : y;
  });
}
template <bool greatest>
void arg_extreme(NodeCall& c) {
  Tensor x = c.tensor();
  const int axis = c.axis("axis", 0, x.rank());
  const bool keep = c.integer("keepdims", 1), last = c.integer("select_last_index", 0);
  if (last) x = flip(x, axis);
  Tensor places = greatest ? argmax(x, axis, keep) : argmin(x, axis, keep);
  if (last) places = At(x.size(axis) - Dim(1)) - places;
  c.give(cast(places, DType::i64));
}

// ---- products -------------------------------------------------------------------------------------------------------

void gemm(NodeCall& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  if (c.integer("transA", 0)) a = transpose(a, 0, 1);
  if (c.integer("transB", 0)) b = transpose(b, 0, 1);
  Tensor y = matmul(a, b);
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (alpha != 1) y = cast(y * alpha, a.dtype());
  if (c.has(std::size_t{2})) y = y + (beta == 1 ? c.tensor(2) : cast(c.tensor(2) * beta, a.dtype()));
  c.give(y);
}
void einsum_of(NodeCall& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  c.give(einsum(equation.c_str(), c.tensors()));
}

// ---- order ----------------------------------------------------------------------------------------------------------

void top_k(NodeCall& c) {
  const Tensor x = c.tensor();
  const Dim count = c.version() < 10 ? Dim(c.integer("k", 1)) : c.sizes(1).at(0);
  const ValuesAndIndices found = topk(x, count, c.axis("axis", -1, x.rank()), c.integer("largest", 1));
  c.give(found.values);
  c.give(found.indices);
}
void cumulative_sum(NodeCall& c) {
  Tensor x = c.tensor();
  const int axis = c.checked_axis(c.integer_at(1), x.rank());
  const bool reverse = c.integer("reverse", 0);
  const DType dtype = x.dtype();
  if (reverse) x = flip(x, axis);
  Tensor sums = cast(cumsum(x, axis), dtype);
  if (c.integer("exclusive", 0)) sums = slice(pad(sums, axis, 1, 0), axis, 0, x.size(axis));
  c.give(reverse ? flip(sums, axis) : sums);
}

// ---- the table ------------------------------------------------------------------------------------------------------

constexpr OperatorRow rows[] = {
    {"Abs", 1, latest, one<abs>},
    {"Acos", 7, latest, one<acos>},
    {"Acosh", 9, latest, one<acosh>},
    {"Add", 7, latest, two<add>},
    {"And", 7, latest, two<bitwise_and>},
    {"ArgMax", 1, latest, arg_extreme<true>},
    {"ArgMin", 1, latest, arg_extreme<false>},
    {"Asin", 7, latest, one<asin>},
    {"Asinh", 9, latest, one<asinh>},
    {"Atan", 7, latest, one<atan>},
    {"Atanh", 9, latest, one<atanh>},
    {"BitShift", 11, latest, shift},
    {"BitwiseAnd", 18, latest, two<bitwise_and>},
    {"BitwiseNot", 18, latest, one<bitwise_not>},
    {"BitwiseOr", 18, latest, two<bitwise_or>},
    {"BitwiseXor", 18, latest, two<bitwise_xor>},
    {"Cast", 6, latest, [](NodeCall& c) { cast_to(c, static_cast<int>(c.integer("to", 0))); }},
    {"CastLike", 15, latest, [](NodeCall& c) { cast_to(c, element_type(c.value(1).dtype())); }},
    {"Ceil", 1, latest, one<ceil>},
    {"Celu", 12, latest, [](NodeCall& c) { c.give(celu(c.tensor(), c.number("alpha", 1))); }},
    {"Clip", 6, latest, clip},
    {"Cos", 7, latest, one<cos>},
    {"Cosh", 9, latest, one<cosh>},
    {"CumSum", 11, latest, cumulative_sum, 2},
    {"Det", 11, latest, [](NodeCall& c) { c.give(linalg::det(c.tensor())); }},
    {"Div", 7, latest, divide},
    {"Einsum", 12, latest, einsum_of},
    {"Elu", 6, latest, [](NodeCall& c) { c.give(elu(c.tensor(), c.number("alpha", 1))); }},
    {"Equal", 7, latest, two<equal>},
    {"Erf", 9, latest, one<erf>},
    {"Exp", 6, latest, one<exp>},
    {"Floor", 1, latest, one<floor>},
    {"Gelu", 20, latest,
     [](NodeCall& c) { c.give(gelu(c.tensor(), c.text("approximate", "none") == "tanh" ? Gelu::tanh : Gelu::exact)); }},
    {"Gemm", 7, latest, gemm},
    {"Greater", 7, latest, [](NodeCall& c) { c.give(c.tensor(0) > c.tensor(1)); }},
    {"GreaterOrEqual", 12, latest, [](NodeCall& c) { c.give(c.tensor(0) >= c.tensor(1)); }},
    {"HardSigmoid", 6, latest, hard_sigmoid},
    {"HardSwish", 14, latest, one<hardswish>},
    {"Hardmax", 1, latest, along_axis<hardmax_along>},
    {"Identity", 1, latest, [](NodeCall& c) { c.give(c.value(0)); }},
    {"IsInf", 10, latest, is_infinite},
    {"IsNaN", 9, latest, one<isnan>},
    {"LeakyRelu", 6, latest,
     [](NodeCall& c) {
       c.give(leaky_relu(c.tensor(), static_cast<double>(static_cast<float>(c.number("alpha", 0.01)))));
     }},
    {"Less", 7, latest, two<less>},
    {"LessOrEqual", 12, latest, two<less_equal>},
    {"Log", 6, latest, one<log>},
    {"LogSoftmax", 1, latest, along_axis<log_softmax_along>},
    {"MatMul", 1, latest, two<matmul>},
    {"Max", 6, latest, many<maximum>},
    {"Mean", 6, latest, mean_of_inputs},
    {"Min", 6, latest, many<minimum>},
    {"Mish", 18, latest, one<mish>},
    {"Mod", 10, latest, modulo},
    {"Mul", 7, latest, two<mul>},
    {"Neg", 6, latest, one<neg>},
    {"Not", 1, latest, one<bitwise_not>},
    {"Or", 7, latest, two<bitwise_or>},
    {"PRelu", 6, latest, prelu_by},
    {"Pow", 7, latest, power},
    {"Reciprocal", 6, latest, one<reciprocal>},
    {"ReduceL1", 1, latest, reduce_l1, 2},
    {"ReduceL2", 1, latest, reduce_l2, 2},
    {"ReduceLogSum", 1, latest, reduce_log_sum, 2},
    {"ReduceLogSumExp", 1, latest, reduce_log_sum_exp, 2},
    {"ReduceMax", 1, latest, reduce_extreme<true>, 2},
    {"ReduceMean", 1, latest, reduce_mean, 2},
    {"ReduceMin", 1, latest, reduce_extreme<false>, 2},
    {"ReduceProd", 1, latest, reduce_prod, 2},
    {"ReduceSum", 1, latest, reduce_sum, 2},
    {"ReduceSumSquare", 1, latest, reduce_square, 2},
    {"Relu", 6, latest, one<relu>},
    {"Round", 11, latest, one<round>},
    {"Selu", 6, latest, selu_of},
    {"Shrink", 9, latest, shrink},
    {"Sigmoid", 6, latest, one<sigmoid>},
    {"Sign", 9, latest, one<sign>},
    {"Sin", 7, latest, one<sin>},
    {"Sinh", 9, latest, one<sinh>},
    {"Softmax", 1, latest, along_axis<softmax_along>},
    {"Softplus", 1, latest, [](NodeCall& c) { c.give(softplus(c.tensor(), 1, 1e4)); }},
    {"Softsign", 1, latest, one<softsign>},
    {"Sqrt", 6, latest, one<sqrt>},
    {"Sub", 7, latest, two<sub>},
    {"Sum", 6, latest, many<add>},
    {"Swish", 24, latest,
     [](NodeCall& c) {
       const Tensor x = c.tensor();
       c.give(x * sigmoid(x * c.number("alpha", 1)));
     }},
    {"Tan", 7, latest, one<tan>},
    {"Tanh", 6, latest, one<tanh>},
    {"ThresholdedRelu", 10, latest, [](NodeCall& c) { c.give(threshold(c.tensor(), c.number("alpha", 1), 0)); }},
    {"TopK", 1, latest, top_k, 2},
    {"Where", 9, latest, [](NodeCall& c) { c.give(where(c.tensor(0), c.tensor(1), c.tensor(2))); }},
    {"Xor", 7, latest, two<bitwise_xor>},
};

}  // namespace

std::span<const OperatorRow> basic_operators() { return rows; }

}  // namespace weft::onnx
