// Learning rates as functions of the number of steps, over Scalars, so that a compiled step may compute them.
#include <cmath>
#include <numbers>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/record.hpp"
#include "weft/optim.hpp"

namespace weft::optim {
namespace {

// From `start` to `end` along half a period of the cosine, at `part` of the way.
Scalar along_cosine(const Scalar& start, const Scalar& end, const Scalar& part) {
  return end + (start - end) * ((Scalar(cos(part * std::numbers::pi)) + 1) / 2);
}
void require_positive(const char* operation, const char* name, double steps, Loc loc) {
  check_numbers(operation, Bounds::positive, {{name, steps}}, loc);
}
void require_finite(const char* operation, std::initializer_list<NamedNumber> numbers, Loc loc) {
  check_numbers(operation, Bounds::finite, numbers, loc);
}

}  // namespace

Scalar cosine_annealing_lr(const Scalar& lr, const Scalar& step, double t_max, double eta_min, Loc loc) {
  Operation call("cosine_annealing_lr", loc);
  require_positive("cosine_annealing_lr", "t_max", t_max, call.loc());
  require_finite("cosine_annealing_lr", {{"eta_min", eta_min}}, call.loc());
  return along_cosine(lr, eta_min, step / t_max);
}

Scalar linear_lr(const Scalar& lr, const Scalar& step, double start_factor, double end_factor, double total_iters,
                 Loc loc) {
  Operation call("linear_lr", loc);
  require_positive("linear_lr", "total_iters", total_iters, call.loc());
  require_finite("linear_lr", {{"start_factor", start_factor}, {"end_factor", end_factor}}, call.loc());
  const Scalar part = Scalar(minimum(step, total_iters)) / total_iters;
  return lr * (start_factor + part * (end_factor - start_factor));
}

Scalar step_lr(const Scalar& lr, const Scalar& step, double step_size, double gamma, Loc loc) {
  Operation call("step_lr", loc);
  require_positive("step_lr", "step_size", step_size, call.loc());
  require_finite("step_lr", {{"gamma", gamma}}, call.loc());
  return lr * pow(gamma, Scalar(floor(step / step_size)));
}

Scalar multi_step_lr(const Scalar& lr, const Scalar& step, const std::vector<double>& milestones, double gamma,
                     Loc loc) {
  Operation call("multi_step_lr", loc);
  require_finite("multi_step_lr", {{"gamma", gamma}}, call.loc());
  for (const double milestone : milestones) require_finite("multi_step_lr", {{"a milestone", milestone}}, call.loc());
  Scalar passed = 0;
  for (const double milestone : milestones) passed = passed + Scalar(where(step >= milestone, 1.0, 0.0));
  return lr * pow(gamma, passed);
}

Scalar exponential_lr(const Scalar& lr, const Scalar& step, double gamma, Loc loc) {
  Operation call("exponential_lr", loc);
  require_finite("exponential_lr", {{"gamma", gamma}}, call.loc());
  return lr * pow(Scalar(gamma), step);
}

Scalar one_cycle_lr(const Scalar& max_lr, const Scalar& step, double total_steps, const OneCycleOptions& options,
                    Loc loc) {
  Operation call("one_cycle_lr", loc);
  const double share = options.pct_start, up = share * total_steps - 1, down = total_steps - 1 - up;
  require_finite("one_cycle_lr", {{"total_steps", total_steps}}, call.loc());
  if (total_steps < 1) fail("one_cycle_lr", call.loc(), "total_steps must be at least 1, it is ", total_steps);
  check_numbers("one_cycle_lr", Bounds::share, {{"pct_start", share}}, call.loc());
  check_numbers("one_cycle_lr", Bounds::positive,
                {{"div_factor", options.div_factor}, {"final_div_factor", options.final_div_factor}}, call.loc());
  // The way up ends at step `up`. Where that is before step 0 the first step is on the way down already.
  if (up == 0)
    fail("one_cycle_lr", call.loc(),
         "pct_start must not be the share of a single step: the way up would begin and end at "
         "step 0. It is ",
         share, " of ", total_steps, total_steps == 1 ? " step" : " steps");
  const Scalar first = max_lr / options.div_factor, last = first / options.final_div_factor;
  Scalar lr = max_lr;
  if (up > 0) lr = along_cosine(first, max_lr, Scalar(minimum(step, up)) / up);
  if (down > 0) {
    const Scalar part = Scalar(minimum(maximum(step - up, 0.0), down)) / down;
    lr = lr + along_cosine(max_lr, last, part) - max_lr;
  }
  return lr;
}

}  // namespace weft::optim
