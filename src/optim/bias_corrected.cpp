// NAdam and RAdam: Adam with other factors of its two moments, which depend on the number of steps.
#include "optim/steps.hpp"

namespace weft::optim {
namespace {

using detail::Parameters;
using detail::PerParameter;
using detail::Step;
using detail::StepCounts;
using detail::wide;

// The parameter, its gradient and its moments of a step; sets the moments.
struct Moments {
  Tensor own, first, second;
};
struct MomentOptions {
  const Scalar &beta1, &beta2, &rate, &decay;
  bool decoupled;
};
Moments next_moments(Step& step, const Tensor& p, const Tensor& gradient, Buffer& first, Buffer& second,
                     const MomentOptions& options) {
  Tensor own = wide(p), g = gradient;
  if (options.decoupled)
    own = own * (1 - options.rate * options.decay);
  else
    g = g + own * options.decay;
  const Tensor before = wide(first);
  Moments result{own, before + (g - before) * (1 - options.beta1),
                 wide(second) * options.beta2 + square(g) * (1 - options.beta2)};
  step.set(first, result.first);
  step.set(second, result.second);
  return result;
}

}  // namespace

NAdam::NAdam(const Parameters& parameters, const NAdamOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      eps(options.eps),
      weight_decay(options.weight_decay),
      momentum_decay(options.momentum_decay),
      groups(detail::groups_of("NAdam", parameters, groups, loc)),
      maximize(options.maximize),
      decoupled_(options.decoupled_weight_decay),
      first_(parameters.zeros(loc)),
      second_(parameters.zeros(loc)),
      products_(detail::ones_per_parameter(parameters, loc)),
      missed_(detail::missed_at_first(parameters, loc)) {
  detail::check_options("NAdam",
                        {{"lr", options.lr},
                         {"eps", options.eps},
                         {"weight_decay", options.weight_decay},
                         {"momentum_decay", options.momentum_decay}},
                        {{"beta1", options.beta1}, {"beta2", options.beta2}}, loc);
}
void NAdam::step(const Parameters& parameters, Loc loc) {
  Step step("NAdam", parameters, first_, loc);
  const StepCounts counts(parameters, steps, missed_, step, step.loc());
  const auto momentum_at = [&](const Scalar& t) { return beta1 * (1 - 0.5 * pow(Scalar(0.96), t * momentum_decay)); };
  const PerParameter momentum = counts.of(momentum_at);
  const PerParameter next_momentum = counts.of([&](const Scalar& t) { return momentum_at(t + 1); });
  const PerParameter scale2 = counts.of([&](const Scalar& t) { return 1 - pow(beta2, t); });
  step.set(products_, counts.where_taken(products_ * momentum.values(), products_));
  const PerParameter product(products_);
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& gradient) {
    const Scalar& rate = groups.lr(i, lr);
    const Scalar& decay = groups.weight_decay(i, weight_decay);
    const Tensor g = decoupled_ ? gradient : gradient + wide(p) * decay;
    const Moments next =
        next_moments(step, p, gradient, first_[i], second_[i], {beta1, beta2, rate, decay, decoupled_});
    const Tensor root = sqrt(next.second / scale2[i]) + eps;
    const Scalar of_gradient = rate * (1 - momentum[i]) / (1 - product[i]),
                 of_first = rate * next_momentum[i] / (1 - product[i] * next_momentum[i]);
    step.set(p, next.own - g * of_gradient / root - next.first * of_first / root);
  });
  step.finish();
}

RAdam::RAdam(const Parameters& parameters, const RAdamOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      eps(options.eps),
      weight_decay(options.weight_decay),
      groups(detail::groups_of("RAdam", parameters, groups, loc)),
      maximize(options.maximize),
      decoupled_(options.decoupled_weight_decay),
      first_(parameters.zeros(loc)),
      second_(parameters.zeros(loc)),
      missed_(detail::missed_at_first(parameters, loc)) {
  detail::check_options("RAdam", {{"lr", options.lr}, {"eps", options.eps}, {"weight_decay", options.weight_decay}},
                        {{"beta1", options.beta1}, {"beta2", options.beta2}}, loc);
}
void RAdam::step(const Parameters& parameters, Loc loc) {
  Step step("RAdam", parameters, first_, loc);
  const StepCounts counts(parameters, steps, missed_, step, step.loc());
  const Scalar longest = 2 / (1 - beta2) - 1;
  const auto length_at = [&](const Scalar& t) { return longest - 2 * t * pow(beta2, t) / (1 - pow(beta2, t)); };
  const PerParameter length = counts.of(length_at);
  const PerParameter scale1 = counts.of([&](const Scalar& t) { return 1 - pow(beta1, t); });
  // The root of the second moment's correction, times the rectification; used where the length is above 5.
  const PerParameter rectified = counts.of([&](const Scalar& t) {
    const Scalar at = length_at(t), far = (at - 4) * (at - 2) * longest / ((longest - 4) * (longest - 2) * at);
    return sqrt(Scalar(maximum(far, 0.0))) * sqrt(1 - pow(beta2, t));
  });
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& gradient) {
    const Scalar& rate = groups.lr(i, lr);
    const Moments next = next_moments(step, p, gradient, first_[i], second_[i],
                                      {beta1, beta2, rate, groups.weight_decay(i, weight_decay), decoupled_});
    const Tensor scale = where(At(length[i]) > 5, rectified[i] / (sqrt(next.second) + eps), 1.0);
    step.set(p, next.own - next.first * (rate / scale1[i]) * scale);
  });
  step.finish();
}

}  // namespace weft::optim
