// Shampoo: a gradient multiplied, along each of its axes, by a power of what the gradients' products were.
#include "base/fail.hpp"
#include "optim/steps.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"

namespace weft::optim {
namespace {

using detail::Parameters;
using detail::Step;
using detail::wide;

// [n, others]: the axis first, the others as one.
Tensor as_rows(const Tensor& x, int axis) { return flatten(unsqueeze(transpose(x, 0, axis), -1), 1, -1); }

// matrix x along the axis.
Tensor multiplied(const Tensor& matrix, const Tensor& x, int axis) {
  const Tensor turned = transpose(x, 0, axis);
  return transpose(reshape(matmul(matrix, as_rows(x, axis)), type_of(turned).shape), 0, axis);
}

// A symmetric matrix to a power, of eigenvalues that are `least` at least.
Tensor powered(const Tensor& matrix, double power, double least) {
  const auto [values, vectors] = linalg::eigh(matrix);
  return matmul(vectors * pow(maximum(values, least), power), transpose(vectors));
}

}  // namespace

Shampoo::Shampoo(const Parameters& parameters, const ShampooOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      weight_decay(options.weight_decay),
      momentum(options.momentum),
      groups(detail::groups_of("Shampoo", parameters, groups, loc)),
      maximize(options.maximize),
      eps_(options.eps),
      update_freq_(options.update_freq),
      shapes_(parameters.size()),
      sums_(parameters.size()),
      roots_(parameters.size()) {
  parameters.require_whole("Shampoo", loc);
  detail::check_options(
      "Shampoo", {{"lr", options.lr}, {"momentum", options.momentum}, {"weight_decay", options.weight_decay}}, {}, loc);
  check_numbers("Shampoo", Bounds::positive,
                {{"eps", options.eps},
                 {"update_freq", static_cast<double>(options.update_freq)},
                 {"most_dim", static_cast<double>(options.most_dim)}},
                loc);
  if (options.momentum != 0) velocity_ = parameters.zeros(loc);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters.parameter(i).defined()) continue;
    const Type& type = type_of(parameters.parameter(i));
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      shapes_[i].push_back(static_cast<std::int64_t>(type.shape[axis]));
    for (int axis = 0; axis < type.shape.rank(); ++axis) {
      const auto size = static_cast<std::int64_t>(type.shape[axis]);
      Buffer sum;
      if (size <= options.most_dim) sum = eye(size, {computed_in(type.dtype), type.device}, loc) * options.eps;
      sums_[i].push_back(sum);
      roots_[i].push_back(sum);
    }
  }
}
void Shampoo::step(const Parameters& parameters, Loc loc) {
  Step step("Shampoo", parameters, sums_.size(), loc);
  for (std::size_t i = 0; i < shapes_.size(); ++i)
    if (parameters.parameter(i).defined())
      detail::require_same_shape(parameters, i, Sizes(shapes_[i]).shape(), step.loc());
  if (velocity_.empty()) detail::require_no_momentum(momentum, step.loc());
  const Tensor is_fresh = remainder(steps.tensor(), update_freq_) == 0;
  step.set(steps.tensor(), (steps + 1).tensor());
  detail::each_trained(parameters, step.loc(), [&](std::size_t i, Tensor& p, const Tensor& gradient) {
    const Tensor own = wide(p), g = gradient + own * groups.weight_decay(i, weight_decay);
    const int axes = type_of(p).shape.rank();
    Tensor change = g;
    for (int axis = 0; axis < axes; ++axis) {
      Buffer &sum = sums_[i][static_cast<std::size_t>(axis)], &root = roots_[i][static_cast<std::size_t>(axis)];
      if (!sum->defined() || type_of(g).shape.element_count() == 0) continue;
      const Tensor rows = as_rows(g, axis);
      step.set(sum, wide(sum) + matmul(rows, transpose(rows)));
      const auto fresh = [&](const Tensor& sum, const Tensor&) { return powered(wide(sum), -0.5 / axes, eps_); };
      step.set(root, update_freq_ == 1
                         ? fresh(sum, root)
                         : cond(
                               is_fresh, fresh, [](const Tensor&, const Tensor& root) { return wide(root); },
                               sum.tensor(), root.tensor()));
      change = multiplied(cast(root, type_of(g).dtype), change, axis);
    }
    if (!velocity_.empty()) {
      change = wide(velocity_[i]) * momentum + change;
      step.set(velocity_[i], change);
    }
    step.set(p, own - change * groups.lr(i, lr));
  });
  step.finish();
}

}  // namespace weft::optim
