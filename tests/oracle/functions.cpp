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
}  // namespace

#define TENSORS [](Arguments a, [[maybe_unused]] const Dims& n, [[maybe_unused]] const Call& call) -> Tensor
#define ARRAYS \
  [](const std::vector<Array>& a, [[maybe_unused]] const Shape& n, [[maybe_unused]] const Call& call) -> Array
#define UNARY(name, weight)                                                    \
  {                                                                            \
#name, #name "($0)", "unary", weight, TENSORS { return weft::name(a[0]); } \
    , ARRAYS { return unary(#name, a[0]); }                                    \
  }
#define BINARY(name, weight)                                                              \
  {                                                                                       \
#name, #name "($0, $1)", "binary", weight, TENSORS { return weft::name(a[0], a[1]); } \
    , ARRAYS { return binary(#name, a[0], a[1]); }                                        \
  }
#define OPERATOR(op, weight)                                                            \
  {                                                                                     \
    "operator" #op, "$0 " #op " $1", "binary", weight, TENSORS { return a[0] op a[1]; } \
    , ARRAYS { return binary("operator" #op, a[0], a[1]); }                             \
  }
#define REDUCE(name, weight)                                        \
  {                                                                 \
#name, #name "($0, {#1*}, ?0)", "reduce", weight, TENSORS {     \
      return weft::name(a[0], axes_of(n, 1), whole(n[0]) != 0);     \
    }                                                               \
    , ARRAYS { return reduce(#name, a[0], from(n, 1), n[0] != 0); } \
  }

const std::vector<Function>& functions() {
  static const std::vector<Function> table = {
      UNARY(neg, 2), UNARY(abs, 2), UNARY(sign, 1), UNARY(relu, 2), UNARY(floor, 1), UNARY(ceil, 1), UNARY(round, 1),
      UNARY(exp, 2), UNARY(expm1, 1), UNARY(log, 1), UNARY(log1p, 1), UNARY(sqrt, 2), UNARY(rsqrt, 1),
      UNARY(reciprocal, 1), UNARY(sin, 1), UNARY(cos, 1), UNARY(tanh, 2), UNARY(erf, 1), UNARY(sigmoid, 2),
      UNARY(isnan, 1), UNARY(isfinite, 1), UNARY(bitwise_not, 1), UNARY(square, 2), UNARY(silu, 1), OPERATOR(+, 6),
      OPERATOR(-, 5), OPERATOR(*, 6), OPERATOR(/, 4), OPERATOR(%, 1), OPERATOR(==, 1), OPERATOR(!=, 1), OPERATOR(<, 2),
      OPERATOR(<=, 1), OPERATOR(>, 1), OPERATOR(>=, 1), OPERATOR(&, 1), OPERATOR(|, 1), OPERATOR(^, 1),
      BINARY(maximum, 3), BINARY(minimum, 3), BINARY(pow, 1), BINARY(floor_divide, 1), REDUCE(sum, 5), REDUCE(mean, 3),
      REDUCE(prod, 2), REDUCE(amax, 2), REDUCE(amin, 2), REDUCE(any, 1), REDUCE(all, 1), REDUCE(norm, 1),
      {"where", "where($0, $1, $2)", "where", 4, TENSORS{return weft::where(a[0], a[1], a[2]);
}
, ARRAYS { return where(a[0], a[1], a[2]); }
}  // namespace oracle
, {"clamp", "clamp($0, $1, $2)", "clamp", 2, TENSORS{return weft::clamp(a[0], a[1], a[2]);
}
, ARRAYS { return clamp(a[0], a[1], a[2]); }
}
, {"cast", "cast($0, @)", "cast", 6, TENSORS{return weft::cast(a[0], call.dtype);
}
, ARRAYS { return cast(a[0], call.dtype); }
}
, {"bitcast", "bitcast($0, @)", "cast", 1, TENSORS{return weft::bitcast(a[0], call.dtype);
}
, ARRAYS { return bitcast(a[0], call.dtype); }
}
, {"gelu", "gelu($0)", "unary", 1, TENSORS{return weft::gelu(a[0]);
}
, ARRAYS { return gelu(a[0], false); }
}
, {"gelu_tanh", "gelu($0, Gelu::tanh)", "unary", 1, TENSORS{return weft::gelu(a[0], weft::Gelu::tanh);
}
, ARRAYS { return gelu(a[0], true); }
}
, {"stop_gradient", "stop_gradient($0)", "unary", 1, TENSORS{return weft::stop_gradient(a[0]);
}
, ARRAYS { return stop_gradient(a[0]); }
}
, {"reshape", "reshape($0, {#0*})", "reshape", 4, TENSORS{return weft::reshape(a[0], n);
}
, ARRAYS { return reshape(a[0], n); }
}
, {"flatten", "flatten($0, #0, #1)", "two axes", 1, TENSORS{return weft::flatten(a[0], whole(n[0]), whole(n[1]));
}
, ARRAYS { return flatten(a[0], n[0], n[1]); }
}
, {"permute", "permute($0, {#0*})", "permute", 3, TENSORS{return weft::permute(a[0], axes_of(n, 0));
}
, ARRAYS { return permute(a[0], n); }
}
, {"transpose", "transpose($0, #0, #1)", "two axes", 2, TENSORS{return weft::transpose(a[0], whole(n[0]), whole(n[1]));
}
, ARRAYS { return transpose(a[0], n[0], n[1]); }
}
, {"expand", "expand($0, {#0*})", "expand", 4, TENSORS{return weft::expand(a[0], n);
}
, ARRAYS { return expand(a[0], n); }
}
, {"squeeze", "squeeze($0, #0)", "axis", 1, TENSORS{return weft::squeeze(a[0], whole(n[0]));
}
, ARRAYS { return squeeze(a[0], n[0]); }
}
, {"unsqueeze", "unsqueeze($0, #0)", "new axis", 3, TENSORS{return weft::unsqueeze(a[0], whole(n[0]));
}
, ARRAYS { return unsqueeze(a[0], n[0]); }
}
, {"slice", "slice($0, #0, #1, #2, #3)", "slice", 8,
   TENSORS{return weft::slice(a[0], whole(n[0]), bound(n[1]), bound(n[2]), n[3]);
}
, ARRAYS { return slice(a[0], n[0], n[1], n[2], n[3]); }
}
, {"select", "select($0, #0, #1)", "select", 3, TENSORS{return weft::select(a[0], whole(n[0]), n[1]);
}
, ARRAYS { return select(a[0], n[0], n[1]); }
}
, {"flip", "flip($0, #0)", "axis", 2, TENSORS{return weft::flip(a[0], whole(n[0]));
}
, ARRAYS { return flip(a[0], n[0]); }
}
, {"concat", "concat({$*}, #0)", "parts", 5, TENSORS{return weft::concat(tensors_of(a), whole(n[0]));
}
, ARRAYS { return concat(a, n[0]); }
}
, {"stack", "stack({$*}, #0)", "parts", 2, TENSORS{return weft::stack(tensors_of(a), whole(n[0]));
}
, ARRAYS { return stack(a, n[0]); }
}
, {"pad", "pad($0, #0, #1, #2, #3)", "pad", 4, TENSORS{return weft::pad(a[0], whole(n[0]), n[1], n[2], n[3].constant());
}
, ARRAYS { return pad(a[0], n[0], n[1], n[2], n[3]); }
}
, {"var", "var($0, {#2*}, #1, ?0)", "reduce", 1,
   TENSORS{return weft::var(a[0], axes_of(n, 2), whole(n[1]), whole(n[0]) != 0);
}
, ARRAYS { return var(a[0], from(n, 2), static_cast<double>(n[1]), n[0] != 0); }
}
, {"argmax", "argmax($0, #0, ?1)", "axis, flag", 1, TENSORS{return weft::argmax(a[0], whole(n[0]), whole(n[1]) != 0);
}
, ARRAYS { return argmax(a[0], n[0], n[1] != 0, false); }
}
, {"argmin", "argmin($0, #0, ?1)", "axis, flag", 1, TENSORS{return weft::argmin(a[0], whole(n[0]), whole(n[1]) != 0);
}
, ARRAYS { return argmax(a[0], n[0], n[1] != 0, true); }
}
, {"softmax", "softmax($0, #0)", "axis", 2, TENSORS{return weft::softmax(a[0], whole(n[0]));
}
, ARRAYS { return softmax(a[0], n[0]); }
}
, {"log_softmax", "log_softmax($0, #0)", "axis", 1, TENSORS{return weft::log_softmax(a[0], whole(n[0]));
}
, ARRAYS { return log_softmax(a[0], n[0]); }
}
, {"logsumexp", "logsumexp($0, #0, ?1)", "axis, flag", 1,
   TENSORS{return weft::logsumexp(a[0], whole(n[0]), whole(n[1]) != 0);
}
, ARRAYS { return logsumexp(a[0], n[0], n[1] != 0); }
}
, {"matmul", "matmul($0, $1)", "matmul", 5, TENSORS{return weft::matmul(a[0], a[1]);
}
, ARRAYS { return matmul(a[0], a[1]); }
}
, {"gather", "gather($0, $1)", "gather", 3, TENSORS{return weft::gather(a[0], a[1]);
}
, ARRAYS { return gather(a[0], a[1]); }
}
, {"one_hot", "one_hot($0, #0, @)", "one_hot", 1, TENSORS{return weft::one_hot(a[0], n[0], call.dtype);
}
, ARRAYS { return one_hot(a[0], n[0], call.dtype); }
}
, {"mse_loss", "nn::mse_loss($0, $1)", "binary", 1, TENSORS{return weft::nn::mse_loss(a[0], a[1]);
}
, ARRAYS { return mse_loss(a[0], a[1]); }
}
, {"cross_entropy", "nn::cross_entropy($0, $1)", "labels", 1, TENSORS{return weft::nn::cross_entropy(a[0], a[1]);
}
, ARRAYS { return cross_entropy(a[0], a[1]); }
}
,
}
;
return table;
}

}  // namespace oracle
