// L-BFGS: directions from a history of changes, and a line search that meets the strong Wolfe conditions. Vectors stay
// on the device of the parameters; what decides is read as numbers.
#include <algorithm>
#include <cmath>

#include "base/fail.hpp"
#include "optim/steps.hpp"
#include "record/record.hpp"

namespace weft::optim {
namespace {

using detail::LossAndGradient;
using detail::Parameters;

double product(const Tensor& a, const Tensor& b) { return dot(a, b).item(); }
double largest(const Tensor& x) { return amax(abs(x)).item(); }

// ---- the line search ------------------------------------------------------------------------------------------------

// A point along the direction, at `length` of it.
struct Trial {
  double length, loss, slope;
  Tensor gradient;
};

// Where the cubic with the losses and slopes of two points is lowest, between `low` and `high`; half way between these
// where it is nowhere.
double lowest_of_cubic(const Trial& a, const Trial& b, double low, double high) {
  const Trial &left = a.length <= b.length ? a : b, &right = a.length <= b.length ? b : a;
  const double mean = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.length - right.length);
  const double square = mean * mean - left.slope * right.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double root = std::sqrt(square);
  const double part = (right.slope + root - mean) / (right.slope - left.slope + 2 * root);
  return std::min(std::max(right.length - (right.length - left.length) * part, low), high);
}

// A search from `start`, at length 0, whose first trial is at `length`; at most `limit` trials follow it.
// try_at(length) gives the trial there. No direction's element is larger than `reach`.
template <class TryAt>
Trial strong_wolfe(const Trial& start, double length, double reach, double tolerance, int limit, TryAt try_at) {
  constexpr double decrease = 1e-4, curvature = 0.9;
  const auto too_high = [&](const Trial& at) { return at.loss > start.loss + decrease * at.length * start.slope; };
  const auto flat = [&](const Trial& at) { return std::abs(at.slope) <= -curvature * start.slope; };

  // Goes on until two points enclose one that meets the conditions.
  Trial previous = start, at = try_at(length);
  int trials = 0;
  bool enclosed = false;
  for (; trials < limit; ++trials) {
    enclosed = too_high(at) || (trials > 1 && at.loss >= previous.loss);
    if (!enclosed && flat(at)) return at;
    enclosed = enclosed || at.slope >= 0;
    if (enclosed) break;
    const double next = lowest_of_cubic(previous, at, at.length + 0.01 * (at.length - previous.length), at.length * 10);
    previous = std::exchange(at, try_at(next));
  }
  Trial ends[] = {enclosed ? previous : start, at};

  // Moves one end after the other to where a cubic is lowest between them.
  int low = ends[0].loss <= ends[1].loss ? 0 : 1;
  for (bool stuck = false; trials < limit; ++trials) {
    const double first = std::min(ends[0].length, ends[1].length), last = std::max(ends[0].length, ends[1].length);
    if ((last - first) * reach < tolerance) break;
    double next = lowest_of_cubic(ends[0], ends[1], first, last);
    // Twice in a row near an end, or at an end, is no progress: a tenth of the interval away from it.
    const double margin = 0.1 * (last - first);
    const bool near = std::min(last - next, next - first) < margin;
    const bool moved = near && (stuck || next >= last || next <= first);
    if (moved) next = std::abs(next - last) < std::abs(next - first) ? last - margin : first + margin;
    stuck = near && !moved;

    at = try_at(next);
    Trial &lowest = ends[low], &other = ends[1 - low];
    if (too_high(at) || at.loss >= lowest.loss) {
      other = at;
      low = ends[0].loss <= ends[1].loss ? 0 : 1;
      continue;
    }
    const bool done = flat(at);
    if (!done && at.slope * (other.length - lowest.length) >= 0) other = lowest;
    lowest = at;
    if (done) break;
  }
  return ends[low];
}

// ---- parameters as a vector -----------------------------------------------------------------------------------------

std::int64_t length_of(const Tensor& parameter) {
  return static_cast<std::int64_t>(type_of(parameter).shape.element_count());
}

// Gives each parameter that trains its value in `from`, plus its part of `direction` times `length`.
void move(const Parameters& parameters, std::span<const Tensor> from, const Tensor& direction, double length, Loc loc) {
  detail::NewValues values;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor& parameter = parameters.parameter(i);
    if (!parameter.defined()) continue;
    const std::int64_t count = length_of(parameter);
    if (parameters.trains(i)) {
      const Tensor part = reshape(narrow(direction, 0, begin, count), from[i].shape());
      values.set(parameter, cast(from[i], direction.dtype()) + part * length);
    }
    begin += count;
  }
  values.finish(loc);
}

}  // namespace

LBFGS::LBFGS(const Parameters& parameters, const LbfgsOptions& options, Loc loc)
    : lr(options.lr),
      max_iter(options.max_iter),
      max_eval(options.max_eval == 0 ? options.max_iter * 5 / 4 : options.max_eval),
      tolerance_grad(options.tolerance_grad),
      tolerance_change(options.tolerance_change),
      line_search_fn(options.line_search_fn) {
  const Operation call("LBFGS", loc);
  if (options.max_iter < 1 || options.max_eval < 0 || options.history_size < 1)
    fail("LBFGS", call.loc(), "max_iter and history_size must be positive: ", options.max_iter, ", ",
         options.history_size, "; max_eval is ", options.max_eval);
  detail::check_options(
      "LBFGS",
      {{"lr", options.lr}, {"tolerance_grad", options.tolerance_grad}, {"tolerance_change", options.tolerance_change}},
      {}, call.loc());
  std::int64_t count = 0;
  parameters.require_whole("LBFGS", loc);
  Options of_vectors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters.parameter(i);
    if (!parameter.defined()) continue;
    const Type& type = type_of(parameter);
    if (count == 0) of_vectors.device = type.device;
    if (type.dtype == DType::f64) of_vectors.dtype = DType::f64;
    count += length_of(parameter);
  }
  const Tensor zero = zeros({count}, of_vectors);
  const auto history = static_cast<std::size_t>(options.history_size);
  steps_.assign(history, zero);
  changes_.assign(history, zero);
  inverse_products_.assign(history, 0);
  direction_ = previous_gradient_ = zero;
}

LossAndGradient LBFGS::loss_and_gradient(const Parameters& parameters, const Tensor& loss, Loc loc) const {
  const Operation call("LBFGS", loc);
  if (recorder().trace())
    fail("LBFGS", call.loc(),
         "a step reads numbers to decide: make it outside of the compiled function, and compile "
         "the closure");
  const DType dtype = direction_->dtype();
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (const Tensor& parameter = parameters.parameter(i); parameter.defined())
      parts.push_back(parameters.trains(i) ? cast(reshape(parameters.gradient(i), {length_of(parameter)}), dtype)
                                           : zeros({length_of(parameter)}, {dtype, type_of(parameter).device}));
  Tensor gradient = parts.empty() ? direction_.tensor() : concat(parts);
  if (length_of(gradient) != length_of(direction_))
    fail("LBFGS", call.loc(), "the optimizer was made for a model of ", length_of(direction_),
         " numbers, this one has ", length_of(gradient));
  detail::compute(std::span(&gradient, 1), call.loc());
  return {loss.item(), std::move(gradient)};
}

// Notes how parameters and gradient have changed in the last iteration, unless the loss is not convex there.
void LBFGS::remember(const Tensor& gradient) {
  const Tensor change = gradient - previous_gradient_, step = direction_ * length_;
  const double both = product(change, step);
  if (!(both > 1e-10)) return;
  if (pairs_ == static_cast<std::int64_t>(steps_.size())) {
    std::rotate(steps_.begin(), steps_.begin() + 1, steps_.end());
    std::rotate(changes_.begin(), changes_.begin() + 1, changes_.end());
    std::rotate(inverse_products_.begin(), inverse_products_.begin() + 1, inverse_products_.end());
    --pairs_;
  }
  const auto at = static_cast<std::size_t>(pairs_++);
  steps_[at] = step;
  changes_[at] = change;
  inverse_products_[at] = 1 / both;
  scale_ = both / product(change, change);
}

// The two loops of Nocedal 1980.
Tensor LBFGS::direction(const Tensor& gradient, Loc loc) const {
  const auto count = static_cast<std::size_t>(pairs_);
  std::vector<Tensor> weights(count);
  Tensor result = -gradient;
  for (std::size_t i = count; i-- > 0;) {
    weights[i] = dot(steps_[i], result) * inverse_products_[i];
    result = result - changes_[i] * weights[i];
  }
  result = result * scale_;
  for (std::size_t i = 0; i < count; ++i)
    result = result + steps_[i] * (weights[i] - dot(changes_[i], result) * inverse_products_[i]);
  detail::compute(std::span(&result, 1), loc);
  return result;
}

void LBFGS::iterate(const Parameters& parameters, LossAndGradient at, detail::Evaluation evaluate, Loc loc) {
  const Operation call("LBFGS", loc);
  int evaluated = 1;
  ++evaluations;
  if (length_of(at.gradient) == 0 || largest(at.gradient) <= tolerance_grad) return;
  const double rate = lr.item();
  for (int iteration = 1; iteration <= max_iter; ++iteration) {
    const bool first = iterations++ == 0;
    if (!first) remember(at.gradient);
    direction_ = direction(at.gradient, call.loc());
    previous_gradient_ = at.gradient;
    const double previous_loss = at.loss;
    length_ = first ? std::min(1.0, 1 / sum(abs(at.gradient)).item()) * rate : rate;
    const double slope = product(at.gradient, direction_);
    if (slope > -tolerance_change) return;

    std::vector<Tensor> from;
    for (std::size_t i = 0; i < parameters.size(); ++i) from.push_back(parameters.parameter(i));
    const int before = evaluated;
    const auto evaluate_at = [&](double length) {
      move(parameters, from, direction_, length, call.loc());
      ++evaluated;
      return evaluate.call(evaluate.context);
    };
    if (line_search_fn == LineSearch::strong_wolfe) {
      Trial found = strong_wolfe({0, at.loss, slope, at.gradient}, length_, largest(direction_), tolerance_change,
                                 max_eval - evaluated, [&](double length) {
                                   LossAndGradient there = evaluate_at(length);
                                   const double slope_there = product(there.gradient, direction_);
                                   return Trial{length, there.loss, slope_there, std::move(there.gradient)};
                                 });
      length_ = found.length;
      at = {found.loss, std::move(found.gradient)};
      move(parameters, from, direction_, length_, call.loc());
    } else if (iteration < max_iter) {
      at = evaluate_at(length_);
    } else {
      move(parameters, from, direction_, length_, call.loc());
    }
    evaluations += evaluated - before;

    if (evaluated >= max_eval || largest(at.gradient) <= tolerance_grad ||
        largest(direction_ * length_) <= tolerance_change || std::abs(at.loss - previous_loss) < tolerance_change)
      return;
  }
}

}  // namespace weft::optim
