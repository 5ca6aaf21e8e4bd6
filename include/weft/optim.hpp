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
#include "weft/optim/adam.hpp"
#include "weft/optim/adaptive.hpp"
#include "weft/optim/lbfgs.hpp"
#include "weft/optim/matrices.hpp"
#include "weft/optim/parameters.hpp"
#include "weft/optim/schedules.hpp"
#include "weft/optim/sgd.hpp"
