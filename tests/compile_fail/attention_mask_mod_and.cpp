// expect: a mask_mod returns a bool Tensor: write & for &&, | for || and ~ for !
#include "weft/nn/attention.hpp"

using namespace weft;

Tensor attend(const Tensor& q, const Tensor& document) {
  return nn::scaled_dot_product_attention(
      q, q, q, {.mask_mod = [&](auto, auto, auto i, auto j) { return i >= j && document[i] == document[j]; }});
}
