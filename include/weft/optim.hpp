// Optimizers: SGD, Adam, AdamW, by PyTorch's formulas and with its defaults. An optimizer is plain state, passed by
// reference to a compiled step; its hyperparameters are Scalars, so a schedule (`opt.lr = ...`) compiles nothing anew.
// update() throws Error where model or gradients are of another structure, or a gradient of another shape.
// The gradient of a parameter that the loss does not reach is 0, not undefined: weight decay and momentum act on it. In
// PyTorch, where it has none, they do not. Freeze the parameter to leave it as it is.
#pragma once
#include <vector>

#include "weft/flatten.hpp"
#include "weft/ops.hpp"

namespace weft::optim {

// What one step of Adam is the same for all parameters.
struct AdamStep {
  Scalar step_size;     // lr / (1 - beta1^t)
  Scalar second_scale;  // sqrt(1 - beta2^t)
  Scalar beta1, beta2, eps;
  bool decoupled;  // AdamW
  Scalar decay;    // AdamW: the part of a parameter that is left, 1 - lr * weight_decay; Adam: weight_decay
};
struct AdamResult {
  Tensor parameter, first, second;
};
// One parameter's new value and moments.
AdamResult adam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second,
                       const AdamStep& step, Loc loc = Loc::current());

namespace detail {
using weft::detail::LeafList;

// A model's parameters and their gradients, in the order of declaration.
class Parameters {
 public:
  template <class M>
  explicit Parameters(const M& model) {
    weft::detail::flatten(model, leaves_);
    select();
  }
  template <class M>
  Parameters(M& model, const M& gradients, Loc loc) : Parameters(model) {
    weft::detail::flatten(gradients, gradient_leaves_);
    match_gradients(loc);
  }
  std::size_t size() const { return positions_.size(); }
  Tensor& parameter(std::size_t i) const { return leaves_.leaves[positions_[i]].tensor(); }
  const Tensor& gradient(std::size_t i) const { return gradient_leaves_.leaves[positions_[i]].tensor(); }
  bool trains(std::size_t i) const;
  // A buffer of zeros for each, undefined for what is undefined.
  std::vector<Buffer> zeros(Loc loc) const;

 private:
  void select();
  void match_gradients(Loc loc);

  LeafList leaves_, gradient_leaves_;
  std::vector<std::size_t> positions_;
};
}  // namespace detail

struct SgdOptions {
  double lr = 1e-3, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// A momentum of 0 at the start means none: no velocities are kept, and it can't be given one later.
// v = momentum * v + (g + weight_decay * p);  p -= lr * v, or lr * (g + momentum * v) for nesterov.
class SGD {
 public:
  template <class M>
  explicit SGD(const M& model, SgdOptions options = {}, Loc loc = Loc::current())
      : SGD(detail::Parameters(model), options, loc) {}
  // Gives the parameters their new values; frozen ones and those without a gradient are left alone.
  template <class M>
  void update(M& model, const M& gradients, Loc loc = Loc::current()) {
    step(detail::Parameters(model, gradients, loc), loc);
  }

  Scalar lr, momentum, weight_decay;

 private:
  SGD(const detail::Parameters& parameters, const SgdOptions& options, Loc loc);
  void step(const detail::Parameters& parameters, Loc loc);

  bool nesterov_ = false;
  std::vector<Buffer> velocity_;  // empty without momentum
  WEFT_MEMBERS(lr, momentum, weight_decay, nesterov_, velocity_)
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};

// Kingma and Ba 2015. Adam adds weight decay to the gradient; AdamW (Loshchilov and Hutter 2019) shrinks the parameter.
template <bool decoupled>
class BasicAdam {
 public:
  using Options = std::conditional_t<decoupled, AdamWOptions, AdamOptions>;
  template <class M>
  explicit BasicAdam(const M& model, Options options = {}, Loc loc = Loc::current())
      : BasicAdam(detail::Parameters(model), options, loc) {}
  // Gives the parameters their new values; frozen ones and those without a gradient are left alone.
  template <class M>
  void update(M& model, const M& gradients, Loc loc = Loc::current()) {
    step(detail::Parameters(model, gradients, loc), loc);
  }

  Scalar lr, beta1, beta2, eps, weight_decay;
  Scalar steps;  // taken so far

 private:
  BasicAdam(const detail::Parameters& parameters, const Options& options, Loc loc);
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> first_, second_;  // moments, of each parameter
  WEFT_MEMBERS(lr, beta1, beta2, eps, weight_decay, steps, first_, second_)
};
using Adam = BasicAdam<false>;
using AdamW = BasicAdam<true>;
extern template class BasicAdam<false>;
extern template class BasicAdam<true>;

}  // namespace weft::optim
