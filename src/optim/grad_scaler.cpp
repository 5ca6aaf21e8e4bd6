#include "weft/grad_scaler.hpp"

#include <cmath>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "optim/steps.hpp"
#include "record/record.hpp"
#include "record/row_gradients.hpp"
#include "weft/distributed.hpp"

namespace weft {

GradScaler::GradScaler(const GradScalerOptions& options, Loc loc)
    : growth_factor(options.growth_factor),
      backoff_factor(options.backoff_factor),
      growth_interval(options.growth_interval),
      enabled(options.enabled),
      scale_(full({}, At(options.init_scale, loc), {DType::f32, options.device})),
      growth_tracker_(full({}, At(0, loc), {DType::i64, options.device})),
      found_inf_(full({}, At(false, loc), {DType::boolean, options.device})) {
  check_numbers("GradScaler", Bounds::positive,
                {{"init_scale", options.init_scale},
                 {"growth_interval", static_cast<double>(options.growth_interval)},
                 {"backoff_factor", options.backoff_factor}},
                loc);
  if (const auto scale = static_cast<float>(options.init_scale); scale == 0 || std::isinf(scale))
    fail("GradScaler", loc, "init_scale must be a number of f32, it is ", options.init_scale);
  if (!(options.growth_factor > 1))
    fail("GradScaler", loc, "growth_factor must be above 1, it is ", options.growth_factor);
  if (!(options.backoff_factor < 1))
    fail("GradScaler", loc, "backoff_factor must be below 1, it is ", options.backoff_factor);
}

Tensor GradScaler::scale(At loss) const {
  LooseComposite call("scale", loss.loc);
  const Tensor value = resolve(loss, "scale");
  return enabled ? value * scale_ : value;
}

// The greatest magnitude of each tells whether all are finite, NaN too: one reduction in the pass that divides.
void GradScaler::unscale_leaves(const detail::LeafList& leaves, Loc loc) {
  LooseComposite call("unscale", loc);
  unscaled_ = true;
  if (!enabled) return;
  const Scalar inverse(1 / scale_);
  Tensor found = found_inf_, in_parts;  // in_parts: of what this process holds a part of
  std::vector<Tensor> values;
  for (const detail::Leaf& leaf : leaves.leaves) {
    if (!detail::holds_tensor(leaf.kind) || !leaf.tensor().defined() || !is_floating(type_of(leaf.tensor()).dtype))
      continue;
    Tensor& gradient = leaf.tensor();
    const std::optional<GradientRows> rows = rows_of_gradient(gradient, call.loc());
    const Tensor given = rows ? rows->rows : gradient;
    if (given.element_count().same(Dim(0))) continue;
    const Tensor wide = optim::detail::wide(given);
    const Tensor own = ~isfinite(amax(abs(wide)));
    if (leaf.shard())
      in_parts = in_parts.defined() ? in_parts | own : own;
    else
      found = found | own;
    const Tensor unscaled = cast(wide * cast(inverse, type_of(wide).dtype), given.dtype());
    values.push_back(unscaled);
    if (rows) values.push_back(rows->index);
    gradient = rows ? row_gradient(rows->index, unscaled, type_of(gradient), call.loc()) : unscaled;
  }
  if (in_parts.defined()) found = found | (distributed::all_reduce(cast(in_parts, DType::f32)) > 0);
  found_inf_ = found;
  values.push_back(found);
  optim::detail::compute(values, call.loc());
}

void GradScaler::require_unscaled(const char* operation, Loc loc) const {
  if (!unscaled_)
    fail(operation, loc, "no gradients were unscaled since the last update() of the GradScaler: call unscale() first");
}

std::vector<Tensor> GradScaler::values_of(const detail::LeafList& places) {
  std::vector<Tensor> values;
  for (const detail::Leaf& leaf : places.leaves)
    if (detail::holds_tensor(leaf.kind)) values.push_back(leaf.tensor());
  return values;
}

void GradScaler::choose(const detail::LeafList& places, const std::vector<Tensor>& before, Loc loc) const {
  LooseComposite call("step", loc);
  if (!enabled) return;
  std::vector<Tensor> values;
  std::size_t at = 0;
  for (const detail::Leaf& leaf : places.leaves) {
    if (!detail::holds_tensor(leaf.kind)) continue;
    const Tensor& earlier = before[at++];
    Tensor& place = leaf.tensor();
    if (!place.defined() || place.same(earlier)) continue;
    const Tensor was = earlier.defined() ? earlier : zeros_like(place);  // counts that began in this step
    const Type type = type_of(was);
    // What is chosen of two numbers by a tensor would be f32.
    Tensor chosen =
        type.weak ? where(found_inf_, cast(was, type.dtype), cast(place, type.dtype)) : where(found_inf_, was, place);
    if (type.weak) chosen = record(Op::cast, {chosen}, {}, Type{type.dtype, true, {}, {}}, call.loc());
    values.push_back(place = std::move(chosen));
  }
  optim::detail::compute(values, call.loc());
}

void GradScaler::update(Loc loc) {
  LooseComposite call("update", loc);
  require_unscaled("update", call.loc());
  unscaled_ = false;
  if (!enabled) return;
  const Tensor found = found_inf_, tracker = growth_tracker_.tensor() + 1, scale = scale_;
  const Tensor grows = ~found & (tracker == growth_interval);
  const Tensor grown = scale * growth_factor;
  scale_ = where(found, scale * backoff_factor, where(grows & isfinite(grown), grown, scale));
  growth_tracker_ = where(found | grows, full_like(tracker, 0), tracker);
  found_inf_ = full_like(found, false);
  const Tensor values[] = {scale_, growth_tracker_, found_inf_};
  optim::detail::compute(values, call.loc());
}

}  // namespace weft
