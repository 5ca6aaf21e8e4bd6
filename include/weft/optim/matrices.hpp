// Shampoo and Muon: steps of a matrix as a matrix.
#pragma once
#include "weft/optim/adam.hpp"

namespace weft::optim {

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
// R^(-1/4) for a matrix. A number moves as by SGD. A momentum of 0 at the start means none, as of SGD. Powers come of
// eigenvalues, in f64 for f64 and in f32 else. PyTorch has none.
class Shampoo : public detail::Updated<Shampoo> {
 public:
  Shampoo(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
  // Throws Error where an option is out of its range, or no parameter is of a group's pattern.
  explicit Shampoo(const detail::Parameters& model, const ShampooOptions& options = {}, Groups groups = {},
                   Loc loc = Loc::current());

  Scalar lr, weight_decay;     // the options of these names, which a schedule may set
  detail::MaybeZero momentum;  // the same
  Scalar steps;                // taken so far
  ParameterGroups groups;      // in the order of the constructor's list
  bool maximize;               // whether steps go up, along the gradients

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
  Muon(const detail::Parameters&, detail::Rate auto) = delete;  // weft: options have names: {.lr = 1e-3}
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

}  // namespace weft::optim
