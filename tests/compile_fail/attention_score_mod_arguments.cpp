// expect: a score_mod is a function of the score and of the places of batch, head, query and key
#include "weft/nn/attention.hpp"

using namespace weft;

Tensor attend(const Tensor& q) {
  return nn::scaled_dot_product_attention(q, q, q, {.score_mod = [](auto score) { return 30 * tanh(score / 30); }});
}
