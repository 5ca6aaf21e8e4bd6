// The library's own scalar expressions.
#include "record/expressions.hpp"

#include <cmath>

#include "weft/expr.hpp"

namespace weft::WEFT_ISA_NAMESPACE {
namespace {

// Hendrycks and Gimpel 2016: x times the normal distribution's probability of less than x, and its approximation.
constexpr auto gelu = [](auto x) { return x * 0.5 * (erf(x * 0.7071067811865476) + 1); };
constexpr auto gelu_tanh = [](auto x) { return x * 0.5 * (tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)) + 1); };

// Kingma and Ba 2015, where weight decay is a part of the gradient; with decoupled weight decay, which shrinks the
// parameter, Loshchilov and Hutter 2019.
constexpr auto moments_step(Sym kept, Sym g, Sym m, Sym v, Sym step_size, Sym second_scale, Sym one_minus_beta1,
                            Sym beta2, Sym one_minus_beta2, Sym eps) {
  Sym first = m + (g - m) * one_minus_beta1;
  Sym second = v * beta2 + g * g * one_minus_beta2;
  return pack(kept - first / (sqrt(second) / second_scale + eps) * step_size, first, second);
}
constexpr auto adam = [](auto p, auto g, auto m, auto v, auto step_size, auto second_scale, auto one_minus_beta1,
                         auto beta2, auto one_minus_beta2, auto eps, auto decay) {
  return moments_step(p, g + p * decay, m, v, step_size, second_scale, one_minus_beta1, beta2, one_minus_beta2, eps);
};
constexpr auto adamw = [](auto p, auto g, auto m, auto v, auto step_size, auto second_scale, auto one_minus_beta1,
                          auto beta2, auto one_minus_beta2, auto eps, auto decay) {
  return moments_step(p * decay, g, m, v, step_size, second_scale, one_minus_beta1, beta2, one_minus_beta2, eps);
};

constexpr auto finite_greatest = [](auto a, auto b, auto c) {
  const auto top = maximum(maximum(a, b), c);
  return where(top > -INFINITY, top, 0);
};
// With a derivative that is a number where all are -inf.
constexpr auto log_of_sum = [](auto a, auto b, auto c, auto top) {
  const auto total = exp(a - top) + exp(b - top) + exp(c - top);
  return where(total > 0, log(where(total > 0, total, 1)) + top, -INFINITY);
};

template <class F>
const ElementwiseDefinition* differentiable(const F&) {
  return &detail::ScalarFunction<F>::definition();
}
template <class F>
const ElementwiseDefinition* plain(const F&) {
  return &detail::ScalarFunction<F>::plain;
}

}  // namespace

OwnExpressions expressions() {
  return {differentiable(gelu), differentiable(gelu_tanh), plain(adam),
          plain(adamw),         plain(finite_greatest),    differentiable(log_of_sum)};
}

}  // namespace weft::WEFT_ISA_NAMESPACE
