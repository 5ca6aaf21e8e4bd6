// Loss scaling for f16: gradients that would underflow are computed of a larger loss, and divided afterwards.
//   auto [scaled, gradients] = value_and_grad([&](const Model& m) { return scaler.scale(loss_of(m, x, y)); }, model);
//   gradients = scaler.unscale(gradients);        // clip them here
//   scaler.step(opt, model, gradients);
//   scaler.update();
// Where a gradient is infinite or NaN the step is skipped and the scale halved. That is data, not a decision: all four
// may be in a compiled step, which neither stops to look nor is compiled again. bf16 needs none: its range is that of
// f32.
#pragma once
#include "weft/flatten.hpp"
#include "weft/tensor.hpp"

namespace weft {

struct GradScalerOptions {              // of GradScaler, as in PyTorch
  double init_scale = 65536;            // the first scale
  double growth_factor = 2;             // times the scale after growth_interval good steps in a row
  double backoff_factor = 0.5;          // times the scale after a step with a gradient that is not finite
  std::int64_t growth_interval = 2000;  // good steps in a row
  bool enabled = true;                  // false: nothing is scaled and no step is skipped
  Device device = {};                   // where losses and gradients are
};

// State that is passed by reference to a compiled step, and saved with io::save.
class GradScaler {
 public:
  // Throws Error where a factor is not positive, growth_factor not above 1, backoff_factor not below 1 or
  // growth_interval not positive.
  explicit GradScaler(const GradScalerOptions& options = {}, Loc loc = Loc::current());

  // The loss times the scale, in the wider of its dtype and f32 where it has no axes.
  Tensor scale(At loss) const;

  // Gradients (or a loss) divided by the scale, in their dtypes. Notes whether one of them is infinite or NaN.
  template <class M>
  M unscale(const M& gradients, Loc loc = Loc::current()) {
    M result = detail::clone(gradients);
    detail::LeafList leaves;
    detail::flatten(result, leaves);
    unscale_leaves(leaves, loc);
    return result;
  }

  // optimizer.update(model, gradients), of which model and optimizer keep what they had where unscale() has met a
  // gradient since the last update() that is not finite. Throws Error where nothing was unscaled since then.
  template <class Optimizer, class M>
  void step(Optimizer& optimizer, M& model, const M& gradients, Loc loc = Loc::current()) {
    require_unscaled("step", loc);
    detail::LeafList places;
    detail::flatten(model, places);
    detail::flatten(optimizer, places);
    const std::vector<Tensor> before = values_of(places);
    optimizer.update(model, gradients, loc);
    choose(places, before, loc);
  }

  // The next scale. Throws Error where nothing was unscaled since the last one.
  void update(Loc loc = Loc::current());

  // The scale now, f32 of no axes.
  const Tensor& current_scale() const { return scale_; }
  // Good steps since the scale last changed, i64 of no axes.
  const Tensor& growth_tracker() const { return growth_tracker_; }
  // Whether a gradient that was unscaled since the last update() is not finite: bool of no axes.
  const Tensor& found_inf() const { return found_inf_; }

  Scalar growth_factor, backoff_factor;  // the options of these names, which may change between steps
  Index growth_interval;                 // the same
  bool enabled;                          // the same

 private:
  void unscale_leaves(const detail::LeafList& leaves, Loc loc);
  void require_unscaled(const char* operation, Loc loc) const;
  static std::vector<Tensor> values_of(const detail::LeafList& places);
  void choose(const detail::LeafList& places, const std::vector<Tensor>& before, Loc loc) const;

  Buffer scale_, growth_tracker_, found_inf_;
  bool unscaled_ = false;  // since the last update()
  WEFT_MEMBERS(growth_factor, backoff_factor, growth_interval, enabled, scale_, growth_tracker_, found_inf_, unscaled_)
};

}  // namespace weft
