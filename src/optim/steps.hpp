// What the steps of all optimizers share.
#pragma once
#include "base/number_checks.hpp"
#include "weft/optim.hpp"

namespace weft::optim::detail {

// Outside a trace values are computed when a step is taken: nothing of it stays pending.
void compute(std::span<const Tensor> values, Loc loc);

// The new values of one optimizer's step. What holds them keeps its dtype: a model that was cast after its optimizer
// was made has parameters of its own dtype, and the optimizer's state keeps the one that it was made with.
class NewValues {
 public:
  void set(Tensor& place, Tensor value);
  void set(Buffer& place, Tensor value) { set(place.tensor(), std::move(value)); }
  void finish(Loc loc) { compute(values_, loc); }

 private:
  std::vector<Tensor> values_;
};
// Throws where the optimizer was made for another model: `state` has what it keeps for each parameter, in its shape, or
// undefined.
void require_same_model(const Parameters& parameters, std::span<const Buffer> state, Loc loc);
// The same of one parameter and the shape that it had.
void require_same_shape(const Parameters& parameters, std::size_t i, const Shape& made_for, Loc loc);

// Throws the user's error for an amount that is negative or not finite, and a share that is not from 0 to below 1.
void check_options(const char* optimizer, std::initializer_list<NamedNumber> amounts,
                   std::initializer_list<NamedNumber> shares, Loc loc);

// Calls f(number, parameter, gradient) for each parameter that is updated.
template <class F>
void each_trained(const Parameters& parameters, F f) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters.trains(i)) f(i, parameters.parameter(i), parameters.gradient(i));
}

}  // namespace weft::optim::detail
