// Activations as composites over the primitives. In: an operand and the numbers of the function. Out: one call.
//
// A branch that `where` does not take must not give a NaN to its derivative: its operand is replaced there, by `where`
// and not by `minimum`, which would halve the derivative at the kink.
#include <cmath>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

template <class F>
Tensor activation(const Attributes& how, const At& x, F compute) {
  const char* const name = interned_text(called_name(how).id).c_str();
  Operation call(name, x.loc);
  const auto body = [&](const Tensor& value) { return in_wide(value, compute); };
  return composite(how, call.loc(), body, resolve(x, name));
}

// x up to 0, and 0 above it.
Tensor up_to_zero(const Tensor& x) { return where(x <= 0, x, 0); }
// log(1 + exp(-|x|)), with the derivative of exp(x) on the left of 0 and at it.
Tensor log1p_of_small(const Tensor& x) { return log1p(exp(where(x > 0, -x, x))); }
Tensor plain_softplus(const Tensor& x) { return where(x > 0, x, 0) + log1p_of_small(x); }

Tensor between(const Tensor& x, double low, double high) { return where(x <= low, low, where(x >= high, high, x)); }

}  // namespace

Tensor softplus(At x, double beta, double threshold) {
  if (beta == 0 || std::isnan(beta)) fail("softplus", x.loc, "beta must be a number other than 0, it is ", beta);
  return activation(ActivationCall{called("softplus"), beta, threshold}, x, [=](const Tensor& x) {
    const Tensor scaled = x * beta;
    return where(scaled > threshold, x, plain_softplus(scaled) / beta);
  });
}
Tensor elu(At x, double alpha) {
  return activation(ActivationCall{called("elu"), alpha}, x,
                    [=](const Tensor& x) { return where(x <= 0, expm1(up_to_zero(x)) * alpha, x); });
}
Tensor selu(At x) {
  constexpr double alpha = 1.6732632423543772, scale = 1.0507009873554805;
  return activation(called("selu"), x,
                    [](const Tensor& x) { return where(x <= 0, expm1(up_to_zero(x)) * alpha, x) * scale; });
}
Tensor celu(At x, double alpha) {
  if (alpha == 0) fail("celu", x.loc, "alpha is 0");
  return activation(ActivationCall{called("celu"), alpha}, x,
                    [=](const Tensor& x) { return where(x <= 0, expm1(up_to_zero(x) / alpha) * alpha, x); });
}
Tensor leaky_relu(At x, double negative_slope) {
  return activation(ActivationCall{called("leaky_relu"), negative_slope}, x,
                    [=](const Tensor& x) { return where(x > 0, x, x * negative_slope); });
}
Tensor prelu(At left, At right) {
  LooseComposite call("prelu", left.loc);
  const Tensor x = resolve(left, "prelu");
  Tensor weight = resolve(right, "prelu");
  const Shape from = type_of(x).shape, given = type_of(weight).shape;
  const bool one = given.rank() == 0 || (given.rank() == 1 && given[0].same(Dim(1)));
  if (!one && (given.rank() != 1 || from.rank() < 2 || !(given[0] == from[1])))
    fail("prelu", call.loc(), "the weight is one number, or has the size of axis 1: ", to_string(type_of(x)), " and ",
         to_string(type_of(weight)));
  if (one && given.rank() == 1) weight = squeeze(weight, 0);
  if (!one)
    for (int axis = 2; axis < from.rank(); ++axis) weight = unsqueeze(weight, -1);
  return where(x > 0, x, where(x > 0, 0, x) * weight);
}
Tensor hardtanh(At x, double low, double high) {
  if (low > high) fail("hardtanh", x.loc, "low ", low, " is above high ", high);
  return activation(ActivationCall{called("hardtanh"), low, high}, x,
                    [=](const Tensor& x) { return between(x, low, high); });
}
Tensor relu6(At x) {
  return activation(called("relu6"), x, [](const Tensor& x) { return between(x, 0, 6); });
}
Tensor hardsigmoid(At x) {
  return activation(called("hardsigmoid"), x, [](const Tensor& x) {
    const Tensor line = x / 6 + 0.5;
    return where((x > -3) & (x < 3), line, stop_gradient(between(line, 0, 1)));
  });
}
Tensor hardswish(At x) {
  return activation(called("hardswish"), x, [](const Tensor& x) {
    const Tensor inside = where((x > -3) & (x < 3), x, 0);
    return where(x < 3, where(x <= -3, x * 0, inside * (inside + 3) / 6), x);
  });
}
Tensor mish(At x) {
  return activation(called("mish"), x, [](const Tensor& x) { return x * tanh(plain_softplus(x)); });
}
Tensor log_sigmoid(At x) {
  return activation(called("log_sigmoid"), x, [](const Tensor& x) { return up_to_zero(x) - log1p_of_small(x); });
}
Tensor softsign(At x) {
  return activation(called("softsign"), x, [](const Tensor& x) { return x / (abs(x) + 1); });
}
Tensor tanhshrink(At x) {
  return activation(called("tanhshrink"), x, [](const Tensor& x) { return x - tanh(x); });
}
Tensor softshrink(At x, double lambda) {
  if (!(lambda >= 0)) fail("softshrink", x.loc, "lambda is ", lambda, ", it must be 0 or more");
  return activation(ActivationCall{called("softshrink"), lambda}, x, [=](const Tensor& x) {
    return where((x >= -lambda) & (x <= lambda), 0, where(x > 0, x - lambda, x + lambda));
  });
}
Tensor hardshrink(At x, double lambda) {
  return activation(ActivationCall{called("hardshrink"), lambda}, x,
                    [=](const Tensor& x) { return where((x >= -lambda) & (x <= lambda), 0, x); });
}
Tensor threshold(At x, double bound, double value) {
  return activation(ActivationCall{called("threshold"), bound, value}, x,
                    [=](const Tensor& x) { return where(x <= bound, value, x); });
}

}  // namespace weft
