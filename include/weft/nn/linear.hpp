// The linear layer.
#pragma once
#include "weft/members.hpp"
#include "weft/random.hpp"

namespace weft::nn {

// y = x W^T + b over the last axis, rounded once: x [..., in], weight [out, in], bias [out] or none, to y [..., out].
Tensor linear(At x, const Tensor& weight, const Tensor& bias = {});
struct LinearOptions {  // of Linear
  bool bias = true;
  Options options = {};
};
// The same; both start uniform within 1 / sqrt(in), as in PyTorch.
struct Linear {
  Linear() = delete;  // weft: it is made as nn::Linear(in, out)
  Linear(std::int64_t in, std::int64_t out, LinearOptions options = {}, Loc loc = Loc::current());
  // x [..., in] to [..., out]. Throws Error on other sizes.
  Tensor operator()(At x) const;
  // Draws both anew, uniform within 1 / sqrt(in).
  void initialize(Generator& generator);

  Param weight;  // [out, in]
  Param bias;    // [out]; undefined and frozen where there is none
  WEFT_MEMBERS(weight, bias)
};

}  // namespace weft::nn
