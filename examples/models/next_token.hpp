// What decoders of text share: the choice of the next token.
#pragma once
#include <weft/weft.hpp>

namespace models {

using namespace weft;

// Draws the next token of logits [N, L, vocab_size]: [N, 1], from the `top_k` likeliest; at temperature 0 the
// likeliest, of several the first. Computed in f32, as a small temperature takes a quotient of logits out of the range
// of 16-bit floats, and as a difference from the greatest logit, which no temperature makes +inf.
inline Tensor next_token(const Tensor& logits, const Scalar& temperature, std::int64_t top_k, Generator& generator) {
  const auto [likely, tokens] = topk(cast(select(logits, 1, -1), DType::f32), top_k);
  const Tensor greatest = slice(likely, -1, 0, 1), likeliest = slice(tokens, -1, 0, 1);
  const Tensor chances = softmax((likely - greatest) / maximum(temperature, 1e-30), -1);
  const Tensor drawn = gather(tokens, -1, multinomial(chances, 1, false, generator));
  return where(temperature > 0, drawn, likeliest);
}

}  // namespace models
