// Activations as layers, for Sequential, and those with gates.
#pragma once
#include "weft/nn/linear.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::nn {

using weft::celu;
using weft::elu;
using weft::gelu;
using weft::hardshrink;
using weft::hardsigmoid;
using weft::hardswish;
using weft::hardtanh;
using weft::leaky_relu;
using weft::log_sigmoid;
using weft::mish;
using weft::prelu;
using weft::relu;
using weft::relu6;
using weft::selu;
using weft::silu;
using weft::softmax;
using weft::softplus;
using weft::softshrink;
using weft::softsign;
using weft::tanhshrink;
using weft::threshold;

namespace detail {
Tensor same(At x);
}
// a * sigmoid(b) for the halves a, b of x along the axis (Dauphin and others 2017). Throws where its size is odd.
Tensor glu(At x, int axis = -1);
// x where x >= 0, else x times a slope: while training one drawn from [lower, upper) for each element, else their mean
// (Xu and others 2015). Integers become f32. Throws where lower > upper or one is not finite.
Tensor rrelu(At x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false,
             Generator& generator = default_generator());

// Layers without numbers: ReLU()(x) is relu(x).
#define WEFT_ACTIVATION(Name, function)                   \
  struct Name {                                           \
    Tensor operator()(At x) const { return function(x); } \
  };
WEFT_ACTIVATION(ReLU, weft::relu)
WEFT_ACTIVATION(ReLU6, weft::relu6)
WEFT_ACTIVATION(SELU, weft::selu)
WEFT_ACTIVATION(SiLU, weft::silu)
WEFT_ACTIVATION(Mish, weft::mish)
WEFT_ACTIVATION(Tanh, weft::tanh)
WEFT_ACTIVATION(Sigmoid, weft::sigmoid)
WEFT_ACTIVATION(Hardsigmoid, weft::hardsigmoid)
WEFT_ACTIVATION(Hardswish, weft::hardswish)
WEFT_ACTIVATION(LogSigmoid, weft::log_sigmoid)
WEFT_ACTIVATION(Softsign, weft::softsign)
WEFT_ACTIVATION(Tanhshrink, weft::tanhshrink)
WEFT_ACTIVATION(Identity, weft::nn::detail::same)
#undef WEFT_ACTIVATION

// Layers of one number, or one choice.
#define WEFT_ACTIVATION(Name, function, Type, member, value)      \
  struct Name {                                                   \
    Tensor operator()(At x) const { return function(x, member); } \
    Type member = value;                                          \
  };
WEFT_ACTIVATION(GELU, weft::gelu, weft::Gelu, form, weft::Gelu::exact)
WEFT_ACTIVATION(ELU, weft::elu, double, alpha, 1)
WEFT_ACTIVATION(CELU, weft::celu, double, alpha, 1)
WEFT_ACTIVATION(LeakyReLU, weft::leaky_relu, double, negative_slope, 0.01)
WEFT_ACTIVATION(Softshrink, weft::softshrink, double, lambda, 0.5)
WEFT_ACTIVATION(Hardshrink, weft::hardshrink, double, lambda, 0.5)
WEFT_ACTIVATION(GLU, weft::nn::glu, int, axis, -1)
WEFT_ACTIVATION(Softmax, weft::softmax, int, axis, -1)
WEFT_ACTIVATION(LogSoftmax, weft::log_softmax, int, axis, -1)
#undef WEFT_ACTIVATION

struct Softmin {  // softmax(-x) along the axis
  Tensor operator()(At x) const { return weft::softmax(-x, axis); }
  int axis = -1;
};
struct Softplus {  // weft::softplus
  Tensor operator()(At x) const { return weft::softplus(x, beta, threshold); }
  double beta = 1;        // the greater it is, the nearer the result is to relu; not 0
  double threshold = 20;  // where beta * x is above it, the result is x
};
struct Hardtanh {  // weft::hardtanh
  Tensor operator()(At x) const { return weft::hardtanh(x, min_val, max_val); }
  double min_val = -1;  // the least value of the result
  double max_val = 1;   // the greatest value of the result
};
struct Threshold {  // weft::threshold
  Tensor operator()(At x) const { return weft::threshold(x, bound, value); }
  double bound;  // elements above it stay
  double value;  // replaces the others
};
struct RReLU {  // rrelu as a layer: it draws while `training`
  Tensor operator()(At x, Generator& generator = default_generator()) const {
    return rrelu(x, lower, upper, training, generator);
  }
  double lower = 1.0 / 8;  // the least slope
  double upper = 1.0 / 3;  // the greatest slope
  bool training = true;
};
struct PReLU {  // weft::prelu, with its weight
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25, Options options = {}, Loc loc = Loc::current());
  Tensor operator()(At x) const { return weft::prelu(x, weight); }
  Param weight;  // [num_parameters]
  WEFT_MEMBERS(weight)
};

// down(silu(gate(x)) * up(x)): the feed-forward of Shazeer 2020, without biases unless asked for.
struct SwiGLU {
  SwiGLU() = delete;  // weft: it is made as nn::SwiGLU(features, hidden)
  SwiGLU(std::int64_t features, std::int64_t hidden, LinearOptions options = {.bias = false}, Loc loc = Loc::current());
  Tensor operator()(At x) const;
  Linear gate;  // features to hidden: what goes through silu
  Linear up;    // features to hidden: what is multiplied with it
  Linear down;  // hidden to features: the result
  WEFT_MEMBERS(gate, up, down)
};

}  // namespace weft::nn
