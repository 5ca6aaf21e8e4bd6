// generate [recompiles]: a LLaMA of 15 million parameters writes 512 tokens, greedily, one after another, with a cache
// of fixed size, taking turns (support.hpp). recompiles: how often the step was compiled in 512 tokens.
#include <cstdio>
#include <cstring>

#include "support.hpp"

namespace {

using namespace weft;

constexpr std::int64_t vocabulary = 32000, context = 512, width = 288, hidden = 768, layers = 6, heads = 6, depth = 48;

struct Block {
  nn::RMSNorm before{width}, after{width};
  nn::Linear q{width, width, {.bias = false}}, k{width, width, {.bias = false}}, v{width, width, {.bias = false}},
      out{width, width, {.bias = false}};
  nn::Linear gate{width, hidden, {.bias = false}}, up{width, hidden, {.bias = false}},
      down{hidden, width, {.bias = false}};
  nn::RotaryEmbedding rotate{depth, {.interleaved = true}};

  Tensor operator()(const Tensor& x, nn::KeyValueCache& cache, const Index& at) const {
    const auto split = [&](const Tensor& y) {
      return transpose(reshape(y, {x.size(0), x.size(1), heads, depth}), 1, 2);
    };
    const Tensor y = before(x);
    cache.update(rotate(split(k(y)), at), split(v(y)), at);
    const Tensor mixed = nn::scaled_dot_product_attention(rotate(split(q(y)), at), cache.keys, cache.values,
                                                          {.attn_mask = cache.mask(x.size(1), at)});
    const Tensor z = x + out(reshape(transpose(mixed, 1, 2), x.shape()));
    const Tensor w = after(z);
    return z + down(silu(gate(w)) * up(w));
  }
  WEFT_MEMBERS(before, after, q, k, v, out, gate, up, down, rotate)
};

struct Llama {
  Llama() {
    for (int i = 0; i < layers; ++i) blocks.emplace_back();
  }
  // Logits [N, L, vocabulary] of what follows the tokens from position `at`.
  Tensor operator()(const Tensor& tokens, std::vector<nn::KeyValueCache>& caches, const Index& at) const {
    Tensor x = embedding(tokens);
    for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, caches[i], at);
    return matmul(last(x), transpose(embedding.weight));
  }
  nn::Embedding embedding{vocabulary, width};
  std::vector<Block> blocks;
  nn::RMSNorm last{width};
  WEFT_MEMBERS(embedding, blocks, last)
};

constexpr auto next_token = [](const Llama& model, std::vector<nn::KeyValueCache>& caches, const Tensor& token,
                               const Index& at) { return argmax(model(token, caches, at), -1); };

}  // namespace

int main(int count, char** arguments) {
  const Llama model;
  std::vector<nn::KeyValueCache> caches;
  for (int i = 0; i < layers; ++i) caches.emplace_back(1, heads, context, depth);
  auto step = compile(next_token);
  const auto write = [&] {
    Tensor token = zeros({1, 1}, {DType::i64});
    for (std::int64_t at = 0; at < context; ++at) token = step(model, caches, token, at);
    token.eval();
  };
  if (count > 1 && !std::strcmp(arguments[1], "recompiles")) {
    write();
    std::printf("%zu\n", specialization_count(step));
  } else {
    bench::take_turns(write, static_cast<int>(context));
  }
}
