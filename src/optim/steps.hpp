// What the steps of all optimizers share.
#pragma once
#include <optional>

#include "base/number_checks.hpp"
#include "record/record.hpp"
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

// In errors: parameter 0 (blocks.0.weight).
std::string name_of(const Parameters& parameters, std::size_t i);
// The groups of an optimizer that is being made; errors have its name.
ParameterGroups groups_of(const char* optimizer, const Parameters& parameters, Groups groups, Loc loc);
// Throws the user's error for an amount that is negative or not finite, and a share that is not from 0 to below 1.
void check_options(const char* optimizer, std::initializer_list<NamedNumber> amounts,
                   std::initializer_list<NamedNumber> shares, Loc loc);

// A number for each parameter: one value of them all, or [parameters].
class PerParameter {
 public:
  explicit PerParameter(Tensor values) : values_(std::move(values)) {}
  Scalar operator[](std::size_t i) const;
  const Tensor& values() const { return values_; }

 private:
  Tensor values_;
};

// Throws the user's error where the momentum is not 0: of an optimizer that was made without one and has no velocities.
// A compiled step knows by its guards of a literal 0; of other numbers when it is called.
void require_no_momentum(const MaybeZero& momentum, Loc loc);

// f64 [parameters].
Buffer ones_per_parameter(const Parameters& parameters, Loc loc);

// What `missed` of a StepCounts is at first: undefined, or 0 where a parameter is frozen. Then it is defined before the
// first step is compiled.
Buffer missed_at_first(const Parameters& parameters, Loc loc);

// The steps that each parameter has taken, with the one that is taken now. A parameter that is frozen or has no
// gradient takes no part. While no parameter has missed a step they are `steps` for all, and what is computed of them
// is computed once; later it is computed as one value [parameters].
class StepCounts {
 public:
  // Counts the step: in `steps` for the optimizer, in `missed` [parameters] for those that take no part.
  StepCounts(const Parameters& parameters, Scalar& steps, Buffer& missed, NewValues& values, Loc loc);
  // f(count), for each parameter. f computes with operators and functions of Scalars, element by element.
  template <class F>
  PerParameter of(F f) const {
    return PerParameter(Scalar(f(counts_)).tensor());
  }
  // `next` for the parameters that take part and `before` for the others, both [parameters].
  Tensor where_taken(const Tensor& next, const Tensor& before) const;

 private:
  Scalar counts_;  // [] or [parameters]
  Tensor absent_;  // bool [parameters]; undefined where all take part
};

// The name, the new values and the checks of one step.
class Step : public NewValues {
 public:
  Step(const char* name, const Parameters& parameters, std::span<const Buffer> state, Loc loc) : call_(name, loc) {
    require_same_model(parameters, state, call_.loc());
  }
  Step(const char* name, const Parameters& parameters, std::size_t made_for, Loc loc) : call_(name, loc) {
    require_same_count(parameters, made_for, call_.loc());
  }
  void finish() { NewValues::finish(call_.loc()); }
  Loc loc() const { return call_.loc(); }

 private:
  LooseComposite call_;
};

// What a step changes of a parameter and of its state: all of it, or, where the gradient stayed rows
// (record/row_gradients.hpp), these rows.
class UpdatedPart {
 public:
  UpdatedPart(const Tensor& gradient, bool ascends, Loc loc);
  // Of the part, wide, negative where the step ascends: what meets in a row is added up, in its order, and is there as
  // often as the row is.
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
    if (parameters.trains(i))
      f(i, parameters.parameter(i), UpdatedPart(parameters.gradient(i), parameters.ascends(), loc));
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
