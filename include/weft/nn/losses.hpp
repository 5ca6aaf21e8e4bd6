// Losses. Names, formulas and defaults are PyTorch's. Unless a loss says otherwise its operands have equal shapes,
// integers become floats, and f16 and bf16 are computed in f32 and rounded once. All throw Error where shapes or dtypes
// do not fit.
#pragma once
#include <optional>

#include "weft/ops.hpp"

namespace weft::nn {

// What is made of the loss of each element, or of each row: its mean (NaN of none), its sum, or all as they are.
enum class Reduction : std::uint8_t { mean, sum, none };

Tensor l1_loss(At input, At target, Reduction reduction = Reduction::mean);   // |input - target|
Tensor mse_loss(At input, At target, Reduction reduction = Reduction::mean);  // (input - target)^2
struct SmoothL1Options {                                                      // of smooth_l1_loss
  double beta = 1;  // below this distance the loss is a square; 0: nowhere. Not negative
  Reduction reduction = Reduction::mean;
};
// With d = |input - target|: d^2 / (2 beta) below beta, else d - beta / 2.
Tensor smooth_l1_loss(At input, At target, SmoothL1Options options = {});
struct HuberOptions {  // of huber_loss
  double delta = 1;    // below this distance the loss is a square, above it a line; positive
  Reduction reduction = Reduction::mean;
};
// d^2 / 2 below delta, else delta (d - delta / 2) (Huber 1964).
Tensor huber_loss(At input, At target, HuberOptions options = {});

// ---- classes -------------------------------------------------------------------------------------------------------

struct CrossEntropyOptions {                      // of cross_entropy
  Tensor weight = {};                             // of each class, [classes]; the mean is over the labels' weights
  std::optional<std::int64_t> ignore_index = {};  // rows of this label count nothing; it may be outside of the classes
  double label_smoothing = 0;                     // this share of each label is spread over all classes
  int axis = -1;                                  // of the classes. PyTorch has them on axis 1
  Reduction reduction = Reduction::mean;
};
// -log softmax(logits)[label] over the last axis: logits [..., classes], labels integers [...], a mean over all. Or
// `labels` are probabilities, floating numbers of the logits' shape: -sum(labels * log softmax(logits)). A label
// outside of [0, classes) is an error; none is ignored unless ignore_index says so (-100, as PyTorch has it).
Tensor cross_entropy(At logits, At labels);
Tensor cross_entropy(At logits, At labels, const CrossEntropyOptions& options);
struct LinearCrossEntropyOptions {                // of linear_cross_entropy
  Tensor bias = {};                               // [classes]; undefined: none
  std::optional<std::int64_t> ignore_index = {};  // rows of this label count nothing
  std::int64_t chunk = 512;                       // rows whose logits are in memory at a time; positive
  Reduction reduction = Reduction::mean;          // the mean is over the rows that count
};
// cross_entropy(input weight^T + bias, labels) for input [..., n], weight [classes, n] and labels [...], a chunk of
// rows after the other: neither the value nor the gradient has all logits in memory. The gradient computes them again.
// f16 and bf16 are multiplied in their dtype, and all else is in f32; under autocast the result is f32. Throws Error
// where shapes do not fit; a label outside of [0, classes) is an error.
Tensor linear_cross_entropy(At input, At weight, At labels, const LinearCrossEntropyOptions& options = {});
struct NllOptions {    // of nll_loss
  Tensor weight = {};  // of each class, [classes]; the mean is over the labels' weights
  std::optional<std::int64_t> ignore_index = {};
  int axis = -1;  // of the classes. PyTorch has them on axis 1
  Reduction reduction = Reduction::mean;
};
// -log_probs[label], where cross_entropy takes logits.
Tensor nll_loss(At log_probs, At labels, const NllOptions& options = {});

struct BinaryCrossEntropyOptions {  // of binary_cross_entropy
  Tensor weight = {};               // of each element; broadcasts
  Tensor pos_weight = {};           // of the targets that are 1, with logits alone; broadcasts
  Reduction reduction = Reduction::mean;
};
// -(target log(input) + (1 - target) log(1 - input)), logarithms not below -100. NaN where input is
// not in [0, 1], which PyTorch refuses.
Tensor binary_cross_entropy(At input, At target, const BinaryCrossEntropyOptions& options = {});
// The same of sigmoid(input), without overflow.
Tensor binary_cross_entropy_with_logits(At input, At target, const BinaryCrossEntropyOptions& options = {});

struct KlOptions {                        // of kl_div
  bool log_target = false;                // target holds logarithms too
  bool batchmean = false;                 // the sum by the size of axis 0, in the place of `reduction`
  Reduction reduction = Reduction::mean;  // over all elements
};
// target (log(target) - input), 0 where the target is 0; `input` holds logarithms (Kullback and Leibler 1951).
Tensor kl_div(At input, At target, KlOptions options = {});

// mean over the classes (the last axis) of -(target log(sigmoid(input)) + (1 - target) log(sigmoid(-input))), [..., C]
// to a loss for [...]. `weight` [C] or undefined.
Tensor multilabel_soft_margin_loss(At input, At target, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean);
// The sum over labels j and all other classes i of max(0, 1 - input[j] + input[i]) / C, where the labels of a row are
// those before its first negative number: input [N, C] or [C], labels integers of its shape. A label of C or more is an
// error.
Tensor multilabel_margin_loss(At input, At labels, Reduction reduction = Reduction::mean);
struct MultiMarginOptions {  // of multi_margin_loss
  double margin = 1;         // by how much the label's score should exceed the others
  int p = 1;                 // the power of what is missing to that: 1 or 2
  Tensor weight = {};        // of each class, [C]
  Reduction reduction = Reduction::mean;
};
// weight[label] times the sum over the other classes of max(0, margin - input[label] + input[i])^p / C: input [N, C],
// labels [N].
Tensor multi_margin_loss(At input, At labels, const MultiMarginOptions& options = {});

// ---- margins: targets are 1 or -1 ----------------------------------------------------------------------------------

// log(1 + exp(-target input)).
Tensor soft_margin_loss(At input, At target, Reduction reduction = Reduction::mean);
struct MarginOptions {  // of losses with a margin
  double margin = 0;    // as the formula of the loss has it
  Reduction reduction = Reduction::mean;
};
// max(0, -target (first - second) + margin).
Tensor margin_ranking_loss(At first, At second, At target, MarginOptions options = {});
// input where the target is 1, max(0, margin - input) where it is -1.
Tensor hinge_embedding_loss(At input, At target, MarginOptions options = {.margin = 1});
// Of the cosine of two vectors of the last axis: 1 - cos where the target is 1, max(0, cos - margin) where it is -1.
// [..., n] x [..., n] x [...].
Tensor cosine_embedding_loss(At first, At second, At target, MarginOptions options = {});
struct TripletOptions {  // of triplet_margin_loss
  double margin = 1;     // by how much the negative's distance should exceed the positive's; positive
  double p = 2;          // of the norm that is the distance; positive
  double eps = 1e-6;     // added to each difference of two elements
  bool swap = false;     // the lesser distance, from the anchor or from the positive one, counts as the negative's
  Reduction reduction = Reduction::mean;
};
// max(0, |anchor - positive + eps|_p - |anchor - negative + eps|_p + margin) over the last axis: [..., n] to [...].
Tensor triplet_margin_loss(At anchor, At positive, At negative, TripletOptions options = {});

// ---- likelihoods ---------------------------------------------------------------------------------------------------

struct PoissonOptions {   // of poisson_nll_loss
  bool log_input = true;  // input holds logarithms of rates
  bool full = false;      // with Stirling's approximation of log(target!) where the target is above 1
  double eps = 1e-8;      // added to a rate before its logarithm
  Reduction reduction = Reduction::mean;
};
// exp(input) - target input; or input - target log(input + eps).
Tensor poisson_nll_loss(At input, At target, PoissonOptions options = {});
struct GaussianOptions {  // of gaussian_nll_loss
  bool full = false;      // with log(2 pi) / 2
  double eps = 1e-6;      // the least variance
  Reduction reduction = Reduction::mean;
};
// (log(variance) + (input - target)^2 / variance) / 2. The variance has the input's shape, or is one for each row:
// [..., 1] or
// [...]. A negative variance is an error when the loss is computed.
Tensor gaussian_nll_loss(At input, At target, At variance, GaussianOptions options = {});

struct CtcOptions {                       // of ctc_loss
  std::int64_t blank = 0;                 // the label, in [0, C), of a step that gives out nothing
  bool zero_infinity = false;             // a text that has no path costs 0, and has no gradient
  Reduction reduction = Reduction::mean;  // the mean is of the losses by their targets' lengths
};
// -log of the probability that the labels come out, over all ways to spread them in time (Graves and others 2006):
// log_probs [T, N, C], targets integers [N, S], of which row n has target_lengths[n] at its front, and input_lengths[n]
// <= T steps count; lengths are integers [N]. Infinite where the labels do not fit into the steps. Targets outside of
// [0, C), as far as they count, and lengths that do not fit are errors.
Tensor ctc_loss(At log_probs, At targets, At input_lengths, At target_lengths, CtcOptions options = {});

}  // namespace weft::nn
