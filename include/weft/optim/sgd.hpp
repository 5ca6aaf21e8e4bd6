// SGD, ASGD and Rprop: steps along the gradient, or along its sign.
#pragma once
#include "weft/optim/parameters.hpp"

namespace weft::optim {

struct SgdOptions {         // of SGD, as in PyTorch
  double lr = 1e-3;         // learning rate
  double momentum = 0;      // the part of the velocity that a step keeps
  double weight_decay = 0;  // times the parameter, added to the gradient
  bool nesterov = false;    // a step looks ahead by the momentum
  double dampening = 0;     // the part of a gradient that the velocity leaves out
  bool maximize = false;    // steps go up, along the gradients
  // The seed by which new values of bf16 parameters are rounded at random (StochasticRounding); none: to the nearest.
  std::optional<std::uint64_t> stochastic_rounding = {};
};

// A momentum of 0 at the start means none: no velocities are kept, and update() throws Error where it has one later.
// v = momentum * v + (1 - dampening) * (g + weight_decay * p), in the first step without the dampening;
// p -= lr * v, or lr * (g + momentum * v) for nesterov.
class SGD : public detail::Updated<SGD> {
 public:
  SGD(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit SGD(const detail::Parameters& model, const SgdOptions& options = {}, Groups groups = {},
               Loc loc = Loc::current());

  Scalar lr;                       // the option of this name, which a schedule may set
  detail::MaybeZero weight_decay;  // the same
  Scalar dampening;                // the same
  detail::MaybeZero momentum;      // the same
  Scalar steps;                    // taken so far; counted where there is a momentum
  ParameterGroups groups;          // in the order of the constructor's list
  bool maximize;                   // whether steps go up, along the gradients

 private:
  friend detail::Updated<SGD>;
  void step(const detail::Parameters& parameters, Loc loc);

  bool nesterov_ = false;
  std::vector<Buffer> velocity_;  // empty without momentum
  Buffer missed_;                 // i64 [parameters]: steps that each had no part in; undefined while there are none
  StochasticRounding rounding_;
  WEFT_MEMBERS(lr, momentum, weight_decay, dampening, steps, groups, maximize, nesterov_, velocity_, missed_, rounding_)
};

struct AsgdOptions {    // of ASGD, as in PyTorch
  double lr = 1e-2;     // learning rate of the first step
  double lambd = 1e-4;  // step t has lr / (1 + lambd lr (t - 1))^alpha; times that: what a step takes of a parameter
  double alpha = 0.75;  // the power of that
  double t0 = 1e6;      // the step after which averages begin; before it they are the parameters
  double weight_decay = 0;  // times the parameter, added to the gradient
  bool maximize = false;    // steps go up, along the gradients
};

// Polyak and Juditsky 1992: SGD with a falling rate, and the average of the parameters over the steps. A change of lr
// acts in the next step (PyTorch: in the one after it).
class ASGD : public detail::Updated<ASGD> {
 public:
  ASGD(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit ASGD(const detail::Parameters& model, const AsgdOptions& options = {}, Groups groups = {},
                Loc loc = Loc::current());
  // The model with averages in the place of parameters; those that took no step are the model's. Throws Error where
  // the optimizer was made for another model.
  template <class M>
  M averaged(const M& model, Loc loc = Loc::current()) const {
    M result = model;
    put_averages(detail::Parameters(result), loc);
    return result;
  }

  Scalar lr, lambd, alpha, t0, weight_decay;  // the options of these names, which a schedule may set
  Scalar steps;                               // taken so far
  ParameterGroups groups;                     // in the order of the constructor's list
  bool maximize;                              // whether steps go up, along the gradients

 private:
  friend detail::Updated<ASGD>;
  void step(const detail::Parameters& parameters, Loc loc);
  void put_averages(const detail::Parameters& parameters, Loc loc) const;

  std::vector<Buffer> average_;
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, lambd, alpha, t0, weight_decay, steps, groups, maximize, average_, missed_)
};

struct RpropOptions {                        // of Rprop, as in PyTorch
  double lr = 1e-2;                          // how far each element moves in a parameter's first step
  double eta_minus = 0.5, eta_plus = 1.2;    // times that, where the gradient changes its sign, and where it keeps it
  double least_step = 1e-6, most_step = 50;  // bounds of how far an element moves
  bool maximize = false;                     // steps go up, along the gradients
};

// Riedmiller and Braun 1993, for gradients of all samples: each element moves by a step of its own against the sign of
// its gradient. Where the sign has changed it stays for one step. There is no weight decay: a group has none either.
class Rprop : public detail::Updated<Rprop> {
 public:
  Rprop(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Rprop(const detail::Parameters& model, const RpropOptions& options = {}, Groups groups = {},
                 Loc loc = Loc::current());

  Scalar lr, eta_minus, eta_plus, least_step, most_step;  // the options of these names; lr acts in first steps alone
  Scalar steps;                                           // taken so far
  ParameterGroups groups;                                 // in the order of the constructor's list
  bool maximize;                                          // whether steps go up, along the gradients

 private:
  friend detail::Updated<Rprop>;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> previous_, size_;  // the gradient before, 0 where its sign had changed; how far elements move
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, eta_minus, eta_plus, least_step, most_step, steps, groups, maximize, previous_, size_, missed_)
};

}  // namespace weft::optim
