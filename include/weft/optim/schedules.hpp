// Schedules of learning rates.
#pragma once
#include "weft/ops.hpp"

namespace weft::optim {

// Functions of the number of steps taken, from 0, by PyTorch's closed formulas. With an optimizer's counter they may be
// part of a compiled step: opt.lr = optim::cosine_annealing_lr(1e-3, opt.steps, 1000). They throw Error on numbers
// that are not finite, and on counts of steps that are not positive.

// From lr down to eta_min along half a period of the cosine, of t_max steps; afterwards up again.
Scalar cosine_annealing_lr(const Scalar& lr, const Scalar& step, double t_max, double eta_min = 0,
                           Loc loc = Loc::current());
// lr times a factor that goes from start_factor to end_factor in a line, in total_iters steps, and stays: a warmup.
Scalar linear_lr(const Scalar& lr, const Scalar& step, double start_factor = 1.0 / 3, double end_factor = 1,
                 double total_iters = 5, Loc loc = Loc::current());
// lr times gamma after every step_size steps.
Scalar step_lr(const Scalar& lr, const Scalar& step, double step_size, double gamma = 0.1, Loc loc = Loc::current());
// lr times gamma from each of these steps on.
Scalar multi_step_lr(const Scalar& lr, const Scalar& step, const std::vector<double>& milestones, double gamma = 0.1,
                     Loc loc = Loc::current());
// lr times gamma after every step.
Scalar exponential_lr(const Scalar& lr, const Scalar& step, double gamma, Loc loc = Loc::current());
struct OneCycleOptions {          // of one_cycle_lr
  double pct_start = 0.3;         // the part of the steps that goes up
  double div_factor = 25;         // max_lr / the first rate
  double final_div_factor = 1e4;  // the first rate / the last one
};
// From max_lr / div_factor up to max_lr and down to max_lr / (div_factor * final_div_factor), along cosines, in
// total_steps steps (Smith and Topin 2017); afterwards it stays. The way up ends at step pct_start * total_steps - 1,
// as PyTorch's; where that is before step 0 the first step is on the way down. Throws Error where it is step 0 itself,
// or total_steps is less than 1, or pct_start not from 0 to 1.
Scalar one_cycle_lr(const Scalar& max_lr, const Scalar& step, double total_steps, const OneCycleOptions& options = {},
                    Loc loc = Loc::current());

}  // namespace weft::optim
