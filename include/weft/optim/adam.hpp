// Adam, AdamW, NAdam, RAdam, Lion and LAMB: steps by moments of the gradient.
#pragma once
#include "weft/optim/parameters.hpp"

namespace weft::optim {

// What one step of Adam is the same for all parameters.
struct AdamStep {
  Scalar step_size;          // lr / (1 - beta1^t)
  Scalar second_scale;       // sqrt(1 - beta2^t)
  Scalar beta1, beta2, eps;  // the options of these names
  bool decoupled;            // AdamW
  Scalar decay;              // AdamW: the part of a parameter that is left, 1 - lr * weight_decay; Adam: weight_decay
};
struct AdamResult {                 // of adam_update
  Tensor parameter, first, second;  // the parameter and its moments after the step
};
// One parameter's new value and moments.
AdamResult adam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second,
                       const AdamStep& step, Loc loc = Loc::current());

struct AdamOptions {                  // of Adam, as in PyTorch
  double lr = 1e-3;                   // learning rate
  double beta1 = 0.9, beta2 = 0.999;  // the part of the first and of the second moment that a step keeps
  double eps = 1e-8;                  // added to the root of the second moment
  double weight_decay = 0;            // times the parameter, added to the gradient
  bool maximize = false;              // steps go up, along the gradients
  // The seed by which new values of bf16 parameters are rounded at random (StochasticRounding); none: to the nearest.
  std::optional<std::uint64_t> stochastic_rounding = {};
};
struct AdamWOptions {                 // of AdamW, as in PyTorch
  double lr = 1e-3;                   // learning rate
  double beta1 = 0.9, beta2 = 0.999;  // the part of the first and of the second moment that a step keeps
  double eps = 1e-8;                  // added to the root of the second moment
  double weight_decay = 1e-2;         // times lr: the part of a parameter that a step takes away
  bool maximize = false;              // steps go up, along the gradients
  // The seed by which new values of bf16 parameters are rounded at random (StochasticRounding); none: to the nearest.
  std::optional<std::uint64_t> stochastic_rounding = {};
};

// Kingma and Ba 2015. Adam adds weight decay to the gradient; AdamW (Loshchilov and Hutter 2019) shrinks the parameter.
template <bool decoupled>
class BasicAdam : public detail::Updated<BasicAdam<decoupled>> {
 public:
  // AdamOptions or AdamWOptions
  using Options = std::conditional_t<decoupled, AdamWOptions, AdamOptions>;
  BasicAdam(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit BasicAdam(const detail::Parameters& model, const Options& options = {}, Groups groups = {},
                     Loc loc = Loc::current());

  Scalar lr, beta1, beta2, eps, weight_decay;  // the options of these names, which a schedule may set
  Scalar steps;                                // taken so far
  ParameterGroups groups;                      // in the order of the constructor's list
  bool maximize;                               // whether steps go up, along the gradients

 private:
  friend detail::Updated<BasicAdam>;
  friend class Muon;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> first_, second_;  // moments, of each parameter
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  StochasticRounding rounding_;
  WEFT_MEMBERS(lr, beta1, beta2, eps, weight_decay, steps, groups, maximize, first_, second_, missed_, rounding_)
};
using Adam = BasicAdam<false>;
using AdamW = BasicAdam<true>;
extern template class BasicAdam<false>;
extern template class BasicAdam<true>;

struct NAdamOptions {                   // of NAdam, as in PyTorch
  double lr = 2e-3;                     // learning rate
  double beta1 = 0.9, beta2 = 0.999;    // the part of the first and of the second moment that a step keeps
  double eps = 1e-8;                    // added to the root of the second moment
  double weight_decay = 0;              // times the parameter, added to the gradient
  double momentum_decay = 4e-3;         // how soon the momentum comes near beta1: it is beta1 (1 - 0.96^(t decay) / 2)
  bool decoupled_weight_decay = false;  // weight decay shrinks the parameter, as AdamW's
  bool maximize = false;                // steps go up, along the gradients
};

// Dozat 2016: Adam whose first moment looks ahead by the momentum.
class NAdam : public detail::Updated<NAdam> {
 public:
  NAdam(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit NAdam(const detail::Parameters& model, const NAdamOptions& options = {}, Groups groups = {},
                 Loc loc = Loc::current());

  Scalar lr, beta1, beta2, eps, weight_decay, momentum_decay;  // the options of these names, which a schedule may set
  Scalar steps;                                                // taken so far
  ParameterGroups groups;                                      // in the order of the constructor's list
  bool maximize;                                               // whether steps go up, along the gradients

 private:
  friend detail::Updated<NAdam>;
  void step(const detail::Parameters& parameters, Loc loc);

  bool decoupled_ = false;
  std::vector<Buffer> first_, second_;  // moments, of each parameter
  Buffer products_;                     // f64 [parameters]: of the momenta of all steps
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, beta1, beta2, eps, weight_decay, momentum_decay, steps, groups, maximize, decoupled_, first_,
               second_, products_, missed_)
};

struct RAdamOptions {                   // of RAdam, as in PyTorch
  double lr = 1e-3;                     // learning rate
  double beta1 = 0.9, beta2 = 0.999;    // the part of the first and of the second moment that a step keeps
  double eps = 1e-8;                    // added to the root of the second moment
  double weight_decay = 0;              // times the parameter, added to the gradient
  bool decoupled_weight_decay = false;  // weight decay shrinks the parameter, as AdamW's
  bool maximize = false;                // steps go up, along the gradients
};

// Liu and others 2020: Adam whose second moment is used once enough steps are in it, and by how much they are.
class RAdam : public detail::Updated<RAdam> {
 public:
  RAdam(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit RAdam(const detail::Parameters& model, const RAdamOptions& options = {}, Groups groups = {},
                 Loc loc = Loc::current());

  Scalar lr, beta1, beta2, eps, weight_decay;  // the options of these names, which a schedule may set
  Scalar steps;                                // taken so far
  ParameterGroups groups;                      // in the order of the constructor's list
  bool maximize;                               // whether steps go up, along the gradients

 private:
  friend detail::Updated<RAdam>;
  void step(const detail::Parameters& parameters, Loc loc);

  bool decoupled_ = false;
  std::vector<Buffer> first_, second_;  // moments, of each parameter
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, beta1, beta2, eps, weight_decay, steps, groups, maximize, decoupled_, first_, second_, missed_)
};

struct LionOptions {                 // of Lion
  double lr = 1e-4;                  // learning rate: how far each element moves
  double beta1 = 0.9, beta2 = 0.99;  // the part of the momentum: in the sign of a step; that a step keeps
  double weight_decay = 0;           // times lr: the part of a parameter that a step takes away
  bool maximize = false;             // steps go up, along the gradients
};

// Chen and others 2023. p = (1 - lr * weight_decay) * p - lr * sign(beta1 * m + (1 - beta1) * g);
// m = beta2 * m + (1 - beta2) * g. PyTorch has none.
class Lion : public detail::Updated<Lion> {
 public:
  Lion(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Lion(const detail::Parameters& model, const LionOptions& options = {}, Groups groups = {},
                Loc loc = Loc::current());

  Scalar lr, beta1, beta2, weight_decay;  // the options of these names, which a schedule may set
  ParameterGroups groups;                 // in the order of the constructor's list
  bool maximize;                          // whether steps go up, along the gradients

 private:
  friend detail::Updated<Lion>;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> first_;
  WEFT_MEMBERS(lr, beta1, beta2, weight_decay, groups, maximize, first_)
};

struct LambOptions {                  // of LAMB
  double lr = 1e-3;                   // learning rate
  double beta1 = 0.9, beta2 = 0.999;  // the part of the first and of the second moment that a step keeps
  double eps = 1e-6;                  // added to the root of the second moment
  double weight_decay = 1e-2;         // times the parameter, added to the direction before its length is set
  bool maximize = false;              // steps go up, along the gradients
};

// You and others 2020. The step of AdamW, weight decay in it, is as long as lr times the parameter's norm; as lr times
// its own where one of the two norms is 0. PyTorch has none.
class LAMB : public detail::Updated<LAMB> {
 public:
  LAMB(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit LAMB(const detail::Parameters& model, const LambOptions& options = {}, Groups groups = {},
                Loc loc = Loc::current());

  Scalar lr, beta1, beta2, eps, weight_decay;  // the options of these names, which a schedule may set
  Scalar steps;                                // taken so far
  ParameterGroups groups;                      // in the order of the constructor's list
  bool maximize;                               // whether steps go up, along the gradients

 private:
  friend detail::Updated<LAMB>;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> first_, second_;
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, beta1, beta2, eps, weight_decay, steps, groups, maximize, first_, second_, missed_)
};

}  // namespace weft::optim
