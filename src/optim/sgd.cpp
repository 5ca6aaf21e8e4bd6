// SGD: one update of one parameter is one composite.
#include "base/fail.hpp"
#include "optim/steps.hpp"
#include "record/composite.hpp"

namespace weft::optim {

SGD::SGD(const detail::Parameters& parameters, const SgdOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      weight_decay(options.weight_decay),
      dampening(options.dampening),
      momentum(options.momentum),
      groups(detail::groups_of("SGD", parameters, groups, loc)),
      maximize(options.maximize),
      nesterov_(options.nesterov),
      rounding_(options.stochastic_rounding, loc) {
  detail::check_options(
      "SGD", {{"lr", options.lr}, {"momentum", options.momentum}, {"weight_decay", options.weight_decay}}, {}, loc);
  check_numbers("SGD", Bounds::finite, {{"dampening", options.dampening}}, loc);
  if (nesterov_ && options.momentum == 0) fail("SGD", loc, "nesterov needs a momentum");
  if (nesterov_ && options.dampening != 0) fail("SGD", loc, "nesterov has no dampening");
  if (options.momentum == 0) return;
  velocity_ = parameters.zeros(loc);
  missed_ = detail::missed_at_first(parameters, loc);
}

void SGD::step(const detail::Parameters& parameters, Loc loc) {
  Operation call("SGD", loc);
  const bool moves = !velocity_.empty();
  if (!moves) detail::require_no_momentum(momentum, call.loc());
  groups.require_same_model(parameters, call.loc());
  if (moves) detail::require_same_model(parameters, velocity_, call.loc());
  detail::NewValues values;
  std::optional<detail::StepCounts> counts;
  if (moves) counts.emplace(parameters, steps, missed_, values, call.loc());
  const detail::PerParameter undamped =
      counts ? counts->of([&](const Scalar& t) { return 1 - dampening * Scalar(minimum(t - 1, 1.0)); })
             : detail::PerParameter(Tensor(Scalar(1).tensor()));
  detail::each_part(parameters, call.loc(), [&](std::size_t i, Tensor& parameter, const detail::UpdatedPart& part) {
    const Scalar& decay = groups.weight_decay(i, weight_decay);
    if (!weight_decay.is_zero() || &decay != &weight_decay) part.require_zero(parameters, i, decay, "weight decay");
    if (moves) part.require_whole(parameters, i, "a momentum");
    Tensor operands[] = {part.of(parameter),        part.gradient(),   decay.tensor(),
                         groups.lr(i, lr).tensor(), momentum.tensor(), moves ? detail::wide(velocity_[i]) : Tensor(),
                         undamped[i].tensor()};
    Tensor results[2];
    composite(SgdCall{called("sgd"), nesterov_}, std::span(operands, moves ? 7 : 4), std::span(results, moves ? 2 : 1),
              call.loc(), [&](std::span<const Tensor> in, std::span<Tensor> out) {
                Tensor change = in[1] + in[0] * in[2];
                if (moves) {
                  out[1] = in[5] * in[4] + change * in[6];
                  change = nesterov_ ? change + out[1] * in[4] : out[1];
                }
                out[0] = in[0] - change * in[3];
              });
    values.set(parameter, part.put_into(parameter, rounding_.round(results[0], parameter.dtype(), call.loc())));
    if (moves) values.set(velocity_[i], std::move(results[1]));
  });
  values.finish(call.loc());
}

}  // namespace weft::optim
