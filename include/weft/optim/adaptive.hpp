// RMSprop, Adagrad, Adadelta and Adafactor: steps divided by a mean or a sum of squares.
#pragma once
#include "weft/optim/parameters.hpp"

namespace weft::optim {

struct RMSpropOptions {     // of RMSprop, as in PyTorch
  double lr = 1e-2;         // learning rate
  double alpha = 0.99;      // the part of the mean of squares that a step keeps
  double eps = 1e-8;        // added to the root
  double weight_decay = 0;  // times the parameter, added to the gradient
  double momentum = 0;      // the part of the velocity that a step keeps
  bool centered = false;    // divides by the deviation from the gradient's mean, not by the root of squares
  bool maximize = false;    // steps go up, along the gradients
};

// Hinton 2012; centered: Graves 2013. v = alpha * v + (1 - alpha) * g^2, of which centered takes off the square of g's
// mean; p -= lr * g / (sqrt(v) + eps), through a velocity where there is a momentum. One of 0 at the start means none:
// no velocities are kept, and update() throws Error where it has one later.
class RMSprop : public detail::Updated<RMSprop> {
 public:
  RMSprop(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit RMSprop(const detail::Parameters& model, const RMSpropOptions& options = {}, Groups groups = {},
                   Loc loc = Loc::current());

  Scalar lr, alpha, eps, weight_decay;  // the options of these names, which a schedule may set
  detail::MaybeZero momentum;           // the same
  ParameterGroups groups;               // in the order of the constructor's list
  bool maximize;                        // whether steps go up, along the gradients

 private:
  friend detail::Updated<RMSprop>;
  void step(const detail::Parameters& parameters, Loc loc);

  bool centered_ = false;
  std::vector<Buffer> square_, mean_, velocity_;
  WEFT_MEMBERS(lr, alpha, eps, weight_decay, momentum, groups, maximize, centered_, square_, mean_, velocity_)
};

struct AdagradOptions {                  // of Adagrad, as in PyTorch
  double lr = 1e-2;                      // learning rate
  double lr_decay = 0;                   // after n steps the rate is lr / (1 + n * lr_decay)
  double weight_decay = 0;               // times the parameter, added to the gradient
  double initial_accumulator_value = 0;  // the sum of squares before the first step
  double eps = 1e-10;                    // added to the root
  bool maximize = false;                 // steps go up, along the gradients
};

// Duchi and others 2011. v += g^2; p -= lr / (1 + (steps - 1) * lr_decay) * g / (sqrt(v) + eps).
class Adagrad : public detail::Updated<Adagrad> {
 public:
  Adagrad(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Adagrad(const detail::Parameters& model, const AdagradOptions& options = {}, Groups groups = {},
                   Loc loc = Loc::current());

  Scalar lr, lr_decay, weight_decay, eps;  // the options of these names, which a schedule may set
  Scalar steps;                            // taken so far
  ParameterGroups groups;                  // in the order of the constructor's list
  bool maximize;                           // whether steps go up, along the gradients

 private:
  friend detail::Updated<Adagrad>;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> square_;
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, lr_decay, weight_decay, eps, steps, groups, maximize, square_, missed_)
};

struct AdadeltaOptions {    // of Adadelta, as in PyTorch
  double lr = 1;            // times the change that the two means give
  double rho = 0.9;         // the part of the means of squares that a step keeps
  double eps = 1e-6;        // added to the means below the roots
  double weight_decay = 0;  // times the parameter, added to the gradient
  bool maximize = false;    // steps go up, along the gradients
};

// Zeiler 2012. v = rho * v + (1 - rho) * g^2; change = sqrt(u + eps) / sqrt(v + eps) * g; u = rho * u + (1 - rho) *
// change^2; p -= lr * change.
class Adadelta : public detail::Updated<Adadelta> {
 public:
  Adadelta(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Adadelta(const detail::Parameters& model, const AdadeltaOptions& options = {}, Groups groups = {},
                    Loc loc = Loc::current());

  Scalar lr, rho, eps, weight_decay;  // the options of these names, which a schedule may set
  ParameterGroups groups;             // in the order of the constructor's list
  bool maximize;                      // whether steps go up, along the gradients

 private:
  friend detail::Updated<Adadelta>;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> square_, change_;  // means of squares, of gradients and of changes
  WEFT_MEMBERS(lr, rho, eps, weight_decay, groups, maximize, square_, change_)
};

struct AdafactorOptions {     // of Adafactor, as in PyTorch
  double lr = 1e-2;           // the longest relative step
  double beta2_decay = -0.8;  // step n keeps 1 - n^beta2_decay of the means of squares
  double eps2 = 1e-3;         // the least size of a parameter, to which a step is relative
  double d = 1;               // a longer update (its root mean square) is scaled down to this
  double weight_decay = 0;    // times lr: the part of a parameter that a step takes away
  double eps1 = 0;  // the least mean of squares; 0: the distance from 1 to the next number of the parameter's dtype
  bool maximize = false;  // steps go up, along the gradients
};

// Shazeer and Stern 2018, as PyTorch has it: lr is the longest relative step. Of a parameter of two axes or more the
// squares' means of rows and columns are kept, not the squares.
class Adafactor : public detail::Updated<Adafactor> {
 public:
  Adafactor(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Adafactor(const detail::Parameters& model, const AdafactorOptions& options = {}, Groups groups = {},
                     Loc loc = Loc::current());

  Scalar lr, beta2_decay, eps1, eps2, d, weight_decay;  // the options of these names, which a schedule may set
  Scalar steps;                                         // taken so far
  ParameterGroups groups;                               // in the order of the constructor's list
  bool maximize;                                        // whether steps go up, along the gradients

 private:
  friend detail::Updated<Adafactor>;
  void step(const detail::Parameters& parameters, Loc loc);

  std::vector<Buffer> rows_, columns_, square_;
  Buffer missed_;  // i64 [parameters]: steps that each had no part in; undefined while there are none
  WEFT_MEMBERS(lr, beta2_decay, eps1, eps2, d, weight_decay, steps, groups, maximize, rows_, columns_, square_, missed_)
};

}  // namespace weft::optim
