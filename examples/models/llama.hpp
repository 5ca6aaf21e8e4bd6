// LLaMA (Touvron and others 2023): a decoder of RMS norms, rotary positions, grouped queries and gated MLPs. Parameters
// have the names of Hugging Face's files.
#pragma once
#include <optional>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct LlamaConfig {  // Llama 3.2, 1 billion parameters
  std::int64_t vocab_size = 128256, context = 2048, width = 2048, hidden = 8192, layers = 16, heads = 32, kv_heads = 8;
  double rope_base = 500000, eps = 1e-5;
  nn::RotaryScaling rope_scaling = {.factor = 32};
  bool tied = true;  // the last product has the embedding's weights
  Options options = {};
};

struct LlamaAttention {
  explicit LlamaAttention(const LlamaConfig& c)
      : q_proj(c.width, c.width, {false, c.options}),
        k_proj(c.width, c.width / c.heads * c.kv_heads, {false, c.options}),
        v_proj(c.width, c.width / c.heads * c.kv_heads, {false, c.options}),
        o_proj(c.width, c.width, {false, c.options}),
        rotate(c.width / c.heads, {.base = c.rope_base, .scaling = c.rope_scaling}) {}

  // x [N, L, width]. With a cache the tokens of x are at `position` and after it, and see those before them.
  Tensor operator()(const Tensor& x, nn::KeyValueCache* cache, const Index& position) const {
    const auto heads_of = [&](const Tensor& y) {  // [N, heads, L, depth]
      return transpose(reshape(y, {x.size(0), x.size(1), -1, rotate.dim}), 1, 2);
    };
    const Tensor query = rotate(heads_of(q_proj(x)), position), key = rotate(heads_of(k_proj(x)), position);
    const Tensor value = heads_of(v_proj(x));
    Tensor mixed;
    if (cache) {
      cache->update(key, value, position);
      mixed = nn::scaled_dot_product_attention(query, cache->keys, cache->values,
                                               {.attn_mask = cache->mask(x.size(1), position), .enable_gqa = true});
    } else {
      mixed = nn::scaled_dot_product_attention(query, key, value, {.is_causal = true, .enable_gqa = true});
    }
    return o_proj(flatten(transpose(mixed, 1, 2), 2));
  }

  nn::Linear q_proj, k_proj, v_proj, o_proj;
  nn::RotaryEmbedding rotate;
  WEFT_MEMBERS(q_proj, k_proj, v_proj, o_proj, rotate)
};

struct LlamaMlp {
  using Config = LlamaConfig;

  explicit LlamaMlp(const Config& c)
      : gate_proj(c.width, c.hidden, {false, c.options}),
        up_proj(c.width, c.hidden, {false, c.options}),
        down_proj(c.hidden, c.width, {false, c.options}) {}
  Tensor operator()(const Tensor& x) const { return down_proj(silu(gate_proj(x)) * up_proj(x)); }

  nn::Linear gate_proj, up_proj, down_proj;
  WEFT_MEMBERS(gate_proj, up_proj, down_proj)
};

template <class Mlp>
struct LlamaBlock {
  explicit LlamaBlock(const typename Mlp::Config& c)
      : input_layernorm(c.width, {.eps = c.eps, .options = c.options}),
        self_attn(c),
        post_attention_layernorm(c.width, {.eps = c.eps, .options = c.options}),
        mlp(c) {}
  Tensor operator()(const Tensor& given, nn::KeyValueCache* cache, const Index& position) const {
    const Tensor x = given + self_attn(input_layernorm(given), cache, position);
    return x + mlp(post_attention_layernorm(x));
  }

  nn::RMSNorm input_layernorm;
  LlamaAttention self_attn;
  nn::RMSNorm post_attention_layernorm;
  Mlp mlp;
  WEFT_MEMBERS(input_layernorm, self_attn, post_attention_layernorm, mlp)
};

// `Mlp` is made from its `Config`, which is or derives from LlamaConfig, and maps [N, L, width] to the same.
template <class Mlp>
struct LlamaDecoder {
  using Caches = std::vector<nn::KeyValueCache>;  // one a block

  explicit LlamaDecoder(const typename Mlp::Config& c = {})
      : config(c),
        embed_tokens(c.vocab_size, c.width, {.options = c.options}),
        norm(c.width, {.eps = c.eps, .options = c.options}) {
    for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
    embed_tokens.weight = embed_tokens.weight * 0.02;
    if (!c.tied) lm_head.emplace(c.width, c.vocab_size, nn::LinearOptions{false, c.options});
  }

  // Tokens, integers [N, L], to logits [N, L, vocab_size] of the token after each.
  Tensor operator()(const Tensor& tokens) const { return run(tokens, nullptr, 0); }
  // The same for tokens from `position` on, which see all that the caches hold. Their keys and values join these.
  Tensor operator()(const Tensor& tokens, Caches& caches, const Index& position) const {
    return run(tokens, &caches, position);
  }
  // Room for `context` tokens of each text of a batch.
  Caches make_caches(Dim batch) const {
    const Options options{embed_tokens.weight->dtype(), embed_tokens.weight->device()};
    return Caches(layers.size(), {static_cast<std::int64_t>(batch), config.kv_heads, config.context,
                                  config.width / config.heads, options});
  }

  LlamaConfig config;
  nn::Embedding embed_tokens;
  std::vector<LlamaBlock<Mlp>> layers;
  nn::RMSNorm norm;
  std::optional<nn::Linear> lm_head;
  WEFT_MEMBERS(config, embed_tokens, layers, norm, lm_head)

 private:
  Tensor run(const Tensor& tokens, Caches* caches, const Index& position) const {
    Tensor x = embed_tokens(tokens);
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, caches ? &(*caches)[i] : nullptr, position);
    return lm_head ? (*lm_head)(norm(x)) : matmul(norm(x), transpose(embed_tokens.weight));
  }
};
using Llama = LlamaDecoder<LlamaMlp>;

// For io::load of Hugging Face's files.
inline const std::vector<io::Renamed> llama_names = {{"lm_head.*", "lm_head.*"}, {"*", "model.*"}};

}  // namespace models
