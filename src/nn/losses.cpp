// Losses of elements: of pairs of equal shape, of margins, of likelihoods.
#include "nn/losses.hpp"

#include <cmath>
#include <vector>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/nn/normalization.hpp"

namespace weft::nn {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(losses);
    case Reduction::sum: return sum(losses);
    case Reduction::none: return losses;
  }
  fail("loss", recorder().loc, "Reduction has no value ", static_cast<int>(reduction));
}

DType result_dtype(std::span<const Tensor> operands) {
  Type common = type_of(operands[0]);
  for (const Tensor& each : operands) {
    const Type type = type_of(each);
    common.dtype = promote({common.dtype, false, common.weak}, {type.dtype, false, type.weak});
    common.weak = common.weak && type.weak;
  }
  return is_floating(common.dtype) ? common.dtype : DType::f32;
}
DType loss_dtype(std::span<const Tensor> operands) { return computed_in(result_dtype(operands)); }

bool same_shape(const Tensor& a, const Tensor& b) {
  const Shape &x = type_of(a).shape, &y = type_of(b).shape;
  bool same = x.rank() == y.rank();
  for (int i = 0; same && i < x.rank(); ++i) same = x[i] == y[i];
  return same;
}

namespace {

void check_same_shape(const char* name, const Tensor& a, const Tensor& b, Loc loc) {
  if (!same_shape(a, b)) fail(name, loc, "shapes differ: ", to_string(type_of(a)), " x ", to_string(type_of(b)));
}

// f over two operands of equal shape, in f32 at least, reduced and rounded to the input's dtype: one call.
template <class F>
Tensor pair_loss(const char* name, const At& input, const At& target, Reduction reduction, double bound, F f,
                 bool log_target = false) {
  Operation call(name, input.loc);
  Tensor a = resolve(input, name), b = resolve(target, name);
  check_same_shape(name, a, b, call.loc());
  const Tensor both[] = {a, b};
  const DType wide = loss_dtype(both), own = result_dtype(both);
  const auto record = [&](const Tensor& a, const Tensor& b) {
    return cast(reduced(f(cast(a, wide), cast(b, wide)), reduction), own);
  };
  const LossCall numbers{called(name), static_cast<std::int64_t>(reduction), bound, log_target};
  return composite(numbers, call.loc(), record, std::move(a), std::move(b));
}

// The operands of a loss that is no call: its nodes are recorded one by one.
class WideLoss : public LooseComposite {
 public:
  WideLoss(const char* name, const At& first) : LooseComposite(name, first.loc), name_(name) {}
  Tensor operand(const At& given) { return operands_.emplace_back(resolve(given, name_)); }
  Tensor wide(const Tensor& value) const { return cast(value, dtype()); }
  Tensor result(const Tensor& losses, Reduction reduction) const {
    return cast(reduced(losses, reduction), result_dtype(operands_));
  }

 private:
  DType dtype() const { return loss_dtype(operands_); }
  const char* name_;
  std::vector<Tensor> operands_;
};

}  // namespace

Tensor l1_loss(At input, At target, Reduction reduction) {
  return pair_loss("l1_loss", input, target, reduction, 0, [](const Tensor& a, const Tensor& b) { return abs(a - b); });
}
Tensor mse_loss(At input, At target, Reduction reduction) {
  return pair_loss("mse_loss", input, target, reduction, 0,
                   [](const Tensor& a, const Tensor& b) { return square(a - b); });
}
Tensor smooth_l1_loss(At input, At target, SmoothL1Options options) {
  check_numbers("smooth_l1_loss", Bounds::not_negative, {{"beta", options.beta}}, input.loc);
  return pair_loss("smooth_l1_loss", input, target, options.reduction, options.beta,
                   [beta = options.beta](const Tensor& a, const Tensor& b) {
                     const Tensor d = abs(a - b);
                     return beta == 0 ? d : where(d < beta, square(d) * (0.5 / beta), d - 0.5 * beta);
                   });
}
Tensor huber_loss(At input, At target, HuberOptions options) {
  check_numbers("huber_loss", Bounds::positive, {{"delta", options.delta}}, input.loc);
  return pair_loss("huber_loss", input, target, options.reduction, options.delta,
                   [delta = options.delta](const Tensor& a, const Tensor& b) {
                     const Tensor d = abs(a - b);
                     return where(d < delta, square(d) * 0.5, (d - 0.5 * delta) * delta);
                   });
}
Tensor soft_margin_loss(At input, At target, Reduction reduction) {
  return pair_loss("soft_margin_loss", input, target, reduction, 0,
                   [](const Tensor& x, const Tensor& y) { return -log_sigmoid(x * y); });
}

namespace {

Tensor weighted(const Tensor& losses, const Tensor& weight) {
  return weight.defined() ? losses * cast(weight, type_of(losses).dtype) : losses;
}

// The logarithms' derivatives are not cut at -100, but bounded by 1e-12 in their denominator.
void differentiate_binary(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &p = call.operands[0], &y = call.operands[1], &g = call.gradients[0];
  gradients[0] = g * (p - y) / maximum((1 - p) * p, 1e-12);
  gradients[1] = g * (maximum(log1p(-p), -100.0) - maximum(log(p), -100.0));
}

}  // namespace

Tensor binary_cross_entropy(At input, At target, const BinaryCrossEntropyOptions& options) {
  constexpr const char* name = "binary_cross_entropy";
  WideLoss call(name, input);
  const Tensor p = call.operand(input), y = call.operand(target);
  check_same_shape(name, p, y, call.loc());
  if (options.pos_weight.defined()) fail(name, call.loc(), "takes no pos_weight, which logits have");
  const auto record = [](const Tensor& p, const Tensor& y) {
    return -(y * maximum(log(p), -100.0) + (1 - y) * maximum(log1p(-p), -100.0));
  };
  const Tensor losses =
      composite_with(differentiate_binary, called(name), call.loc(), record, call.wide(p), call.wide(y));
  return call.result(weighted(losses, options.weight), options.reduction);
}

Tensor binary_cross_entropy_with_logits(At input, At target, const BinaryCrossEntropyOptions& options) {
  constexpr const char* name = "binary_cross_entropy_with_logits";
  WideLoss call(name, input);
  const Tensor x = call.operand(input), y = call.operand(target);
  check_same_shape(name, x, y, call.loc());
  Tensor losses;
  if (options.pos_weight.defined()) {
    const auto record = [](const Tensor& x, const Tensor& y, const Tensor& positive) {
      return (1 - y) * x - ((positive - 1) * y + 1) * log_sigmoid(x);
    };
    losses = composite(called(name), call.loc(), record, call.wide(x), call.wide(y), call.wide(options.pos_weight));
  } else {
    const auto record = [](const Tensor& x, const Tensor& y) { return (1 - y) * x - log_sigmoid(x); };
    losses = composite(called(name), call.loc(), record, call.wide(x), call.wide(y));
  }
  return call.result(weighted(losses, options.weight), options.reduction);
}

Tensor kl_div(At input, At target, KlOptions options) {
  const auto pointwise = [log_target = options.log_target](const Tensor& x, const Tensor& t) {
    return log_target ? exp(t) * (t - x) : xlogy(t, t) - t * x;
  };
  const auto loss = [&](const At& x, Reduction reduction) {
    return pair_loss("kl_div", x, target, reduction, 0, pointwise, options.log_target);
  };
  if (!options.batchmean) return loss(input, options.reduction);
  LooseComposite call("kl_div", input.loc);
  const Tensor x = resolve(input, "kl_div");
  if (type_of(x).shape.rank() < 1) fail("kl_div", call.loc(), "a mean over the batch needs an axis");
  const Tensor total = loss(x, Reduction::sum);
  return total / cast(dim_value(type_of(x).shape[0], call.loc()), type_of(total).dtype);
}

Tensor multilabel_soft_margin_loss(At input, At target, const Tensor& weight, Reduction reduction) {
  constexpr const char* name = "multilabel_soft_margin_loss";
  WideLoss call(name, input);
  const Tensor x = call.operand(input), y = call.operand(target);
  check_same_shape(name, x, y, call.loc());
  if (type_of(x).shape.rank() < 1) fail(name, call.loc(), "takes classes along the last axis");
  const Tensor z = call.wide(x), t = call.wide(y);
  const Tensor losses = -(t * log_sigmoid(z) + (1 - t) * log_sigmoid(-z));
  return call.result(mean(weighted(losses, weight), -1), reduction);
}

// ---- margins --------------------------------------------------------------------------------------------------------

namespace {

void check_margin(const char* name, double margin, Loc loc) {
  check_numbers(name, Bounds::finite, {{"margin", margin}}, loc);
}

}  // namespace

Tensor margin_ranking_loss(At first, At second, At target, MarginOptions options) {
  constexpr const char* name = "margin_ranking_loss";
  WideLoss call(name, first);
  check_margin(name, options.margin, call.loc());
  const Tensor a = call.operand(first), b = call.operand(second), y = call.operand(target);
  check_same_shape(name, a, b, call.loc());
  const Tensor losses = relu(-call.wide(y) * (call.wide(a) - call.wide(b)) + options.margin);
  return call.result(losses, options.reduction);
}

Tensor hinge_embedding_loss(At input, At target, MarginOptions options) {
  check_margin("hinge_embedding_loss", options.margin, input.loc);
  return pair_loss("hinge_embedding_loss", input, target, options.reduction, options.margin,
                   [margin = options.margin](const Tensor& x, const Tensor& y) {
                     return where(y == 1, x, 0) + where(y == -1, relu(margin - x), 0);
                   });
}

Tensor cosine_embedding_loss(At first, At second, At target, MarginOptions options) {
  constexpr const char* name = "cosine_embedding_loss";
  constexpr double eps = 1e-12;
  WideLoss call(name, first);
  check_margin(name, options.margin, call.loc());
  const Tensor a = call.operand(first), b = call.operand(second), y = call.operand(target);
  check_same_shape(name, a, b, call.loc());
  if (type_of(a).shape.rank() < 1 || type_of(y).shape.rank() + 1 != type_of(a).shape.rank())
    fail(name, call.loc(), "takes vectors [..., n] and targets [...]: ", to_string(type_of(a)), " x ",
         to_string(type_of(y)));
  const Tensor u = call.wide(a), v = call.wide(b);
  const Tensor cosine = sum(u * v, -1) / sqrt((sum(square(u), -1) + eps) * (sum(square(v), -1) + eps));
  const Tensor losses = where(y == 1, 1 - cosine, 0) + where(y == -1, relu(cosine - options.margin), 0);
  return call.result(losses, options.reduction);
}

Tensor triplet_margin_loss(At anchor, At positive, At negative, TripletOptions options) {
  constexpr const char* name = "triplet_margin_loss";
  WideLoss call(name, anchor);
  check_numbers(name, Bounds::positive, {{"margin", options.margin}}, call.loc());
  check_numbers(name, Bounds::finite, {{"eps", options.eps}}, call.loc());
  const Tensor a = call.operand(anchor), p = call.operand(positive), n = call.operand(negative);
  check_same_shape(name, a, p, call.loc());
  check_same_shape(name, a, n, call.loc());
  if (type_of(a).shape.rank() < 1) fail(name, call.loc(), "takes vectors along the last axis");
  if (!(options.p > 0)) fail(name, call.loc(), "p must be positive, it is ", options.p);
  const auto distance = [&](const Tensor& x, const Tensor& y) {
    return pairwise_distance(call.wide(x), call.wide(y), options.p, options.eps);
  };
  Tensor far = distance(a, n);
  if (options.swap) far = minimum(far, distance(p, n));
  return call.result(relu(distance(a, p) - far + options.margin), options.reduction);
}

// ---- likelihoods ----------------------------------------------------------------------------------------------------

Tensor poisson_nll_loss(At input, At target, PoissonOptions options) {
  constexpr const char* name = "poisson_nll_loss";
  WideLoss call(name, input);
  check_numbers(name, Bounds::not_negative, {{"eps", options.eps}}, call.loc());
  const Tensor given = call.operand(input), counts = call.operand(target);
  check_same_shape(name, given, counts, call.loc());
  const Tensor x = call.wide(given), t = call.wide(counts);
  Tensor losses = options.log_input ? exp(x) - t * x : x - t * log(x + options.eps);
  if (options.full) {
    const Tensor many = where(t > 1, t, 2);
    losses = losses + where(t > 1, many * log(many) - many + 0.5 * log(many * 6.283185307179586), 0);
  }
  return call.result(losses, options.reduction);
}

Tensor gaussian_nll_loss(At input, At target, At variance, GaussianOptions options) {
  constexpr const char* name = "gaussian_nll_loss";
  WideLoss call(name, input);
  check_numbers(name, Bounds::not_negative, {{"eps", options.eps}}, call.loc());
  const Tensor given = call.operand(input), wanted = call.operand(target), spread = call.operand(variance);
  check_same_shape(name, given, wanted, call.loc());
  // Of the input's shape, or one for each row: without the last axis, or with 1 in its place.
  Shape row = type_of(given).shape;
  if (row.rank() > 0) row[row.rank() - 1] = 1;
  Tensor v = call.wide(spread);
  if (type_of(v).shape.rank() + 1 == row.rank()) v = unsqueeze(v, -1);
  const auto is_of = [&](const Shape& shape) {
    bool same = type_of(v).shape.rank() == shape.rank();
    for (int i = 0; same && i < shape.rank(); ++i) same = type_of(v).shape[i] == shape[i];
    return same;
  };
  if (!is_of(type_of(given).shape) && !is_of(row))
    fail(name, call.loc(), "takes a variance of the input's shape or one for each row: ", to_string(type_of(given)),
         " x ", to_string(type_of(spread)));
  if (!v.element_count().same(Dim(0)))
    require(~any(v < 0), name, call.loc(), "a variance is negative: " + to_string(type_of(spread)));
  const Tensor x = call.wide(given), t = call.wide(wanted);
  const Tensor bounded = v + stop_gradient(maximum(options.eps - v, 0));  // its derivative is 1 below the bound too
  Tensor losses = (log(bounded) + square(x - t) / bounded) * 0.5;
  if (options.full) losses = losses + 0.9189385332046727;
  return call.result(losses, options.reduction);
}

}  // namespace weft::nn
