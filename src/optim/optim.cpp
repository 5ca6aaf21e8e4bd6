// The optimizers: one update of one parameter each, over tensors, and the walk over a model's parameters.
#include "weft/optim.hpp"

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/elementwise.hpp"
#include "record/evaluate.hpp"
#include "record/expressions.hpp"
#include "weft/grad.hpp"

namespace weft::optim {
namespace detail {

using weft::detail::Leaf;
using weft::detail::LeafKind;

void Parameters::select() {
  LeafKind kind = weft::detail::trainable_kind(leaves_);
  for (std::size_t i = 0; i < leaves_.leaves.size(); ++i)
    if (leaves_.leaves[i].kind == kind) positions_.push_back(i);
}

void Parameters::match_gradients(Loc loc) {
  auto is_other = [loc] { fail("update", loc, "the gradients are of another model: other parameters or lengths"); };
  if (gradient_leaves_.leaves.size() != leaves_.leaves.size()) is_other();
  for (std::size_t i = 0; i < size(); ++i) {
    const Leaf &leaf = leaves_.leaves[positions_[i]], &other = gradient_leaves_.leaves[positions_[i]];
    if (other.kind != leaf.kind) is_other();
    if (!trains(i)) continue;
    const Type &value = type_of(parameter(i)), &slope = type_of(gradient(i));
    bool fits = value.dtype == slope.dtype && value.shape.rank() == slope.shape.rank();
    for (int axis = 0; fits && axis < value.shape.rank(); ++axis) fits = value.shape[axis] == slope.shape[axis];
    if (!fits) fail("update", loc, "parameter ", i, " is ", to_string(value), ", its gradient ", to_string(slope));
  }
}

bool Parameters::trains(std::size_t i) const {
  return !leaves_.leaves[positions_[i]].flag && parameter(i).defined() && gradient(i).defined();
}

std::vector<Buffer> Parameters::zeros(Loc loc) const {
  std::vector<Buffer> result(size());
  for (std::size_t i = 0; i < size(); ++i)
    if (parameter(i).defined()) result[i] = zeros_like(parameter(i), loc);
  return result;
}

namespace {

// A step outside a trace is computed when it is taken: nothing of it stays pending.
void compute(std::vector<Tensor> values, Loc loc) {
  if (recorder().trace()) return;
  std::erase_if(values, [](const Tensor& value) { return !value.defined(); });
  evaluate(values, loc);
}

void require_same_model(std::size_t made_for, std::size_t given, Loc loc) {
  if (made_for != given)
    fail("update", loc, "the optimizer was made for a model of ",
         counted(static_cast<std::int64_t>(made_for), "parameter", "parameters"), ", this one has ", given);
}

}  // namespace
}  // namespace detail

// ---- SGD ------------------------------------------------------------------------------------------------------------

SGD::SGD(const detail::Parameters& parameters, const SgdOptions& options, Loc loc)
    : lr(options.lr), momentum(options.momentum), weight_decay(options.weight_decay), nesterov_(options.nesterov) {
  if (nesterov_ && options.momentum == 0) fail("SGD", loc, "nesterov needs a momentum");
  if (options.momentum != 0) velocity_ = parameters.zeros(loc);
}

void SGD::step(const detail::Parameters& parameters, Loc loc) {
  Operation call("sgd", loc);
  if (velocity_.empty() && !recorder().trace() && momentum.tensor().item() != 0)
    fail("update", call.loc(), "SGD was made without a momentum and has no velocities: give one from the start");
  if (!velocity_.empty()) detail::require_same_model(velocity_.size(), parameters.size(), call.loc());
  std::vector<Tensor> computed;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters.trains(i)) continue;
    Tensor& parameter = parameters.parameter(i);
    const bool moves = !velocity_.empty();
    Tensor operands[] = {parameter,   parameters.gradient(i), weight_decay.tensor(),
                         lr.tensor(), momentum.tensor(),      moves ? velocity_[i].tensor() : Tensor()};
    Tensor results[2];
    composite({{intern_text("sgd")}, {}, false, nesterov_ ? 1.0 : 0.0}, std::span(operands, moves ? 6 : 4),
              std::span(results, moves ? 2 : 1), call.loc(), [&](std::span<const Tensor> in, std::span<Tensor> out) {
                Tensor change = in[1] + in[0] * in[2];
                if (moves) {
                  out[1] = in[5] * in[4] + change;
                  change = nesterov_ ? change + out[1] * in[4] : out[1];
                }
                out[0] = in[0] - change * in[3];
              });
    computed.push_back(parameter = std::move(results[0]));
    if (moves) computed.push_back(velocity_[i].tensor() = std::move(results[1]));
  }
  detail::compute(std::move(computed), call.loc());
}

// ---- Adam ----------------------------------------------------------------------------------------------------------

AdamResult adam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second,
                       const AdamStep& step, Loc loc) {
  LooseComposite call("adam", loc);
  const Scalar one_minus_beta1 = 1 - step.beta1, one_minus_beta2 = 1 - step.beta2;
  const At operands[] = {parameter,       gradient,   first,           second,   step.step_size, step.second_scale,
                         one_minus_beta1, step.beta2, one_minus_beta2, step.eps, step.decay};
  Tensor results[3];
  const OwnExpressions& own = own_expressions();
  weft::detail::apply_elementwise(step.decoupled ? *own.adamw : *own.adam, operands, results);
  return {results[0], results[1], results[2]};
}

template <bool decoupled>
BasicAdam<decoupled>::BasicAdam(const detail::Parameters& parameters, const Options& options, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      eps(options.eps),
      weight_decay(options.weight_decay),
      first_(parameters.zeros(loc)),
      second_(parameters.zeros(loc)) {}

template <bool decoupled>
void BasicAdam<decoupled>::step(const detail::Parameters& parameters, Loc loc) {
  LooseComposite call(decoupled ? "adamw" : "adam", loc);
  detail::require_same_model(first_.size(), parameters.size(), call.loc());
  steps = steps + 1;
  const AdamStep step{lr / (1 - pow(beta1, steps)),
                      sqrt(1 - pow(beta2, steps)),
                      beta1,
                      beta2,
                      eps,
                      decoupled,
                      decoupled ? 1 - lr * weight_decay : weight_decay};
  std::vector<Tensor> computed = {steps.tensor()};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters.trains(i)) continue;
    AdamResult next =
        adam_update(parameters.parameter(i), parameters.gradient(i), first_[i], second_[i], step, call.loc());
    computed.insert(computed.end(), {next.parameter, next.first, next.second});
    parameters.parameter(i) = std::move(next.parameter);
    first_[i].tensor() = std::move(next.first);
    second_[i].tensor() = std::move(next.second);
  }
  detail::compute(std::move(computed), call.loc());
}

template class BasicAdam<false>;
template class BasicAdam<true>;

}  // namespace weft::optim
