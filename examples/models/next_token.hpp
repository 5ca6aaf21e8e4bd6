// What decoders of text share: the choice of the next token.
#pragma once
#include <weft/weft.hpp>

namespace models {

using namespace weft;

// Draws the next token of logits [N, L, vocab_size]: [N, 1], from the `top_k` likeliest; at temperature 0 the
// likeliest.
inline Tensor next_token(const Tensor& logits, const Scalar& temperature, std::int64_t top_k, Generator& generator) {
  const auto [likely, tokens] = topk(select(logits, 1, -1), top_k);
  const Tensor chances = softmax(likely / maximum(temperature, 1e-4), -1);
  return gather(tokens, -1, multinomial(chances, 1, false, generator));
}

}  // namespace models
