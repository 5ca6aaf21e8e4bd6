// Optimizers that scale each parameter's step by what its gradients were: RMSprop, Adadelta, Adagrad, Lion, LAMB,
// Adafactor.
#include <cmath>
#include <limits>

#include "base/fail.hpp"
#include "optim/steps.hpp"
#include "record/composite.hpp"

namespace weft::optim {
namespace {

using detail::Parameters;
using detail::PerParameter;
using detail::Step;
using detail::StepCounts;
using detail::wide;

}  // namespace

RMSprop::RMSprop(const Parameters& parameters, const RMSpropOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      alpha(options.alpha),
      eps(options.eps),
      weight_decay(options.weight_decay),
      momentum(options.momentum),
      groups(detail::groups_of("RMSprop", parameters, groups, loc)),
      maximize(options.maximize),
      centered_(options.centered),
      square_(parameters.zeros(loc)) {
  detail::check_options("RMSprop",
                        {{"lr", options.lr},
                         {"alpha", options.alpha},
                         {"eps", options.eps},
                         {"weight_decay", options.weight_decay},
                         {"momentum", options.momentum}},
                        {}, loc);
  if (centered_) mean_ = parameters.zeros(loc);
  if (options.momentum != 0) velocity_ = parameters.zeros(loc);
}
void RMSprop::step(const Parameters& parameters, Loc loc) {
  Step step("RMSprop", parameters, square_, loc);
  if (velocity_.empty()) detail::require_no_momentum(momentum, step.loc());
  const Scalar rest = 1 - alpha;
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& gradient) {
    const Tensor own = wide(p), g = gradient + own * groups.weight_decay(i, weight_decay);
    Tensor variance = wide(square_[i]) * alpha + square(g) * rest;
    step.set(square_[i], variance);
    if (centered_) {
      const Tensor before = wide(mean_[i]), mean = before + (g - before) * rest;
      step.set(mean_[i], mean);
      variance = variance - square(mean);
    }
    Tensor change = g / (sqrt(variance) + eps);
    if (!velocity_.empty()) {
      change = wide(velocity_[i]) * momentum + change;
      step.set(velocity_[i], change);
    }
    step.set(p, own - change * groups.lr(i, lr));
  });
  step.finish();
}

Adadelta::Adadelta(const Parameters& parameters, const AdadeltaOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      rho(options.rho),
      eps(options.eps),
      weight_decay(options.weight_decay),
      groups(detail::groups_of("Adadelta", parameters, groups, loc)),
      maximize(options.maximize),
      square_(parameters.zeros(loc)),
      change_(parameters.zeros(loc)) {
  detail::check_options("Adadelta", {{"lr", options.lr}, {"eps", options.eps}, {"weight_decay", options.weight_decay}},
                        {}, loc);
  check_numbers("Adadelta", Bounds::share, {{"rho", options.rho}}, loc);
}
void Adadelta::step(const Parameters& parameters, Loc loc) {
  Step step("Adadelta", parameters, square_, loc);
  const Scalar rest = 1 - rho;
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& gradient) {
    const Tensor own = wide(p), g = gradient + own * groups.weight_decay(i, weight_decay), before = wide(change_[i]);
    const Tensor variance = wide(square_[i]) * rho + square(g) * rest;
    const Tensor change = sqrt(before + eps) / sqrt(variance + eps) * g;
    step.set(square_[i], variance);
    step.set(change_[i], before * rho + square(change) * rest);
    step.set(p, own - change * groups.lr(i, lr));
  });
  step.finish();
}

Adagrad::Adagrad(const Parameters& parameters, const AdagradOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      lr_decay(options.lr_decay),
      weight_decay(options.weight_decay),
      eps(options.eps),
      groups(detail::groups_of("Adagrad", parameters, groups, loc)),
      maximize(options.maximize),
      square_(parameters.zeros(loc)),
      missed_(detail::missed_at_first(parameters, loc)) {
  detail::check_options("Adagrad",
                        {{"lr", options.lr},
                         {"lr_decay", options.lr_decay},
                         {"weight_decay", options.weight_decay},
                         {"initial_accumulator_value", options.initial_accumulator_value},
                         {"eps", options.eps}},
                        {}, loc);
  if (options.initial_accumulator_value == 0) return;
  for (Buffer& square : square_)
    if (square->defined()) square = full_like(square, At(options.initial_accumulator_value, loc));
}
void Adagrad::step(const Parameters& parameters, Loc loc) {
  Step step("Adagrad", parameters, square_, loc);
  const PerParameter slowed = StepCounts(parameters, steps, missed_, step, step.loc()).of([&](const Scalar& t) {
    return 1 + (t - 1) * lr_decay;
  });
  detail::each_part(parameters, step.loc(), [&](std::size_t i, Tensor& p, const detail::UpdatedPart& part) {
    const Scalar& decay = groups.weight_decay(i, weight_decay);
    part.require_zero(parameters, i, decay, "weight decay");
    const Tensor own = part.of(p), g = part.gradient() + own * decay, before = part.of(square_[i]);
    const Tensor sum = cast(before + square(g), before.dtype());
    step.set(square_[i], part.put_into(square_[i], sum));
    step.set(p, part.put_into(p, own - g / (sqrt(sum) + eps) * (groups.lr(i, lr) / slowed[i])));
  });
  step.finish();
}

Lion::Lion(const Parameters& parameters, const LionOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      weight_decay(options.weight_decay),
      groups(detail::groups_of("Lion", parameters, groups, loc)),
      maximize(options.maximize),
      first_(parameters.zeros(loc)) {
  detail::check_options("Lion", {{"lr", options.lr}, {"weight_decay", options.weight_decay}},
                        {{"beta1", options.beta1}, {"beta2", options.beta2}}, loc);
}
void Lion::step(const Parameters& parameters, Loc loc) {
  Step step("Lion", parameters, first_, loc);
  const Scalar rest1 = 1 - beta1, rest2 = 1 - beta2;
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& g) {
    const Scalar& rate = groups.lr(i, lr);
    const Tensor first = wide(first_[i]), direction = sign(first * beta1 + g * rest1);
    step.set(p, wide(p) * (1 - rate * groups.weight_decay(i, weight_decay)) - direction * rate);
    step.set(first_[i], first * beta2 + g * rest2);
  });
  step.finish();
}

LAMB::LAMB(const Parameters& parameters, const LambOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      eps(options.eps),
      weight_decay(options.weight_decay),
      groups(detail::groups_of("LAMB", parameters, groups, loc)),
      maximize(options.maximize),
      first_(parameters.zeros(loc)),
      second_(parameters.zeros(loc)),
      missed_(detail::missed_at_first(parameters, loc)) {
  parameters.require_whole("LAMB", loc);
  detail::check_options("LAMB", {{"lr", options.lr}, {"eps", options.eps}, {"weight_decay", options.weight_decay}},
                        {{"beta1", options.beta1}, {"beta2", options.beta2}}, loc);
}
void LAMB::step(const Parameters& parameters, Loc loc) {
  Step step("LAMB", parameters, first_, loc);
  const StepCounts counts(parameters, steps, missed_, step, step.loc());
  const Scalar rest1 = 1 - beta1, rest2 = 1 - beta2;
  const PerParameter scale1 = counts.of([&](const Scalar& t) { return 1 - pow(beta1, t); });
  const PerParameter scale2 = counts.of([&](const Scalar& t) { return 1 - pow(beta2, t); });
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& g) {
    const Tensor own = wide(p), first = wide(first_[i]) * beta1 + g * rest1,
                 second = wide(second_[i]) * beta2 + square(g) * rest2;
    step.set(first_[i], first);
    step.set(second_[i], second);
    const Tensor change =
        (first / scale1[i]) / (sqrt(second / scale2[i]) + eps) + own * groups.weight_decay(i, weight_decay);
    const Tensor length = norm(own), way = norm(change);
    const Tensor trust = where((length > 0) & (way > 0), length / way, 1.0);
    step.set(p, own - change * (trust * groups.lr(i, lr)));
  });
  step.finish();
}

Adafactor::Adafactor(const Parameters& parameters, const AdafactorOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta2_decay(options.beta2_decay),
      eps1(options.eps1),
      eps2(options.eps2),
      d(options.d),
      weight_decay(options.weight_decay),
      groups(detail::groups_of("Adafactor", parameters, groups, loc)),
      maximize(options.maximize),
      rows_(parameters.size()),
      columns_(parameters.size()),
      square_(parameters.size()),
      missed_(detail::missed_at_first(parameters, loc)) {
  parameters.require_whole("Adafactor", loc);
  detail::check_options(
      "Adafactor",
      {{"lr", options.lr}, {"eps1", options.eps1}, {"eps2", options.eps2}, {"weight_decay", options.weight_decay}}, {},
      loc);
  check_numbers("Adafactor", Bounds::finite, {{"beta2_decay", options.beta2_decay}}, loc);
  if (options.beta2_decay > 0) fail("Adafactor", loc, "beta2_decay must not be positive, it is ", options.beta2_decay);
  if (!(options.d >= 1)) fail("Adafactor", loc, "d must not be below 1, it is ", options.d);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters.parameter(i).defined()) continue;
    const Type& type = type_of(parameters.parameter(i));
    const int rank = type.shape.rank();
    if (rank < 2) {
      square_[i] = zeros_like(parameters.parameter(i), loc);
      continue;
    }
    Shape rows = type.shape, columns = type.shape;
    rows[rank - 1] = 1;
    columns[rank - 2] = 1;
    rows_[i] = zeros(rows, {type.dtype, type.device}, loc);
    columns_[i] = zeros(columns, {type.dtype, type.device}, loc);
  }
}
// The distance from 1 to the next number.
static double epsilon(DType dtype) {
  return dtype == DType::f64   ? std::numeric_limits<double>::epsilon()
         : dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::epsilon())
         : dtype == DType::f16 ? 0x1p-10
                               : 0x1p-7;
}
void Adafactor::step(const Parameters& parameters, Loc loc) {
  Step step("Adafactor", parameters, square_, loc);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i]->defined()) continue;
    Shape shape = rows_[i]->shape();
    shape[shape.rank() - 1] = columns_[i]->shape()[shape.rank() - 1];
    detail::require_same_shape(parameters, i, shape, step.loc());
  }
  const StepCounts counts(parameters, steps, missed_, step, step.loc());
  const PerParameter fresh_of = counts.of([&](const Scalar& t) { return pow(t, beta2_decay); });
  const PerParameter slowest = counts.of([](const Scalar& t) { return 1 / sqrt(t); });
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& g) {
    const Scalar& rate = groups.lr(i, lr);
    const Scalar fresh = fresh_of[i], relative = Scalar(minimum(rate, slowest[i]));
    const Scalar least = Scalar(where(At(eps1) > 0, eps1, epsilon(type_of(p).dtype)));
    const auto root_mean_square = [](const Tensor& x) { return sqrt(mean(square(x))); };
    const Tensor own = wide(p), size = maximum(root_mean_square(own), eps2) * relative;
    const Tensor kept = own * (1 - rate * groups.weight_decay(i, weight_decay));
    Tensor variance;
    if (rows_[i]->defined()) {
      Tensor rows = wide(rows_[i]), columns = wide(columns_[i]);
      rows = rows + (mean(square(g), -1, true) - rows) * fresh;
      columns = columns + (mean(square(g), -2, true) - columns) * fresh;
      step.set(rows_[i], rows);
      step.set(columns_[i], columns);
      variance = rows * columns / maximum(mean(rows, -2, true), least);
    } else {
      const Tensor before = wide(square_[i]);
      variance = before + (square(g) - before) * fresh;
      step.set(square_[i], variance);
    }
    const Tensor change = rsqrt(maximum(variance, least * least)) * g;
    step.set(p, kept - change * (size / maximum(root_mean_square(change) / d, 1.0)));
  });
  step.finish();
}

}  // namespace weft::optim
