// What the steps of all optimizers share.
#pragma once
#include "base/number_checks.hpp"
#include "weft/optim.hpp"

namespace weft::optim::detail {

// Outside a trace values are computed when a step is taken: nothing of it stays pending.
void compute(std::span<const Tensor> values, Loc loc);

// A step of 16-bit floats is computed in f32, and what it sets is rounded once: in f16 the usual eps is 0, and so is
// the square of a gradient below 2^-13.
Tensor wide(const Tensor& x);

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
// The same of the number of parameters alone.
void require_same_count(const Parameters& parameters, std::size_t made_for, Loc loc);
// The same of one parameter and the shape that it had.
void require_same_shape(const Parameters& parameters, std::size_t i, const Shape& made_for, Loc loc);

// Throws the user's error for an amount that is negative or not finite, and a share that is not from 0 to below 1.
void check_options(const char* optimizer, std::initializer_list<NamedNumber> amounts,
                   std::initializer_list<NamedNumber> shares, Loc loc);

// What a step changes of a parameter and of its state: all of it, or, where the gradient stayed rows
// (record/row_gradients.hpp), these rows.
class UpdatedPart {
 public:
  UpdatedPart(const Tensor& gradient, Loc loc);
  // Of the part, wide: what meets in a row is added up, in its order, and is there as often as the row is.
  const Tensor& gradient() const { return gradient_; }
  Tensor of(const Tensor& whole) const;  // wide
  Tensor put_into(const Tensor& whole, const Tensor& part) const;
  // Throws where this is rows of parameter i, and the optimizer would change the others too: by a number that is not 0,
  // which a compiled step knows when it is called, or by `what` it does in any case.
  void require_zero(const Parameters& parameters, std::size_t i, const Scalar& number, const char* what) const;
  void require_whole(const Parameters& parameters, std::size_t i, const char* what) const;

 private:
  bool is_whole() const { return !rows_.defined(); }

  Loc loc_;
  Tensor rows_, gradient_;  // rows_: [n], undefined for all of it
};

// Calls f(number, parameter, part) for each parameter that is updated.
template <class F>
void each_part(const Parameters& parameters, Loc loc, F f) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters.trains(i)) f(i, parameters.parameter(i), UpdatedPart(parameters.gradient(i), loc));
}
// Calls f(number, parameter, gradient) for each parameter that is updated. Throws where a gradient stayed rows.
template <class F>
void each_trained(const Parameters& parameters, Loc loc, F f) {
  each_part(parameters, loc, [&](std::size_t i, Tensor& parameter, const UpdatedPart& part) {
    part.require_whole(parameters, i, "this optimizer");
    f(i, parameter, part.gradient());
  });
}

}  // namespace weft::optim::detail
