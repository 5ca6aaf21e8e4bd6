// LBFGS, whose step() evaluates the loss itself.
#pragma once
#include "weft/optim/parameters.hpp"

namespace weft::optim {

enum class LineSearch : std::uint8_t { none, strong_wolfe };  // how LBFGS finds the length of a step
struct LbfgsOptions {                                         // of LBFGS, as in PyTorch
  double lr = 1;                                 // the length of a step without a search, the first one tried with
  int max_iter = 20;                             // most iterations of a step
  int max_eval = 0;                              // most evaluations of a step; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;                  // a step ends where no element of the gradient is larger
  double tolerance_change = 1e-9;                // and where no parameter changes by more, nor the loss
  int history_size = 100;                        // changes that the inverse Hessian is estimated from
  LineSearch line_search_fn = LineSearch::none;  // how the length of an iteration's move is found
};

namespace detail {
// A loss, and its gradient as one vector of all parameters, 0 where nothing trains.
struct LossAndGradient {
  double loss;
  Tensor gradient;
};
// The closure of a step, by reference.
struct Evaluation {
  void* context;
  LossAndGradient (*call)(void* context);
};
}  // namespace detail

// Liu and Nocedal 1989, for losses that are not drawn anew at each evaluation. A step makes up to max_iter iterations,
// with up to max_eval evaluations (and one), along the gradient times an inverse Hessian that is estimated from
// the last history_size changes of parameters and gradients. Each moves by lr, the very first by lr * min(1, 1 / sum
// |gradient|); or, tried with that length first, to a point that meets the strong Wolfe conditions (Nocedal and Wright
// 2006, algorithms 3.5 and 3.6): a decrease of 1e-4 of the slope times the length, and a slope of at most 0.9 of the
// one at the start, in magnitude. A step ends earlier where the gradient is nowhere above tolerance_grad, where
// parameters or the loss change by less than tolerance_change, and where the slope along the direction is above
// -tolerance_change. Vectors are of f64 where a parameter is, else of f32. There are no groups. What it keeps is saved
// with io::save.
class LBFGS {
 public:
  // Throws Error where an option is negative, NaN or infinite, or a count that must be positive is not.
  LBFGS(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  explicit LBFGS(const detail::Parameters& model, const LbfgsOptions& options = {}, Loc loc = Loc::current());
  // closure(model) gives what value_and_grad does; it may be a compiled function. Gives the parameters their new values
  // and returns the value of the first evaluation. It reads numbers to decide, so it throws Error inside a compiled
  // function; also where the optimizer was made for another model.
  template <class M, class F>
  auto step(M& model, F&& closure, Loc loc = Loc::current()) {
    auto first = closure(model);
    constexpr bool fits = requires { first.value, first.gradients; };
    static_assert(
        fits,
        "weft: the closure of LBFGS::step must return what value_and_grad does, a value and gradients: a loss "
        "alone does not say where to go");
    if constexpr (fits) {
      const auto result_of = [&](const auto& result) {
        return loss_and_gradient(detail::Parameters(model, result.gradients, loc), number_of(result.value), loc);
      };
      auto evaluate = [&] { return result_of(closure(model)); };
      iterate(detail::Parameters(model, first.gradients, loc), result_of(first),
              {&evaluate, [](void* context) { return (*static_cast<decltype(evaluate)*>(context))(); }}, loc);
      return std::move(first.value);
    }
  }

  Scalar lr;                                     // these and the next are the options of their names
  int max_iter, max_eval;                        // may be changed between steps
  double tolerance_grad, tolerance_change;       // may be changed between steps
  LineSearch line_search_fn;                     // may be changed between steps
  std::int64_t iterations = 0, evaluations = 0;  // so far, in all steps

 private:
  template <class Value>
  static const Tensor& number_of(const Value& value) {
    detail::LeafList leaves;
    weft::detail::flatten(value, leaves);
    return leaves.leaves[0].tensor();
  }
  detail::LossAndGradient loss_and_gradient(const detail::Parameters& parameters, const Tensor& loss, Loc loc) const;
  void iterate(const detail::Parameters& parameters, detail::LossAndGradient at, detail::Evaluation evaluate, Loc loc);
  void remember(const Tensor& gradient);
  Tensor direction(const Tensor& gradient, Loc loc) const;

  // Of the last `pairs_` changes, oldest first: of the parameters, of the gradient, and 1 / their product.
  std::vector<Buffer> steps_, changes_;
  std::vector<double> inverse_products_;
  std::int64_t pairs_ = 0;
  double scale_ = 1, length_ = 0;         // of the first inverse Hessian; of the last step along direction_
  Buffer direction_, previous_gradient_;  // of the last iteration
  WEFT_MEMBERS(lr, max_iter, max_eval, tolerance_grad, tolerance_change, line_search_fn, iterations, evaluations,
               steps_, changes_, inverse_products_, pairs_, scale_, length_, direction_, previous_gradient_)
};

}  // namespace weft::optim
