// The public functions, a row each: how one is written, called and meant.
#include "oracle/program.hpp"

namespace oracle {

namespace {
using weft::At;
using weft::Dim;
using Arguments = std::span<const At>;
using Dims = std::vector<Dim>;

int whole(Dim dim) { return static_cast<int>(dim.constant()); }
Dim bound(Dim dim) { return dim.same(Dim(slice_end)) ? weft::slice_end : dim; }
weft::Range range(const Dims& n) { return {bound(n[1]), bound(n[2]), n[3]}; }
// The subscript at this axis, whole axes before it: from the start, or before those at the end.
std::vector<weft::Subscript> along(Dim given, const weft::Subscript& subscript) {
  const int axis = whole(given);
  std::vector<weft::Subscript> all;
  if (axis < 0) all.push_back(weft::ellipsis);
  if (axis > 0) all.resize(static_cast<std::size_t>(axis));
  all.push_back(subscript);
  if (axis < -1) all.resize(all.size() + static_cast<std::size_t>(-1 - axis));
  return all;
}
weft::Axes axes_of(const Dims& numbers, std::size_t from) {
  std::vector<int> axes;
  for (std::size_t i = from; i < numbers.size(); ++i) axes.push_back(whole(numbers[i]));
  return axes;
}
std::vector<Tensor> tensors_of(Arguments arguments) {
  std::vector<Tensor> tensors;
  for (const At& argument : arguments) tensors.push_back(*argument.tensor);
  return tensors;
}
Shape from(const Shape& numbers, std::size_t first) {
  return {numbers.begin() + static_cast<std::ptrdiff_t>(first), numbers.end()};
}
template <class Change>
Tensor in_place(Arguments a, Change change) {
  Tensor copy = *a[0].tensor;
  change(copy, a[1]);
  return copy;
}
}  // namespace

// clang-format off
// A row's two meanings: an expression of Weft's functions over arguments a and numbers n, and one of the oracle's.
#define TENSORS(...)                                                                                               \
  []([[maybe_unused]] Arguments a, [[maybe_unused]] const Dims& n, [[maybe_unused]] const Call& call) -> Tensor {  \
    return __VA_ARGS__;                                                                                            \
  }
#define ARRAYS(...)                                                                                                \
  []([[maybe_unused]] const std::vector<Array>& a, [[maybe_unused]] const Shape& n,                                \
     [[maybe_unused]] const Call& call) -> Array {                                                                 \
    return __VA_ARGS__;                                                                                            \
  }
#define UNARY(name, weight)                                                                                        \
  {#name, #name "($0)", "unary", weight,                                                                           \
   TENSORS(weft::name(a[0])),                                                                                      \
   ARRAYS(unary(#name, a[0]))}
#define BINARY(name, weight)                                                                                       \
  {#name, #name "($0, $1)", "binary", weight,                                                                      \
   TENSORS(weft::name(a[0], a[1])),                                                                                \
   ARRAYS(binary(#name, a[0], a[1]))}
#define OPERATOR(op, weight)                                                                                       \
  {"operator" #op, "$0 " #op " $1", "binary", weight,                                                              \
   TENSORS(a[0] op a[1]),                                                                                          \
   ARRAYS(binary("operator" #op, a[0], a[1]))}
#define IN_PLACE(op, weight)                                                                                       \
  {"operator" #op "=", "[&] { Tensor y = $0; return y " #op "= $1; }()", "in place", weight,                       \
   TENSORS(in_place(a, [](Tensor& x, At y) { x op##= y; })),                                                       \
   ARRAYS(in_place("operator" #op, a[0], a[1]))}
#define REDUCE(name, weight)                                                                                       \
  {#name, #name "($0, {#1*}, ?0)", "reduce", weight,                                                               \
   TENSORS(weft::name(a[0], axes_of(n, 1), whole(n[0]) != 0)),                                                     \
   ARRAYS(reduce(#name, a[0], from(n, 1), n[0] != 0))}

const std::vector<Function>& functions() {
  static const std::vector<Function> table = {
      UNARY(neg, 2), UNARY(abs, 2), UNARY(sign, 1), UNARY(relu, 2), UNARY(floor, 1), UNARY(ceil, 1), UNARY(round, 1),
      UNARY(exp, 2), UNARY(expm1, 1), UNARY(log, 1), UNARY(log1p, 1), UNARY(sqrt, 2), UNARY(rsqrt, 1),
      UNARY(trunc, 1), UNARY(exp2, 1), UNARY(log2, 1), UNARY(log10, 1), UNARY(atan, 1), UNARY(sinh, 1), UNARY(cosh, 1),
      UNARY(asinh, 1), UNARY(erfc, 1), UNARY(reciprocal, 1), UNARY(sin, 1), UNARY(cos, 1), UNARY(tanh, 2), UNARY(erf, 1), UNARY(sigmoid, 2),
      UNARY(isnan, 1), UNARY(isfinite, 1), UNARY(isposinf, 1), UNARY(isneginf, 1), UNARY(ndtr, 1), UNARY(bitwise_not, 1), UNARY(square, 2), UNARY(silu, 1), OPERATOR(+, 6),
      OPERATOR(-, 5), OPERATOR(*, 6), OPERATOR(/, 4), OPERATOR(%, 1), OPERATOR(==, 1), OPERATOR(!=, 1),
      OPERATOR(<, 2), OPERATOR(<=, 1), OPERATOR(>, 1), OPERATOR(>=, 1), OPERATOR(&, 1), OPERATOR(|, 1),
      OPERATOR(^, 1), BINARY(maximum, 3), BINARY(minimum, 3), BINARY(pow, 1), BINARY(floor_divide, 1), BINARY(gcd, 1), BINARY(lcm, 1), REDUCE(sum, 5),
      REDUCE(mean, 3), REDUCE(prod, 2), REDUCE(amax, 2), REDUCE(amin, 2), REDUCE(any, 1), REDUCE(all, 1),
      REDUCE(norm, 1),
      IN_PLACE(+, 2), IN_PLACE(-, 2), IN_PLACE(*, 2), IN_PLACE(/, 2),
      {"where", "where($0, $1, $2)", "where", 4,
       TENSORS(weft::where(a[0], a[1], a[2])),
       ARRAYS(where(a[0], a[1], a[2]))},
      {"clamp", "clamp($0, $1, $2)", "clamp", 2,
       TENSORS(weft::clamp(a[0], a[1], a[2])),
       ARRAYS(clamp(a[0], a[1], a[2]))},
      {"cast", "cast($0, @)", "cast", 6,
       TENSORS(weft::cast(a[0], call.dtype)),
       ARRAYS(cast(a[0], call.dtype))},
      {"bitcast", "bitcast($0, @)", "cast", 1,
       TENSORS(weft::bitcast(a[0], call.dtype)),
       ARRAYS(bitcast(a[0], call.dtype))},
      {"gelu", "gelu($0)", "unary", 1,
       TENSORS(weft::gelu(a[0])),
       ARRAYS(gelu(a[0], false))},
      {"gelu_tanh", "gelu($0, Gelu::tanh)", "unary", 1,
       TENSORS(weft::gelu(a[0], weft::Gelu::tanh)),
       ARRAYS(gelu(a[0], true))},
      {"stop_gradient", "stop_gradient($0)", "unary", 1,
       TENSORS(weft::stop_gradient(a[0])),
       ARRAYS(stop_gradient(a[0]))},
      {"reshape", "reshape($0, {#0*})", "reshape", 4,
       TENSORS(weft::reshape(a[0], n)),
       ARRAYS(reshape(a[0], n))},
      {"flatten", "flatten($0, #0, #1)", "two axes", 1,
       TENSORS(weft::flatten(a[0], whole(n[0]), whole(n[1]))),
       ARRAYS(flatten(a[0], n[0], n[1]))},
      {"permute", "permute($0, {#0*})", "permute", 3,
       TENSORS(weft::permute(a[0], axes_of(n, 0))),
       ARRAYS(permute(a[0], n))},
      {"transpose", "transpose($0, #0, #1)", "two axes", 2,
       TENSORS(weft::transpose(a[0], whole(n[0]), whole(n[1]))),
       ARRAYS(transpose(a[0], n[0], n[1]))},
      {"expand", "expand($0, {#0*})", "expand", 4,
       TENSORS(weft::expand(a[0], n)),
       ARRAYS(expand(a[0], n))},
      {"squeeze", "squeeze($0, #0)", "axis", 1,
       TENSORS(weft::squeeze(a[0], whole(n[0]))),
       ARRAYS(squeeze(a[0], n[0]))},
      {"unsqueeze", "unsqueeze($0, #0)", "new axis", 3,
       TENSORS(weft::unsqueeze(a[0], whole(n[0]))),
       ARRAYS(unsqueeze(a[0], n[0]))},
      {"slice", "slice($0, #0, #1, #2, #3)", "slice", 8,
       TENSORS(weft::slice(a[0], whole(n[0]), bound(n[1]), bound(n[2]), n[3])),
       ARRAYS(slice(a[0], n[0], n[1], n[2], n[3]))},
      {"select", "select($0, #0, #1)", "select", 3,
       TENSORS(weft::select(a[0], whole(n[0]), n[1])),
       ARRAYS(select(a[0], n[0], n[1]))},
      {"operator[]", "$0[#1]", "select", 1,
       TENSORS((*a[0].tensor)[n[1]]),
       ARRAYS(select(a[0], 0, n[1]))},
      {"operator[] by a value", "$0[$1]", "gather", 2,
       TENSORS((*a[0].tensor)[a[1]]),
       ARRAYS(gather(a[0], a[1]))},
      {"split", "split($0, #1, #0)[#2]", "split", 2,
       TENSORS(weft::split(a[0], n[1], whole(n[0])).at(static_cast<std::size_t>(whole(n[2])))),
       ARRAYS(split(a[0], n[0], n[1], n[2]))},
      {"flip", "flip($0, #0)", "axis", 2,
       TENSORS(weft::flip(a[0], whole(n[0]))),
       ARRAYS(flip(a[0], n[0]))},
      {"rot90", "rot90($0, 1, {#0, #1})", "two axes", 1,
       TENSORS(weft::rot90(a[0], 1, {whole(n[0]), whole(n[1])})),
       ARRAYS(rot90(a[0], n[0], n[1]))},
      {"atleast_1d", "atleast_1d($0)", "unary", 1,
       TENSORS(weft::atleast_1d(a[0])),
       ARRAYS(atleast(a[0], 1))},
      {"atleast_2d", "atleast_2d($0)", "unary", 1,
       TENSORS(weft::atleast_2d(a[0])),
       ARRAYS(atleast(a[0], 2))},
      {"atleast_3d", "atleast_3d($0)", "unary", 1,
       TENSORS(weft::atleast_3d(a[0])),
       ARRAYS(atleast(a[0], 3))},
      {"tensor_split", "tensor_split($0, {1}, #0)[1]", "axis", 1,
       TENSORS(weft::tensor_split(a[0], {1}, whole(n[0]))[1]),
       ARRAYS(slice(a[0], n[0], 1, slice_end, 1))},
      {"diag_embed", "diag_embed($0)", "square", 1,
       TENSORS(weft::diag_embed(a[0])),
       ARRAYS(diag_embed(a[0]))},
      {"select_scatter", "select_scatter($0, select($0, #0, 0), #0, #1)", "select", 1,
       TENSORS(weft::select_scatter(a[0], weft::select(a[0], whole(n[0]), 0), whole(n[0]), n[1])),
       ARRAYS(with_slice(a[0], unsqueeze(select(a[0], n[0], 0), n[0]), n[0], n[1], n[1] == -1 ? slice_end : n[1] + 1, 1))},
      {"index by a number", "index($0, along(#0, #1))", "select", 2,
       TENSORS(weft::index(a[0], along(n[0], n[1]))),
       ARRAYS(select(a[0], n[0], n[1]))},
      {"index by a range", "index($0, along(#0, Range{#1, #2, #3}))", "slice", 2,
       TENSORS(weft::index(a[0], along(n[0], range(n)))),
       ARRAYS(slice(a[0], n[0], n[1], n[2], n[3]))},
      {"index by a tensor", "index($0, {$1, ellipsis})", "gather", 1,
       TENSORS(weft::index(a[0], {*a[1].tensor, weft::ellipsis})),
       ARRAYS(gather(a[0], a[1]))},
      {"index of a new axis", "index($0, along(#0, newaxis))", "new axis", 1,
       TENSORS(weft::index(a[0], along(n[0], weft::newaxis))),
       ARRAYS(unsqueeze(a[0], n[0]))},
      {"index_put at a number", "index_put($0, along(#0, #1), select($0, #0, 0))", "select", 1,
       TENSORS(weft::index_put(a[0], along(n[0], n[1]), weft::select(a[0], whole(n[0]), 0))),
       ARRAYS(with_slice(a[0], unsqueeze(select(a[0], n[0], 0), n[0]), n[0], n[1], n[1] == -1 ? slice_end : n[1] + 1, 1))},
      {"index_put at a range", "index_put($0, along(#0, Range{#1, #2, #3}), flip(slice($0, #0, #1, #2, #3), #0))", "slice", 2,
       TENSORS(weft::index_put(a[0], along(n[0], range(n)),
                               weft::flip(weft::slice(a[0], whole(n[0]), bound(n[1]), bound(n[2]), n[3]), whole(n[0])))),
       ARRAYS(with_slice(a[0], flip(slice(a[0], n[0], n[1], n[2], n[3]), n[0]), n[0], n[1], n[2], n[3]))},
      {"concat", "concat({$*}, #0)", "parts", 5,
       TENSORS(weft::concat(tensors_of(a), whole(n[0]))),
       ARRAYS(concat(a, n[0]))},
      {"stack", "stack({$*}, #0)", "parts", 2,
       TENSORS(weft::stack(tensors_of(a), whole(n[0]))),
       ARRAYS(stack(a, n[0]))},
      {"pad", "pad($0, #0, #1, #2, #3)", "pad", 4,
       TENSORS(weft::pad(a[0], whole(n[0]), n[1], n[2], n[3].constant())),
       ARRAYS(pad(a[0], n[0], n[1], n[2], n[3]))},
      {"var", "var($0, {#2*}, #1, ?0)", "reduce", 1,
       TENSORS(weft::var(a[0], axes_of(n, 2), whole(n[1]), whole(n[0]) != 0)),
       ARRAYS(var(a[0], from(n, 2), static_cast<double>(n[1]), n[0] != 0))},
      {"cumsum", "cumsum($0, #0)", "axis", 1,
       TENSORS(weft::cumsum(a[0], whole(n[0]))),
       ARRAYS(cumulative("sum", a[0], n[0]))},
      {"cumprod", "cumprod($0, #0)", "axis", 1,
       TENSORS(weft::cumprod(a[0], whole(n[0]))),
       ARRAYS(cumulative("prod", a[0], n[0]))},
      {"argmax", "argmax($0, #0, ?1)", "axis, flag", 1,
       TENSORS(weft::argmax(a[0], whole(n[0]), whole(n[1]) != 0)),
       ARRAYS(argmax(a[0], n[0], n[1] != 0, false))},
      {"argmin", "argmin($0, #0, ?1)", "axis, flag", 1,
       TENSORS(weft::argmin(a[0], whole(n[0]), whole(n[1]) != 0)),
       ARRAYS(argmax(a[0], n[0], n[1] != 0, true))},
      {"softmax", "softmax($0, #0)", "axis", 2,
       TENSORS(weft::softmax(a[0], whole(n[0]))),
       ARRAYS(softmax(a[0], n[0]))},
      {"log_softmax", "log_softmax($0, #0)", "axis", 1,
       TENSORS(weft::log_softmax(a[0], whole(n[0]))),
       ARRAYS(log_softmax(a[0], n[0]))},
      {"logsumexp", "logsumexp($0, #0, ?1)", "axis, flag", 1,
       TENSORS(weft::logsumexp(a[0], whole(n[0]), whole(n[1]) != 0)),
       ARRAYS(logsumexp(a[0], n[0], n[1] != 0))},
      {"matmul", "matmul($0, $1)", "matmul", 5,
       TENSORS(weft::matmul(a[0], a[1])),
       ARRAYS(matmul(a[0], a[1]))},
      {"gather", "gather($0, $1)", "gather", 3,
       TENSORS(weft::gather(a[0], a[1])),
       ARRAYS(gather(a[0], a[1]))},
      {"one_hot", "one_hot($0, #0, @)", "one_hot", 1,
       TENSORS(weft::one_hot(a[0], n[0], call.dtype)),
       ARRAYS(one_hot(a[0], n[0], call.dtype))},
      {"mse_loss", "nn::mse_loss($0, $1)", "binary", 1,
       TENSORS(weft::nn::mse_loss(a[0], a[1])),
       ARRAYS(mse_loss(a[0], a[1]))},
      {"cross_entropy", "nn::cross_entropy($0, $1)", "labels", 1,
       TENSORS(weft::nn::cross_entropy(a[0], a[1])),
       ARRAYS(cross_entropy(a[0], a[1]))},
      {"full", "full({#0*}, $0, {@})", "full", 3,
       TENSORS(weft::full(n, a[0], {call.dtype})),
       ARRAYS(full(n, a[0], call.dtype))},
      {"zeros", "zeros({#0*}, {@})", "sizes", 1,
       TENSORS(weft::zeros(n, {call.dtype})),
       ARRAYS(cast(make(DType::i64, n), call.dtype))},
      {"ones", "ones({#0*}, {@})", "sizes", 1,
       TENSORS(weft::ones(n, {call.dtype})),
       ARRAYS(full(n, integer(DType::i64, 1, true), call.dtype))},
      {"zeros_like", "zeros_like($0)", "unary", 1,
       TENSORS(weft::zeros_like(*a[0].tensor)),
       ARRAYS(make(a[0]->dtype, a[0]->shape))},
      {"full_like", "full_like($0, $1)", "like", 1,
       TENSORS(weft::full_like(*a[0].tensor, a[1])),
       ARRAYS(full(a[0]->shape, a[1], a[0]->dtype))},
      {"arange", "arange(#0, #1, #2, @)", "arange", 2,
       TENSORS(weft::arange(n[0], n[1], n[2], {call.dtype})),
       ARRAYS(arange(n[0], n[1], n[2], call.dtype))},
      {"arange of a count", "arange(#0, @)", "count", 1,
       TENSORS(weft::arange(n[0], {call.dtype})),
       ARRAYS(arange(0, n[0], 1, call.dtype))},
      {"arange of floats", "arange($0, $1, $2, @)", "reals", 1,
       TENSORS(weft::arange(a[0].number, a[1].number, a[2].number, {call.dtype})),
       ARRAYS(arange(a[0]->reals[0], a[1]->reals[0], a[2]->reals[0], call.dtype))},
      {"linspace", "linspace($0, $1, #0, @)", "reals", 1,
       TENSORS(weft::linspace(a[0].number, a[1].number, n[0], {call.dtype})),
       ARRAYS(linspace(a[0]->reals[0], a[1]->reals[0], n[0], call.dtype))},
      {"eye", "eye(#0, #1, @)", "eye", 1,
       TENSORS(weft::eye(n[0], n[1], {call.dtype})),
       ARRAYS(eye(n[0], n[1], call.dtype))},
  };
  return table;
}
// clang-format on

}  // namespace oracle
