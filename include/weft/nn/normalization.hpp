// Normalizations and distances. Of f16 and bf16 all are computed in f32 and rounded once. A weight or a bias that is
// undefined is left out. Throw Error on a tensor that is not floating and on shapes that do not fit.
#pragma once
#include <vector>

#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::nn {

// (x - mean) / sqrt(variance + eps) * weight + bias over the last axes, which are those of the weight (Ba and others
// 2016). The variance has no correction. x [..., n], weight and bias [n], or of several axes.
Tensor layer_norm(At x, At weight, At bias, double eps = 1e-5);
Tensor layer_norm(At x, Sizes normalized_shape, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
// x / sqrt(mean(x^2) + eps) * weight over the last axes, which are those of the weight (Zhang and Sennrich 2019).
// A negative eps is the epsilon of f32, or of f64 for an x of f64.
Tensor rms_norm(At x, const Tensor& weight, double eps = -1);
Tensor rms_norm(At x, Sizes normalized_shape, const Tensor& weight = {}, double eps = -1);
// x [N, C, ...]: each group of C / num_groups channels of a sample has mean 0 and variance 1; weight and bias [C] (Wu
// and He 2018). Throws where an axis but the first has no elements, and where the batch is one number a group.
Tensor group_norm(At x, std::int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
// x [N, C, ...]: each channel has mean 0 and variance 1 over the batch (Ioffe and Szegedy 2015); weight and bias [C].
// In training, and where running_mean is undefined, the statistics are those of x; else the running ones [C]. Training
// replaces the running ones by running * (1 - momentum) + momentum * those of x, the variance with the correction of 1.
// A batch of nothing leaves them. Throws in training where a channel has one number.
Tensor batch_norm(At x, Tensor& running_mean, Tensor& running_var, const Tensor& weight = {}, const Tensor& bias = {},
                  bool training = false, double momentum = 0.1, double eps = 1e-5);
// The same for each channel of each sample (Ulyanov and others 2016). The running statistics are means over samples.
Tensor instance_norm(At x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
Tensor instance_norm(At x, Tensor& running_mean, Tensor& running_var, const Tensor& weight = {},
                     const Tensor& bias = {}, bool use_input_stats = true, double momentum = 0.1, double eps = 1e-5);
// x / (k + alpha * m)^beta, m the mean of squares over `size` neighbours along axis 1, zeros outside (Krizhevsky and
// others 2012).
Tensor local_response_norm(At x, std::int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);

// x divided by its p-norm along the axis, or by eps where the norm is less.
Tensor normalize(At x, double p = 2, int axis = 1, double eps = 1e-12);
// The dot product of both along the axis, each divided by its length, or by eps where that is less. Shapes broadcast.
Tensor cosine_similarity(At a, At b, int axis = 1, double eps = 1e-8);
// The p-norm of a - b + eps along the last axis. Shapes broadcast.
Tensor pairwise_distance(At a, At b, double p = 2, double eps = 1e-6, bool keepdim = false);
// A number for keepdim is refused with a sentence.
template <class Number>
requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>) Tensor
    pairwise_distance(At, At, double, double, Number) {
  static_assert(!sizeof(Number), "weft: keepdim is a bool, as in pairwise_distance(a, b, 2, 1e-6, true)");
  return {};
}
// The p-norms of the differences of each two rows of x [n, k], [n (n - 1) / 2]: (0, 1), (0, 2), ..., (1, 2), ... The
// derivative of a norm of 0 is 0. Throws Error on other shapes, on integers, and where p is negative.
Tensor pdist(At x, double p = 2);

struct LayerNormOptions {          // of LayerNorm
  double eps = 1e-5;               // added to the variance; not negative
  bool elementwise_affine = true;  // whether there are a weight and a bias, which start at 1 and 0
  bool bias = true;                // false: a weight alone
  Options options = {};
};
struct LayerNorm {       // layer_norm, with its weight and bias
  LayerNorm() = delete;  // weft: it is made as nn::LayerNorm(size)
  LayerNorm(Sizes normalized_shape, LayerNormOptions options = {}, Loc loc = Loc::current());
  LayerNorm(std::int64_t size, LayerNormOptions options = {}, Loc loc = Loc::current());
  Tensor operator()(At x) const;
  // Sets the weight to 1 and the bias to 0; draws nothing.
  void initialize(Generator& generator);

  std::vector<std::int64_t> normalized_shape;
  Param weight;  // [normalized_shape...]; undefined and frozen where there is none
  Param bias;    // [normalized_shape...]; undefined and frozen where there is none
  double eps;
  WEFT_MEMBERS(normalized_shape, weight, bias, eps)
};

struct RMSNormOptions {  // of RMSNorm
  double eps = -1;       // added to the mean of squares; negative: the epsilon of f32, or of f64 for an x of f64
  bool elementwise_affine = true;
  Options options = {};
};
struct RMSNorm {       // rms_norm, with its weight
  RMSNorm() = delete;  // weft: it is made as nn::RMSNorm(size)
  RMSNorm(Sizes normalized_shape, RMSNormOptions options = {}, Loc loc = Loc::current());
  RMSNorm(std::int64_t size, RMSNormOptions options = {}, Loc loc = Loc::current());
  Tensor operator()(At x) const;
  // Sets the weight to 1; draws nothing.
  void initialize(Generator& generator);

  std::vector<std::int64_t> normalized_shape;
  Param weight;  // [normalized_shape...]; undefined and frozen where there is none
  double eps;    // added to the mean of squares; negative: the epsilon of f32, or of f64 for an x of f64
  WEFT_MEMBERS(normalized_shape, weight, eps)
};

struct GroupNormOptions {  // of GroupNorm
  double eps = 1e-5;       // added to the variance; not negative
  bool affine = true;
  Options options = {};
};
struct GroupNorm {       // group_norm, with its weight and bias
  GroupNorm() = delete;  // weft: it is made as nn::GroupNorm(num_groups, num_channels)
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {},
            Loc loc = Loc::current());
  Tensor operator()(At x) const;
  // Sets the weight to 1 and the bias to 0; draws nothing.
  void initialize(Generator& generator);

  Param weight;               // [num_channels]; undefined and frozen where there is none
  Param bias;                 // [num_channels]; undefined and frozen where there is none
  std::int64_t num_groups;    // groups of channels with statistics of their own; divides num_channels
  std::int64_t num_channels;  // the size of axis 1 of x
  double eps;
  WEFT_MEMBERS(weight, bias, num_groups, num_channels, eps)
};

struct BatchNormOptions {  // of BatchNorm1d, 2d, 3d
  double eps = 1e-5;       // added to the variance; not negative
  double momentum = 0.1;   // the share of a batch in the running statistics, to 1; negative: averages of all batches
  bool affine = true;
  bool track_running_stats = true;
  Options options = {};
};
// Of `spatial` axes after [N, C]; BatchNorm1d takes [N, C] too. A model that is trained is not const: running
// statistics change. A const one in training is an error, unless it has none.
template <int spatial>
struct BatchNorm {
  BatchNorm() = delete;  // weft: it is made as nn::BatchNorm(num_features)
  BatchNorm(std::int64_t num_features, BatchNormOptions options = {}, Loc loc = Loc::current());
  // Throws Error on an x of other axes or channels. In training the running statistics, where there are any, change.
  Tensor operator()(At x);
  // Throws Error in training where there are running statistics.
  Tensor operator()(At x) const;
  // Sets weight and running variance to 1, bias, running mean and count of batches to 0; draws nothing.
  void initialize(Generator& generator);

  Param weight;                // [C]; undefined and frozen where there is none
  Param bias;                  // [C]; undefined and frozen where there is none
  Buffer running_mean;         // [C]; undefined where no statistics are tracked
  Buffer running_var;          // [C], with the correction of 1; undefined where no statistics are tracked
  Buffer num_batches_tracked;  // i64 []: batches of training so far; undefined where no statistics are tracked
  std::int64_t num_features;   // C
  double eps;                  // added to the variance
  double momentum;             // the share of a batch in the running statistics; negative: averages of all batches
  bool training =
      true;  // whether statistics are those of x, which the running ones follow; nn::train and nn::eval set it
  WEFT_MEMBERS(weight, bias, running_mean, running_var, num_batches_tracked, num_features, eps, momentum, training)
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

struct InstanceNormOptions {  // of InstanceNorm1d, 2d, 3d
  double eps = 1e-5;          // added to the variance; not negative
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
  Options options = {};
};
// Of `spatial` axes after [N, C] or [C]. As BatchNorm where it tracks running statistics.
template <int spatial>
struct InstanceNorm {
  InstanceNorm() = delete;  // weft: it is made as nn::InstanceNorm(num_features)
  InstanceNorm(std::int64_t num_features, InstanceNormOptions options = {}, Loc loc = Loc::current());
  // Throws Error on an x of other axes or channels. In training the running statistics, where there are any, change.
  Tensor operator()(At x);
  // Throws Error in training where there are running statistics.
  Tensor operator()(At x) const;
  // Sets weight and running variance to 1, bias, running mean and count of batches to 0; draws nothing.
  void initialize(Generator& generator);

  Param weight;                // [C]; undefined and frozen where there is none
  Param bias;                  // [C]; undefined and frozen where there is none
  Buffer running_mean;         // [C]; undefined where no statistics are tracked
  Buffer running_var;          // [C], with the correction of 1; undefined where no statistics are tracked
  Buffer num_batches_tracked;  // i64 []: batches of training so far; undefined where no statistics are tracked
  std::int64_t num_features;   // C
  double eps;                  // added to the variance
  double momentum;             // the share of a batch in the running statistics; negative: averages of all batches
  bool training =
      true;  // whether statistics are those of x, which the running ones follow; nn::train and nn::eval set it
  WEFT_MEMBERS(weight, bias, running_mean, running_var, num_batches_tracked, num_features, eps, momentum, training)
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

}  // namespace weft::nn
