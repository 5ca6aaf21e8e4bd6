// GPT-2 (Radford and others 2019): a decoder of norm, causal attention, norm and MLP, whose last product has the
// embedding's weights. Parameters have the names of Hugging Face's files.
#pragma once
#include <cmath>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct Gpt2Config {  // the smallest of the four, 124 million parameters
  std::int64_t vocab_size = 50257, context = 1024, width = 768, layers = 12, heads = 12;
  double dropout = 0.1;
};

// x W + b: a weight [in, out], as GPT-2's files have it.
struct Projection {
  Projection(std::int64_t in, std::int64_t out, double deviation = 0.02)
      : weight(normal({in, out}, 0, deviation)), bias(zeros({out})) {}
  Tensor operator()(const Tensor& x) const { return matmul(x, weight) + bias; }

  Param weight, bias;
  WEFT_MEMBERS(weight, bias)
};

struct Gpt2Attention {
  explicit Gpt2Attention(const Gpt2Config& config)
      : c_attn(config.width, 3 * config.width),
        c_proj(config.width, config.width, 0.02 / std::sqrt(2.0 * config.layers)),
        heads(config.heads) {}

  // x [N, L, width]. With a cache the tokens of x are at `position` and after it, and see those before them.
  Tensor operator()(const Tensor& x, nn::KeyValueCache* cache, const Index& position) const {
    const Tensor parts = reshape(c_attn(x), {x.size(0), x.size(1), 3, heads, -1});
    const auto part = [&](int i) { return transpose(select(parts, 2, i), 1, 2); };  // [N, heads, L, depth]
    Tensor query = part(0), key = part(1), value = part(2), mixed;
    if (cache) {
      cache->update(key, value, position);
      mixed = nn::scaled_dot_product_attention(query, cache->keys, cache->values,
                                               {.attn_mask = cache->mask(x.size(1), position)});
    } else {
      mixed = nn::scaled_dot_product_attention(query, key, value, {.is_causal = true});
    }
    return c_proj(reshape(transpose(mixed, 1, 2), x.shape()));
  }

  Projection c_attn, c_proj;
  std::int64_t heads;
  WEFT_MEMBERS(c_attn, c_proj, heads)
};

struct Gpt2Mlp {
  explicit Gpt2Mlp(const Gpt2Config& config)
      : c_fc(config.width, 4 * config.width),
        c_proj(4 * config.width, config.width, 0.02 / std::sqrt(2.0 * config.layers)) {}
  Tensor operator()(const Tensor& x) const { return c_proj(gelu(c_fc(x), Gelu::tanh)); }

  Projection c_fc, c_proj;
  WEFT_MEMBERS(c_fc, c_proj)
};

struct Gpt2Block {
  explicit Gpt2Block(const Gpt2Config& config)
      : ln_1(config.width), attn(config), ln_2(config.width), mlp(config), drop{config.dropout} {}
  Tensor operator()(const Tensor& given, nn::KeyValueCache* cache, const Index& position) const {
    const Tensor x = given + drop(attn(ln_1(given), cache, position));
    return x + drop(mlp(ln_2(x)));
  }

  nn::LayerNorm ln_1;
  Gpt2Attention attn;
  nn::LayerNorm ln_2;
  Gpt2Mlp mlp;
  nn::Dropout drop;
  WEFT_MEMBERS(ln_1, attn, ln_2, mlp, drop)
};

struct Gpt2 {
  using Caches = std::vector<nn::KeyValueCache>;  // one a block

  explicit Gpt2(const Gpt2Config& given = {})
      : config(given),
        wte(config.vocab_size, config.width),
        wpe(config.context, config.width),
        drop(config.dropout),
        ln_f(config.width) {
    wte.weight = normal({config.vocab_size, config.width}, 0, 0.02);
    wpe.weight = normal({config.context, config.width}, 0, 0.02);
    for (std::int64_t i = 0; i < config.layers; ++i) h.emplace_back(config);
  }

  // Tokens, integers [N, L], to logits [N, L, vocab_size] of the token after each; L is at most the context.
  Tensor operator()(const Tensor& tokens) const { return run(tokens, nullptr, 0); }
  // The same for tokens from `position` on, which see all that the caches hold. Their keys and values join these.
  Tensor operator()(const Tensor& tokens, Caches& caches, const Index& position) const {
    return run(tokens, &caches, position);
  }
  Caches make_caches(Dim batch) const {
    const Options options{wte.weight->dtype(), wte.weight->device()};
    return Caches(h.size(), {static_cast<std::int64_t>(batch), config.heads, config.context,
                             config.width / config.heads, options});
  }

  Gpt2Config config;
  nn::Embedding wte, wpe;
  nn::Dropout drop;
  std::vector<Gpt2Block> h;
  nn::LayerNorm ln_f;
  WEFT_MEMBERS(config, wte, wpe, drop, h, ln_f)

 private:
  Tensor run(const Tensor& tokens, Caches* caches, const Index& position) const {
    Tensor x = drop(wte(tokens) + wpe(position + to(arange(tokens.size(1)), tokens.device())));
    for (std::size_t i = 0; i < h.size(); ++i) x = h[i](x, caches ? &(*caches)[i] : nullptr, position);
    return matmul(ln_f(x), transpose(wte.weight));
  }
};

// For io::load of a file whose names begin with the part, as save_pretrained writes them.
inline const std::vector<io::Renamed> gpt2_names = {{"*", "transformer.*"}};

}  // namespace models
