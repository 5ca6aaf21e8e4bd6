// A GPT-2 from public headers, as the peers have it: blocks of norm, attention, norm and MLP, attention composed of
// products and a softmax or, if `fused`, by the one function for it. Sizes of GPT-2 124M by default, its vocabulary
// rounded up to 64.
#pragma once
#include <cmath>
#include <vector>

#include "weft/nn.hpp"
#include "weft/weft.hpp"

namespace bench {

using weft::Param;
using weft::Tensor;

struct Norm {
  explicit Norm(std::int64_t width, weft::Options options)
      : scale(weft::ones({width}, options)), shift(weft::zeros({width}, options)) {}
  Tensor operator()(const Tensor& x) const { return weft::nn::layer_norm(x, scale, shift); }
  Param scale, shift;
  WEFT_MEMBERS(scale, shift)
};

struct Block {
  Block(std::int64_t width, std::int64_t heads_, bool causal_, weft::Options options, bool fused_ = false)
      : before(width, options),
        after(width, options),
        qkv(width, 3 * width, {.options = options}),
        out(width, width, {.options = options}),
        up(width, 4 * width, {.options = options}),
        down(4 * width, width, {.options = options}),
        heads(heads_),
        causal(causal_),
        fused(fused_) {}

  Tensor attend(const Tensor& x) const {
    const weft::Dim batch = x.size(0), time = x.size(1), width = x.size(2), depth = width / heads;
    const Tensor parts = permute(reshape(qkv(x), {batch, time, 3, heads, depth}), {2, 0, 3, 1, 4});
    const Tensor q = select(parts, 0, 0), k = select(parts, 0, 1), v = select(parts, 0, 2);
    const auto joined = [&](const Tensor& mixed) {
      return out(reshape(permute(mixed, {0, 2, 1, 3}), {batch, time, width}));
    };
    if (fused) return joined(weft::nn::scaled_dot_product_attention(q, k, v, {.is_causal = causal}));
    Tensor scores = matmul(q, transpose(k, -2, -1)) * (1 / std::sqrt(static_cast<double>(depth)));
    if (causal) {
      const Tensor at = to(weft::arange(time), x.device());
      scores = where(unsqueeze(at, 0) > unsqueeze(at, 1), -INFINITY, scores);
    }
    return joined(matmul(weft::softmax(scores, -1), v));
  }
  Tensor operator()(const Tensor& given) const {
    const Tensor x = given + attend(before(given));
    return x + down(gelu(up(after(x)), weft::Gelu::tanh));
  }

  Norm before, after;
  weft::nn::Linear qkv, out, up, down;
  std::int64_t heads;
  bool causal, fused;
  WEFT_MEMBERS(before, after, qkv, out, up, down, heads, causal, fused)
};

struct Gpt {
  struct Sizes {
    std::int64_t vocabulary = 50304, context = 1024, width = 768, layers = 12, heads = 12;
    bool fused = false;
  };
  Gpt(Sizes sizes, weft::Options options)
      : tokens(weft::normal({sizes.vocabulary, sizes.width}, 0, 0.02, generator(), options)),
        places(weft::normal({sizes.context, sizes.width}, 0, 0.02, generator(), options)),
        last(sizes.width, options) {
    for (std::int64_t i = 0; i < sizes.layers; ++i)
      blocks.emplace_back(sizes.width, sizes.heads, true, options, sizes.fused);
  }
  // Logits of [batch, time] tokens.
  Tensor operator()(const Tensor& text) const {
    Tensor x = gather(tokens, text) + slice(places, 0, 0, text.size(1));
    for (const Block& block : blocks) x = block(x);
    return matmul(last(x), transpose(tokens));
  }
  static weft::Generator& generator() {
    static weft::Generator shared(1);
    return shared;
  }
  Param tokens, places;
  std::vector<Block> blocks;
  Norm last;
  WEFT_MEMBERS(tokens, places, blocks, last)
};

}  // namespace bench
