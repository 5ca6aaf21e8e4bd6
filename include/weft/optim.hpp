// Optimizers, by PyTorch's formulas and with its defaults, and schedules of learning rates. An optimizer is plain
// state, passed by reference to a compiled step; its hyperparameters are Scalars, so a schedule (`opt.lr = ...`)
// compiles nothing anew. All but LBFGS, whose step() evaluates the loss itself, are made from a model, options, and
// groups of parameters that have options of their own:
//   optim::AdamW opt(model, {.lr = 1e-3}, {{"*.bias", {.weight_decay = 0}}});
//   opt.update(model, gradients);
// gives the parameters their new values; frozen ones and those without a gradient are left alone. update() throws Error
// where model or gradients are of another structure, or a gradient of another shape. The gradient of a parameter that
// the loss does not reach is 0, not undefined: weight decay and momentum act on it. In PyTorch, where it has none, they
// do not. Freeze the parameter to leave it as it is. Steps are counted for each parameter, as in PyTorch: a step in
// which a parameter is frozen, or has an undefined gradient, does not count for it. `steps` are those of the optimizer.
// A file of an optimizer of which a parameter has missed a step is loaded into one that was made while a parameter was
// frozen.
// `maximize` takes the gradient's negative, so that steps go up; weight decay still shrinks.
// A step of f16 and bf16 parameters is computed in f32; the parameter and the state are rounded once, to their dtypes.
// Where the gradient of an nn::Embedding with `sparse` reaches update() as value_and_grad gave it, eagerly or in one
// compiled function, SGD, Adagrad, Adam and AdamW update the rows that were read, at the cost of these rows. Of a row
// that was read twice the gradients are added up first. SGD and Adagrad give what they give of the dense gradient. Adam
// is lazy, as PyTorch's SparseAdam: other rows keep their values and moments. Its eps is added after the bias
// correction, as for dense gradients. A momentum, a weight decay that is not 0 and the other optimizers would change
// every row: they throw Error. LBFGS takes the dense gradient. What is computed of such a gradient (clipped, scaled, a
// sum with a dense one) is dense.
// An optimizer of one's own is a struct of models in step with the parameters (tree::for_each):
//   template <class M> struct Momentum {
//     explicit Momentum(const M& model) : velocity(nn::zeros_like(model)) {}
//     void update(M& model, const M& gradients) {
//       tree::for_each(model, gradients, velocity, [&](Param& p, const Param& g, Param& v) {
//         v = v * 0.9 + g;
//         p -= lr * v;
//       });
//     }
//     Scalar lr = 0.1;
//     M velocity;
//     WEFT_MEMBERS(lr, velocity)
//   };
#pragma once
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "weft/flatten.hpp"
#include "weft/ops.hpp"

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

namespace detail {
using weft::detail::LeafList;

// A model's parameters and their gradients, in the order of declaration.
class Parameters {
 public:
  template <class M>
  Parameters(const M& model) : description_(&weft::detail::Description<M>::value) {
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
  bool is_frozen(std::size_t i) const { return leaves_.leaves[positions_[i]].flag; }
  // The path of one: layers[0].weight; empty where the model is a parameter.
  std::string path(std::size_t i) const;
  // Whether the path of each is of the pattern (tree::matches).
  std::vector<std::uint8_t> named(const char* pattern) const;
  // Keeps in view those of which `kept` says so; the others are there, but undefined to zeros() and never trained.
  void keep(const std::vector<std::uint8_t>& kept) { kept_ = kept; }
  bool is_kept(std::size_t i) const { return kept_.empty() || kept_[i]; }
  // Whether steps go along the gradients and not against them.
  void set_ascent(bool ascends) { ascends_ = ascends; }
  bool ascends() const { return ascends_; }
  // A buffer of zeros for each, undefined for what is undefined.
  std::vector<Buffer> zeros(Loc loc) const;

 private:
  void select();
  void match_gradients(Loc loc);

  const weft::detail::TypeDescription* description_;
  LeafList leaves_, gradient_leaves_;
  std::vector<std::size_t> positions_;
  std::vector<std::uint8_t> kept_;
  bool ascends_ = false;
};

// update() of an optimizer that has step(parameters, loc).
template <class Optimizer>
struct Updated {
  template <class M>
  void update(M& model, const M& gradients, Loc loc = Loc::current()) {
    Parameters parameters(model, gradients, loc);
    parameters.set_ascent(static_cast<Optimizer*>(this)->maximize);
    static_cast<Optimizer*>(this)->step(parameters, loc);
  }
};
}  // namespace detail

// ---- groups of parameters ------------------------------------------------------------------------------------------

// What a group has of its own; the rest is the optimizer's.
inline constexpr double inherited = -std::numeric_limits<double>::infinity();
struct GroupOptions {                               // of a group of parameters
  double lr = inherited, weight_decay = inherited;  // instead of the optimizer's
};
// The parameters whose path is of the pattern (tree::matches), but for those of groups before this one.
struct Group {
  const char* pattern;   // of the parameters' paths
  GroupOptions options;  // what these parameters have of their own
};
using Groups = std::initializer_list<Group>;

struct ParameterGroup {           // numbers of a group, which may change at each step
  Scalar lr, weight_decay;        // of the group, where it has its own
  bool own_lr, own_weight_decay;  // whether the numbers above are in use; else the optimizer's are
};
// The groups of an optimizer, in the order in which they were given: opt.groups[0].lr = 0.1.
class ParameterGroups {
 public:
  // Throws Error where no parameter is of a group's pattern, or a number of a group's is negative.
  ParameterGroups(const detail::Parameters& parameters, Groups groups, Loc loc);
  std::size_t size() const { return list_.size(); }
  ParameterGroup& operator[](std::size_t i) { return list_[i]; }
  // Those of parameter i, given the optimizer's.
  const Scalar& lr(std::size_t i, const Scalar& all) const;
  const Scalar& weight_decay(std::size_t i, const Scalar& all) const;
  // 0 for a parameter of no group, else 1 + its group's number.
  std::size_t group_of(std::size_t i) const;
  // Throws Error where there are groups, and they were made for a model of another number of parameters.
  void require_same_model(const detail::Parameters& parameters, Loc loc) const;

 private:
  std::vector<ParameterGroup> list_;
  std::vector<std::int32_t> group_of_;  // by parameter; empty without groups
  WEFT_MEMBERS(list_, group_of_)
};

// ---- rounding ------------------------------------------------------------------------------------------------------

// How an optimizer rounds the new values of its bf16 parameters: to the nearest, or up or down at random with a chance
// that makes the mean of many roundings the number itself. A step that is less than half of the last bit is lost by the
// first and kept on average by the second, so that weights in bf16 need no f32 copy. Other dtypes go to the nearest.
class StochasticRounding {
 public:
  StochasticRounding() = default;                                         // to the nearest
  StochasticRounding(const std::optional<std::uint64_t>& seed, Loc loc);  // at random where there is a seed
  // The value in this dtype: one draw where it is rounded at random; else the value as it is.
  Tensor round(const Tensor& value, DType dtype, Loc loc);

 private:
  Buffer state_;  // as a Generator's; undefined: to the nearest
  WEFT_MEMBERS(state_)
};

// ---- optimizers ----------------------------------------------------------------------------------------------------

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

// A momentum of 0 at the start means none: no velocities are kept, and it can't be given one later.
// v = momentum * v + (1 - dampening) * (g + weight_decay * p), in the first step without the dampening;
// p -= lr * v, or lr * (g + momentum * v) for nesterov.
class SGD : public detail::Updated<SGD> {
 public:
  SGD(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit SGD(const detail::Parameters& model, const SgdOptions& options = {}, Groups groups = {},
               Loc loc = Loc::current());

  Scalar lr, momentum, weight_decay, dampening;  // the options of these names, which a schedule may set
  Scalar steps;                                  // taken so far; counted where there is a dampening
  ParameterGroups groups;                        // in the order of the constructor's list
  bool maximize;                                 // whether steps go up, along the gradients

 private:
  friend detail::Updated<SGD>;
  void step(const detail::Parameters& parameters, Loc loc);

  bool nesterov_ = false, dampened_ = false;
  std::vector<Buffer> velocity_;  // empty without momentum
  Buffer missed_;                 // i64 [parameters]: steps that each had no part in; undefined while there are none
  StochasticRounding rounding_;
  WEFT_MEMBERS(lr, momentum, weight_decay, dampening, steps, groups, maximize, nesterov_, dampened_, velocity_, missed_,
               rounding_)
};

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
  BasicAdam(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
// mean; p -= lr * g / (sqrt(v) + eps), through a velocity where there is a momentum at the start.
class RMSprop : public detail::Updated<RMSprop> {
 public:
  RMSprop(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit RMSprop(const detail::Parameters& model, const RMSpropOptions& options = {}, Groups groups = {},
                   Loc loc = Loc::current());

  Scalar lr, alpha, eps, weight_decay, momentum;  // the options of these names, which a schedule may set
  ParameterGroups groups;                         // in the order of the constructor's list
  bool maximize;                                  // whether steps go up, along the gradients

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
  Adagrad(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  Lion(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  LAMB(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  Adafactor(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  NAdam(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  RAdam(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  Adadelta(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  Rprop(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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
  ASGD(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
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

struct ShampooOptions {          // of Shampoo
  double lr = 1e-1;              // learning rate
  double momentum = 0;           // the part of the velocity that a step keeps
  double weight_decay = 0;       // times the parameter, added to the gradient
  double eps = 1e-4;             // times the identity: what the sums of products begin with
  int update_freq = 1;           // roots are computed again in every so many steps
  std::int64_t most_dim = 8192;  // an axis of more elements is left as it is
  bool maximize = false;         // steps go up, along the gradients
};

// Gupta, Koren and Singer 2018. Of a parameter of k axes, each axis has the sum of G G^T over all steps, G the gradient
// as a matrix whose rows are along the axis; the gradient is multiplied by the -1/(2k)-th power of each: L^(-1/4) G
// R^(-1/4) for a matrix. A number moves as by SGD. Powers come of eigenvalues, in f64 for f64 and in f32 else. PyTorch
// has none.
class Shampoo : public detail::Updated<Shampoo> {
 public:
  Shampoo(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Shampoo(const detail::Parameters& model, const ShampooOptions& options = {}, Groups groups = {},
                   Loc loc = Loc::current());

  Scalar lr, momentum, weight_decay;  // the options of these names, which a schedule may set
  Scalar steps;                       // taken so far
  ParameterGroups groups;             // in the order of the constructor's list
  bool maximize;                      // whether steps go up, along the gradients

 private:
  friend detail::Updated<Shampoo>;
  void step(const detail::Parameters& parameters, Loc loc);

  double eps_ = 0;
  int update_freq_ = 1;
  std::vector<std::vector<std::int64_t>> shapes_;  // of parameters
  std::vector<Buffer> velocity_;                   // empty without momentum
  std::vector<std::vector<Buffer>> sums_, roots_;  // of each parameter, by axis; undefined for those left as they are
  WEFT_MEMBERS(lr, momentum, weight_decay, steps, groups, maximize, eps_, update_freq_, shapes_, velocity_, sums_,
               roots_)
};

// What is multiplied with Muon's learning rate for a matrix [rows, columns]: sqrt(max(1, rows / columns)), or
// 0.2 sqrt(max(rows, columns)), with which the step is as long as AdamW's.
enum class MuonScale : std::uint8_t { original, match_rms_adamw };
struct MuonOptions {                           // of Muon, as in PyTorch
  double lr = 1e-3;                            // learning rate of the matrices
  double weight_decay = 0.1;                   // times lr: the part of a matrix that a step takes away
  double momentum = 0.95;                      // the part of the velocity that a step keeps
  bool nesterov = true;                        // a step looks ahead by the momentum
  int ns_steps = 5;                            // of the iteration that makes it orthogonal
  MuonScale scale = MuonScale::original;       // of the learning rate, by a matrix's sizes
  AdamWOptions others = {};                    // of what is not a matrix, and of what is named so
  std::vector<const char*> others_named = {};  // patterns of paths (tree::matches) of what AdamW is to update
  bool maximize = false;                       // steps go up, along the gradients
};

// Jordan and others 2024: a matrix moves by its momentum made orthogonal, in `ns_steps` steps of an iteration after
// Newton and Schulz, which are computed in the parameter's dtype, f16 and bf16 in f32 (PyTorch: all in bf16). What has
// not two axes, and what is named by `others_named` (an embedding, the last layer), is updated by AdamW.
class Muon {
 public:
  Muon(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Muon(detail::Parameters model, const MuonOptions& options = {}, Groups groups = {},
                Loc loc = Loc::current());
  // One step. Throws Error where model or gradients are of another structure, or a gradient of another shape.
  template <class M>
  void update(M& model, const M& gradients, Loc loc = Loc::current()) {
    step(detail::Parameters(model, gradients, loc), detail::Parameters(model, gradients, loc), loc);
  }

  bool maximize;                      // whether steps go up, along the gradients
  Scalar lr, weight_decay, momentum;  // the options of these names, which a schedule may set
  ParameterGroups groups;             // of the matrices; those of what AdamW updates are others.groups
  AdamW others;                       // of what is not a matrix, and its own groups

 private:
  void step(detail::Parameters matrices, detail::Parameters others, Loc loc);

  bool nesterov_;
  int ns_steps_;
  MuonScale scale_;
  std::vector<std::uint8_t> is_matrix_;
  std::vector<Buffer> momentum_;
  WEFT_MEMBERS(maximize, lr, weight_decay, momentum, groups, others, nesterov_, ns_steps_, scale_, is_matrix_,
               momentum_)
};

// ---- L-BFGS --------------------------------------------------------------------------------------------------------

enum class LineSearch : std::uint8_t { none, strong_wolfe };  // how LBFGS finds the length of a step
struct LbfgsOptions {                                         // of LBFGS, as in PyTorch
  double lr = 1;                                 // the length of a step without a search, the first one tried with
  int max_iter = 20;                             // most iterations of a step
  int max_eval = 0;                              // most evaluations of a step; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;                  // a step ends where no element of the gradient is larger
  double tolerance_change = 1e-9;                // and where no parameter changes by more, nor the loss
  int history_size = 100;                        // changes that the inverse Hessian is estimated from
  LineSearch line_search_fn = LineSearch::none;  // how the length of an iteration's move is found
};

namespace detail {
// A loss, and its gradient as one vector of all parameters, 0 where nothing trains.
struct LossAndGradient {
  double loss;
  Tensor gradient;
};
// The closure of a step, by reference.
struct Evaluation {
  void* context;
  LossAndGradient (*call)(void* context);
};
}  // namespace detail

// Liu and Nocedal 1989, for losses that are not drawn anew at each evaluation. A step makes up to max_iter iterations,
// with up to max_eval evaluations (and one), along the gradient times an inverse Hessian that is estimated from
// the last history_size changes of parameters and gradients. Each moves by lr, the very first by lr * min(1, 1 / sum
// |gradient|); or, tried with that length first, to a point that meets the strong Wolfe conditions (Nocedal and Wright
// 2006, algorithms 3.5 and 3.6): a decrease of 1e-4 of the slope times the length, and a slope of at most 0.9 of the
// one at the start, in magnitude. A step ends earlier where the gradient is nowhere above tolerance_grad, where
// parameters or the loss change by less than tolerance_change, and where the slope along the direction is above
// -tolerance_change. Vectors are of f64 where a parameter is, else of f32. There are no groups. What it keeps is saved
// with io::save.
class LBFGS {
 public:
  // Throws Error where an option is negative, NaN or infinite, or a count that must be positive is not.
  LBFGS(const detail::Parameters&, double) = delete;  // weft: options have names: {.lr = 1e-3}
  explicit LBFGS(const detail::Parameters& model, const LbfgsOptions& options = {}, Loc loc = Loc::current());
  // closure(model) gives what value_and_grad does; it may be a compiled function. Gives the parameters their new values
  // and returns the value of the first evaluation. It reads numbers to decide, so it throws Error inside a compiled
  // function; also where the optimizer was made for another model.
  template <class M, class F>
  auto step(M& model, F&& closure, Loc loc = Loc::current()) {
    auto first = closure(model);
    constexpr bool fits = requires { first.value, first.gradients; };
    static_assert(
        fits,
        "weft: the closure of LBFGS::step must return what value_and_grad does, a value and gradients: a loss "
        "alone does not say where to go");
    if constexpr (fits) {
      const auto result_of = [&](const auto& result) {
        return loss_and_gradient(detail::Parameters(model, result.gradients, loc), number_of(result.value), loc);
      };
      auto evaluate = [&] { return result_of(closure(model)); };
      iterate(detail::Parameters(model, first.gradients, loc), result_of(first),
              {&evaluate, [](void* context) { return (*static_cast<decltype(evaluate)*>(context))(); }}, loc);
      return std::move(first.value);
    }
  }

  Scalar lr;                                     // these and the next are the options of their names
  int max_iter, max_eval;                        // may be changed between steps
  double tolerance_grad, tolerance_change;       // may be changed between steps
  LineSearch line_search_fn;                     // may be changed between steps
  std::int64_t iterations = 0, evaluations = 0;  // so far, in all steps

 private:
  template <class Value>
  static const Tensor& number_of(const Value& value) {
    detail::LeafList leaves;
    weft::detail::flatten(value, leaves);
    return leaves.leaves[0].tensor();
  }
  detail::LossAndGradient loss_and_gradient(const detail::Parameters& parameters, const Tensor& loss, Loc loc) const;
  void iterate(const detail::Parameters& parameters, detail::LossAndGradient at, detail::Evaluation evaluate, Loc loc);
  void remember(const Tensor& gradient);
  Tensor direction(const Tensor& gradient, Loc loc) const;

  // Of the last `pairs_` changes, oldest first: of the parameters, of the gradient, and 1 / their product.
  std::vector<Buffer> steps_, changes_;
  std::vector<double> inverse_products_;
  std::int64_t pairs_ = 0;
  double scale_ = 1, length_ = 0;         // of the first inverse Hessian; of the last step along direction_
  Buffer direction_, previous_gradient_;  // of the last iteration
  WEFT_MEMBERS(lr, max_iter, max_eval, tolerance_grad, tolerance_change, line_search_fn, iterations, evaluations,
               steps_, changes_, inverse_products_, pairs_, scale_, length_, direction_, previous_gradient_)
};

// ---- learning rates ------------------------------------------------------------------------------------------------
// Functions of the number of steps taken, from 0, by PyTorch's closed formulas. With an optimizer's counter they may be
// part of a compiled step: opt.lr = optim::cosine_annealing_lr(1e-3, opt.steps, 1000). They throw Error on numbers
// that are not finite, and on counts of steps that are not positive.

// From lr down to eta_min along half a period of the cosine, of t_max steps; afterwards up again.
Scalar cosine_annealing_lr(const Scalar& lr, const Scalar& step, double t_max, double eta_min = 0,
                           Loc loc = Loc::current());
// lr times a factor that goes from start_factor to end_factor in a line, in total_iters steps, and stays: a warmup.
Scalar linear_lr(const Scalar& lr, const Scalar& step, double start_factor = 1.0 / 3, double end_factor = 1,
                 double total_iters = 5, Loc loc = Loc::current());
// lr times gamma after every step_size steps.
Scalar step_lr(const Scalar& lr, const Scalar& step, double step_size, double gamma = 0.1, Loc loc = Loc::current());
// lr times gamma from each of these steps on.
Scalar multi_step_lr(const Scalar& lr, const Scalar& step, const std::vector<double>& milestones, double gamma = 0.1,
                     Loc loc = Loc::current());
// lr times gamma after every step.
Scalar exponential_lr(const Scalar& lr, const Scalar& step, double gamma, Loc loc = Loc::current());
struct OneCycleOptions {          // of one_cycle_lr
  double pct_start = 0.3;         // the part of the steps that goes up
  double div_factor = 25;         // max_lr / the first rate
  double final_div_factor = 1e4;  // the first rate / the last one
};
// From max_lr / div_factor up to max_lr and down to max_lr / (div_factor * final_div_factor), along cosines, in
// total_steps steps (Smith and Topin 2017); afterwards it stays. The way up ends at step pct_start * total_steps - 1,
// as PyTorch's; where that is before step 0 the first step is on the way down. Throws Error where it is step 0 itself,
// or total_steps is less than 1, or pct_start not from 0 to 1.
Scalar one_cycle_lr(const Scalar& max_lr, const Scalar& step, double total_steps, const OneCycleOptions& options = {},
                    Loc loc = Loc::current());

}  // namespace weft::optim
