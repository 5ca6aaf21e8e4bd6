// Rprop, for gradients of all samples, and ASGD, which averages parameters.
#include "base/fail.hpp"
#include "optim/steps.hpp"

namespace weft::optim {

using detail::Parameters;
using detail::PerParameter;
using detail::Step;
using detail::StepCounts;
using detail::wide;

Rprop::Rprop(const Parameters& parameters, const RpropOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      eta_minus(options.eta_minus),
      eta_plus(options.eta_plus),
      least_step(options.least_step),
      most_step(options.most_step),
      groups(detail::groups_of("Rprop", parameters, groups, loc)),
      maximize(options.maximize),
      previous_(parameters.zeros(loc)),
      size_(parameters.zeros(loc)),
      missed_(detail::missed_at_first(parameters, loc)) {
  detail::check_options(
      "Rprop", {{"lr", options.lr}, {"least_step", options.least_step}, {"most_step", options.most_step}}, {}, loc);
  check_numbers("Rprop", Bounds::finite, {{"eta_plus", options.eta_plus}}, loc);
  if (!(options.eta_minus > 0 && options.eta_minus < 1))
    fail("Rprop", loc, "eta_minus must be between 0 and 1, it is ", options.eta_minus);
  if (!(options.eta_plus > 1)) fail("Rprop", loc, "eta_plus must be above 1, it is ", options.eta_plus);
  for (std::size_t i = 0; i < this->groups.size(); ++i)
    if (this->groups[i].own_weight_decay) fail("Rprop", loc, "a group of Rprop has no weight decay");
}
void Rprop::step(const Parameters& parameters, Loc loc) {
  Step step("Rprop", parameters, previous_, loc);
  const PerParameter count =
      StepCounts(parameters, steps, missed_, step, step.loc()).of([](const Scalar& t) { return t; });
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& g) {
    const Tensor turn = g * wide(previous_[i]);
    const Tensor before = where(At(count[i]) == 1, groups.lr(i, lr), wide(size_[i]));
    const Tensor changed = where(turn > 0, before * eta_plus, where(turn < 0, before * eta_minus, before));
    const Tensor size = minimum(maximum(changed, least_step), most_step);
    const Tensor kept = where(turn < 0, 0.0, g);
    step.set(previous_[i], kept);
    step.set(size_[i], size);
    step.set(p, wide(p) - sign(kept) * size);
  });
  step.finish();
}

ASGD::ASGD(const Parameters& parameters, const AsgdOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      lambd(options.lambd),
      alpha(options.alpha),
      t0(options.t0),
      weight_decay(options.weight_decay),
      groups(detail::groups_of("ASGD", parameters, groups, loc)),
      maximize(options.maximize),
      average_(parameters.zeros(loc)),
      missed_(detail::missed_at_first(parameters, loc)) {
  detail::check_options(
      "ASGD",
      {{"lr", options.lr}, {"lambd", options.lambd}, {"alpha", options.alpha}, {"weight_decay", options.weight_decay}},
      {}, loc);
  check_numbers("ASGD", Bounds::finite, {{"t0", options.t0}}, loc);
}
void ASGD::step(const Parameters& parameters, Loc loc) {
  Step step("ASGD", parameters, average_, loc);
  const StepCounts counts(parameters, steps, missed_, step, step.loc());
  const PerParameter share = counts.of([&](const Scalar& t) { return 1 / Scalar(maximum(t - 1 - t0, 1.0)); });
  const auto rates_of = [&](const Scalar& lr) {
    return counts.of([&](const Scalar& t) { return lr / pow(1 + lambd * lr * (t - 1), alpha); });
  };
  std::vector<PerParameter> rates = {rates_of(lr)};  // of no group, of each group
  for (std::size_t i = 0; i < groups.size(); ++i) rates.push_back(rates_of(groups[i].own_lr ? groups[i].lr : lr));
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& gradient) {
    const Scalar rate = rates[groups.group_of(i)][i], part = share[i];
    const Tensor own = wide(p), g = gradient + own * groups.weight_decay(i, weight_decay);
    const Tensor next = own * (1 - lambd * rate) - g * rate, before = wide(average_[i]);
    step.set(average_[i], where(At(part) == 1, next, before + (next - before) * part));
    step.set(p, next);
  });
  step.finish();
}
void ASGD::put_averages(const Parameters& parameters, Loc loc) const {
  LooseComposite call("ASGD", loc);
  detail::require_same_model(parameters, average_, call.loc());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor& p = parameters.parameter(i);
    if (!p.defined()) continue;
    const PerParameter count(missed_->defined() ? steps - cast(missed_, DType::f64) : steps.tensor());
    p = where(At(count[i]) > 0, cast(average_[i], type_of(p).dtype), p);
  }
}

}  // namespace weft::optim
