// The optimizers: one update of one parameter each, over tensors, and the walk over a model's parameters.
#include "weft/optim.hpp"

#include "base/fail.hpp"
#include "base/nearest_names.hpp"
#include "optim/steps.hpp"
#include "record/composite.hpp"
#include "record/elementwise.hpp"
#include "record/evaluate.hpp"
#include "record/expressions.hpp"
#include "record/indexing.hpp"
#include "record/row_gradients.hpp"
#include "weft/grad.hpp"
#include "weft/tree.hpp"

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
  return is_kept(i) && !leaves_.leaves[positions_[i]].flag && parameter(i).defined() && gradient(i).defined();
}

std::vector<Buffer> Parameters::zeros(Loc loc) const {
  std::vector<Buffer> result(size());
  for (std::size_t i = 0; i < size(); ++i)
    if (is_kept(i) && parameter(i).defined()) result[i] = zeros_like(parameter(i), loc);
  return result;
}

std::string Parameters::path(std::size_t i) const {
  struct Context {
    std::size_t left;
    std::string found;
  } context{positions_[i], {}};
  visit_paths(*description_, leaves_.leaves.begin(), &context, [](void* at, const Leaf&, const char* path) {
    Context& context = *static_cast<Context*>(at);
    if (context.left-- == 0) context.found = path;
  });
  return context.found;
}

std::vector<std::uint8_t> Parameters::named(const char* pattern) const {
  struct Context {
    const char* pattern;
    std::vector<std::uint8_t> found;
  } context{pattern, {}};
  visit_paths(*description_, leaves_.leaves.begin(), &context, [](void* at, const Leaf&, const char* path) {
    auto& [pattern, found] = *static_cast<Context*>(at);
    found.push_back(tree::matches(pattern, path));
  });
  std::vector<std::uint8_t> result;
  for (const std::size_t position : positions_) result.push_back(context.found[position]);
  return result;
}

Tensor wide(const Tensor& x) { return cast(x, computed_in(type_of(x).dtype)); }

void NewValues::set(Tensor& place, Tensor value) {
  place = place.defined() && value.dtype() != place.dtype() ? cast(value, place.dtype()) : std::move(value);
  values_.push_back(place);
}
void compute(std::span<const Tensor> values, Loc loc) {
  if (!recorder().trace()) evaluate(values, loc);
}

// Places that name one row get one number, in the order of their rows; sums of what meets are those of the dense
// gradient, at the cost of the places.
UpdatedPart::UpdatedPart(const Tensor& gradient, Loc loc) : loc_(loc) {
  const std::optional<GradientRows> found = rows_of_gradient(gradient, loc);
  gradient_ = wide(found ? found->rows : gradient);
  if (!found) return;
  rows_ = found->index;
  const Type& places = type_of(rows_);
  if (places.shape[0].same(Dim(0))) return;
  const auto take = [&](const Tensor& x, const Tensor& index) { return record(Op::gather, {x, index}, {}, {}, loc); };
  const Tensor order = argsort(rows_, 0), sorted = take(rows_, order);
  const Tensor before = take(sorted, maximum(positions(0, places.shape, places.device, loc) - 1, 0));
  const Tensor numbers = cumsum(cast(sorted != before, DType::i64), 0);
  const Tensor number = update_rows(constant_like(0, places, loc), 0, order, numbers, false, loc);
  gradient_ = wide(take(record(Op::scatter_add, {number, found->rows}, {}, type_of(found->rows), loc), number));
}
Tensor UpdatedPart::of(const Tensor& whole) const {
  return wide(is_whole() ? whole : record(Op::gather, {whole, rows_}, {}, {}, loc_));
}
Tensor UpdatedPart::put_into(const Tensor& whole, const Tensor& part) const {
  return is_whole() ? part : update_rows(whole, 0, rows_, cast(part, whole.dtype()), false, loc_);
}

namespace {
std::string text_of_refusal(const Parameters& parameters, std::size_t i, const char* what) {
  const std::string path = parameters.path(i);
  return concat_text("the gradient of parameter ", i, path.empty() ? "" : " (" + path + ")",
                     " is rows alone (sparse), and ", what, " would change the others too: make the embedding dense");
}
}  // namespace
void UpdatedPart::require_zero(const Parameters& parameters, std::size_t i, const Scalar& number,
                               const char* what) const {
  if (!is_whole()) require(number.tensor() == 0, "update", loc_, text_of_refusal(parameters, i, what));
}
void UpdatedPart::require_whole(const Parameters& parameters, std::size_t i, const char* what) const {
  if (!is_whole()) fail("update", loc_, text_of_refusal(parameters, i, what));
}

void check_options(const char* optimizer, std::initializer_list<NamedNumber> amounts,
                   std::initializer_list<NamedNumber> shares, Loc loc) {
  check_numbers(optimizer, Bounds::not_negative, amounts, loc);
  check_numbers(optimizer, Bounds::share_below_one, shares, loc);
}
void require_same_model(const Parameters& parameters, std::span<const Buffer> state, Loc loc) {
  if (state.size() != parameters.size())
    fail("update", loc, "the optimizer was made for a model of ",
         counted(static_cast<std::int64_t>(state.size()), "parameter", "parameters"), ", this one has ",
         parameters.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    if (state[i].tensor().defined()) require_same_shape(parameters, i, type_of(state[i].tensor()).shape, loc);
}
void require_same_shape(const Parameters& parameters, std::size_t i, const Shape& made_for, Loc loc) {
  const Tensor& parameter = parameters.parameter(i);
  if (!parameter.defined() || type_of(parameter).shape == made_for) return;
  const std::string path = parameters.path(i);
  fail("update", loc, "the optimizer was made for another model: parameter ", i, path.empty() ? "" : " (" + path + ")",
       " was ", to_string(made_for), ", is ", to_string(type_of(parameter).shape));
}

}  // namespace detail

// ---- groups ---------------------------------------------------------------------------------------------------------

namespace {
[[noreturn]] void refuse_pattern(const detail::Parameters& parameters, const char* pattern, Loc loc) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < parameters.size(); ++i) paths.push_back(parameters.path(i));
  if (paths.empty()) fail("optimizer", loc, "no parameter is named ", pattern, ": the model has no parameters");
  fail("optimizer", loc, "no parameter is named ", pattern, ": they are ", nearest_names(pattern, std::move(paths)));
}
}  // namespace

ParameterGroups::ParameterGroups(const detail::Parameters& parameters, Groups groups, Loc loc) {
  if (groups.size() == 0) return;
  group_of_.assign(parameters.size(), 0);
  for (const Group& group : groups) {
    const GroupOptions& own = group.options;
    for (const auto& [name, value] : {NamedNumber{"lr", own.lr}, {"weight_decay", own.weight_decay}})
      if (value != inherited)
        detail::check_options("optimizer", {{concat_text(name, " of the group ", group.pattern).c_str(), value}}, {},
                              loc);
    list_.push_back({own.lr, own.weight_decay, own.lr != inherited, own.weight_decay != inherited});
    bool found = false;
    const std::vector<std::uint8_t> named = parameters.named(group.pattern);
    for (std::size_t i = 0; i < named.size(); ++i) {
      found = found || named[i];
      if (named[i] && group_of_[i] == 0) group_of_[i] = static_cast<std::int32_t>(list_.size());
    }
    if (!found) refuse_pattern(parameters, group.pattern, loc);
  }
}
std::size_t ParameterGroups::group_of(std::size_t i) const {
  return group_of_.empty() ? 0 : static_cast<std::size_t>(group_of_[i]);
}
const Scalar& ParameterGroups::lr(std::size_t i, const Scalar& all) const {
  const std::size_t group = group_of(i);
  return group && list_[group - 1].own_lr ? list_[group - 1].lr : all;
}
const Scalar& ParameterGroups::weight_decay(std::size_t i, const Scalar& all) const {
  const std::size_t group = group_of(i);
  return group && list_[group - 1].own_weight_decay ? list_[group - 1].weight_decay : all;
}

// ---- SGD ------------------------------------------------------------------------------------------------------------

SGD::SGD(const detail::Parameters& parameters, const SgdOptions& options, Groups groups, Loc loc)
    : lr(options.lr),
      momentum(options.momentum),
      weight_decay(options.weight_decay),
      dampening(options.dampening),
      groups(parameters, groups, loc),
      nesterov_(options.nesterov),
      dampened_(options.dampening != 0) {
  detail::check_options(
      "SGD", {{"lr", options.lr}, {"momentum", options.momentum}, {"weight_decay", options.weight_decay}}, {}, loc);
  check_numbers("SGD", Bounds::finite, {{"dampening", options.dampening}}, loc);
  if (nesterov_ && options.momentum == 0) fail("SGD", loc, "nesterov needs a momentum");
  if (nesterov_ && dampened_) fail("SGD", loc, "nesterov has no dampening");
  if (options.momentum != 0) velocity_ = parameters.zeros(loc);
}

void SGD::step(const detail::Parameters& parameters, Loc loc) {
  Operation call("sgd", loc);
  if (velocity_.empty() && !recorder().trace() && momentum.tensor().item() != 0)
    fail("update", call.loc(), "SGD was made without a momentum and has no velocities: give one from the start");
  if (!velocity_.empty()) detail::require_same_model(parameters, velocity_, call.loc());
  detail::NewValues values;
  Scalar undamped = 1;
  if (dampened_) {
    undamped = 1 - dampening * Scalar(minimum(steps, 1.0));
    values.set(steps.tensor(), (steps + 1).tensor());
  }
  detail::each_part(parameters, call.loc(), [&](std::size_t i, Tensor& parameter, const detail::UpdatedPart& part) {
    const bool moves = !velocity_.empty();
    const Scalar& decay = groups.weight_decay(i, weight_decay);
    part.require_zero(parameters, i, decay, "weight decay");
    if (moves) part.require_whole(parameters, i, "a momentum");
    Tensor operands[] = {part.of(parameter),        part.gradient(),   decay.tensor(),
                         groups.lr(i, lr).tensor(), momentum.tensor(), moves ? detail::wide(velocity_[i]) : Tensor(),
                         undamped.tensor()};
    Tensor results[2];
    const bool dampened = dampened_;
    composite(SgdCall{called("sgd"), nesterov_, dampened},
              std::span(operands, !moves     ? 4
                                  : dampened ? 7
                                             : 6),
              std::span(results, moves ? 2 : 1), call.loc(), [&](std::span<const Tensor> in, std::span<Tensor> out) {
                Tensor change = in[1] + in[0] * in[2];
                if (moves) {
                  out[1] = in[5] * in[4] + (dampened ? change * in[6] : change);
                  change = nesterov_ ? change + out[1] * in[4] : out[1];
                }
                out[0] = in[0] - change * in[3];
              });
    values.set(parameter, part.put_into(parameter, results[0]));
    if (moves) values.set(velocity_[i], std::move(results[1]));
  });
  values.finish(call.loc());
}

// ---- Adam ----------------------------------------------------------------------------------------------------------

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
BasicAdam<decoupled>::BasicAdam(const detail::Parameters& parameters, const Options& options, Groups groups, Loc loc)
    : lr(options.lr),
      beta1(options.beta1),
      beta2(options.beta2),
      eps(options.eps),
      weight_decay(options.weight_decay),
      groups(parameters, groups, loc),
      first_(parameters.zeros(loc)),
      second_(parameters.zeros(loc)) {
  detail::check_options(decoupled ? "AdamW" : "Adam",
                        {{"lr", options.lr}, {"eps", options.eps}, {"weight_decay", options.weight_decay}},
                        {{"beta1", options.beta1}, {"beta2", options.beta2}}, loc);
}

template <bool decoupled>
void BasicAdam<decoupled>::step(const detail::Parameters& parameters, Loc loc) {
  LooseComposite call(decoupled ? "adamw" : "adam", loc);
  detail::require_same_model(parameters, first_, call.loc());
  detail::NewValues values;
  values.set(steps.tensor(), (steps + 1).tensor());
  const Scalar first_scale = 1 - pow(beta1, steps), second_scale = sqrt(1 - pow(beta2, steps));
  const auto step_of = [&](const Scalar& lr, const Scalar& weight_decay) {
    return AdamStep{
        lr / first_scale, second_scale, beta1, beta2, eps, decoupled, decoupled ? 1 - lr * weight_decay : weight_decay};
  };
  std::vector<AdamStep> step = {step_of(lr, weight_decay)};  // of no group, of each group
  for (std::size_t i = 0; i < groups.size(); ++i)
    step.push_back(step_of(groups[i].own_lr ? groups[i].lr : lr,
                           groups[i].own_weight_decay ? groups[i].weight_decay : weight_decay));
  detail::each_part(parameters, call.loc(), [&](std::size_t i, Tensor& parameter, const detail::UpdatedPart& part) {
    part.require_zero(parameters, i, groups.weight_decay(i, weight_decay), "weight decay");
    const AdamResult next = adam_update(part.of(parameter), part.gradient(), part.of(first_[i]), part.of(second_[i]),
                                        step[groups.group_of(i)], call.loc());
    values.set(parameter, part.put_into(parameter, next.parameter));
    values.set(first_[i], part.put_into(first_[i], next.first));
    values.set(second_[i], part.put_into(second_[i], next.second));
  });
  values.finish(call.loc());
}

template class BasicAdam<false>;
template class BasicAdam<true>;

}  // namespace weft::optim
