// Adam and AdamW: one scalar expression over a parameter, its gradient and its two moments.
#include "optim/steps.hpp"
#include "record/elementwise.hpp"
#include "record/expressions.hpp"
#include "record/record.hpp"

namespace weft::optim {

AdamResult adam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second,
                       const AdamStep& step, Loc loc) {
  LooseComposite call("adam", loc);
  const Scalar one_minus_beta1 = 1 - step.beta1, one_minus_beta2 = 1 - step.beta2;
  const Tensor kept[] = {detail::wide(parameter), detail::wide(gradient), detail::wide(first), detail::wide(second)};
  const At operands[] = {kept[0],         kept[1],    kept[2],         kept[3],  step.step_size, step.second_scale,
                         one_minus_beta1, step.beta2, one_minus_beta2, step.eps, step.decay};
  Tensor results[3];
  const OwnExpressions& own = own_expressions();
  weft::detail::apply_elementwise(step.decoupled ? *own.adamw : *own.adam, operands, results);
  return {cast(results[0], parameter.dtype()), cast(results[1], first.dtype()), cast(results[2], second.dtype())};
}

template <bool decoupled>
constexpr const char* optimizer_name = decoupled ? "AdamW" : "Adam";

template <bool decoupled>
BasicAdam<decoupled>::BasicAdam(const detail::Parameters& parameters, const Options& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      eps(options.eps),
      weight_decay(options.weight_decay),
      groups(detail::groups_of(optimizer_name<decoupled>, parameters, groups, loc)),
      maximize(options.maximize),
      first_(parameters.zeros(loc)),
      second_(parameters.zeros(loc)),
      missed_(detail::missed_at_first(parameters, loc)),
      rounding_(options.stochastic_rounding, loc) {
  detail::check_options(optimizer_name<decoupled>,
                        {{"lr", options.lr}, {"eps", options.eps}, {"weight_decay", options.weight_decay}},
                        {{"beta1", options.beta1}, {"beta2", options.beta2}}, loc);
}

template <bool decoupled>
void BasicAdam<decoupled>::step(const detail::Parameters& parameters, Loc loc) {
  LooseComposite call(optimizer_name<decoupled>, loc);
  detail::require_same_model(parameters, first_, call.loc());
  detail::NewValues values;
  const detail::StepCounts counts(parameters, steps, missed_, values, call.loc());
  struct Rates {  // of no group, of each group
    detail::PerParameter step_size;
    Scalar decay;
  };
  const auto rates_of = [&](const Scalar& lr, const Scalar& weight_decay) {
    return Rates{counts.of([&](const Scalar& t) { return lr / (1 - pow(beta1, t)); }),
                 decoupled ? 1 - lr * weight_decay : weight_decay};
  };
  const detail::PerParameter second_scale = counts.of([&](const Scalar& t) { return sqrt(1 - pow(beta2, t)); });
  std::vector<Rates> rates = {rates_of(lr, weight_decay)};
  for (std::size_t i = 0; i < groups.size(); ++i)
    rates.push_back(rates_of(groups[i].own_lr ? groups[i].lr : lr,
                             groups[i].own_weight_decay ? groups[i].weight_decay : weight_decay));
  detail::each_part(parameters, call.loc(), [&](std::size_t i, Tensor& parameter, const detail::UpdatedPart& part) {
    part.require_zero(parameters, i, groups.weight_decay(i, weight_decay), "weight decay");
    const Rates& own = rates[groups.group_of(i)];
    const AdamResult next =
        adam_update(part.of(parameter), part.gradient(), part.of(first_[i]), part.of(second_[i]),
                    {own.step_size[i], second_scale[i], beta1, beta2, eps, decoupled, own.decay}, call.loc());
    values.set(parameter, part.put_into(parameter, rounding_.round(next.parameter, parameter.dtype(), call.loc())));
    values.set(first_[i], part.put_into(first_[i], next.first));
    values.set(second_[i], part.put_into(second_[i], next.second));
  });
  values.finish(call.loc());
}

template class BasicAdam<false>;
template class BasicAdam<true>;

}  // namespace weft::optim
