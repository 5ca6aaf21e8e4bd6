// Whisper (Radford and others 2022): an encoder of spectrograms and a decoder of text, which attends to it. Parameters
// have the names of Hugging Face's files.
#pragma once
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct WhisperConfig {  // base, 74 million parameters
  std::int64_t vocab_size = 51865, mel_bins = 80, frames = 3000, context = 448, width = 512, layers = 6, heads = 8;
};

struct WhisperAttention {
  explicit WhisperAttention(const WhisperConfig& c)
      : k_proj(c.width, c.width, {.bias = false}),
        v_proj(c.width, c.width),
        q_proj(c.width, c.width),
        out_proj(c.width, c.width),
        heads(c.heads) {}

  // Queries x [N, L, width] look at `memory` [N, S, width].
  Tensor operator()(const Tensor& x, const Tensor& memory, bool causal = false) const {
    const auto split = [&](const Tensor& y) {  // [N, heads, L, depth]
      return transpose(reshape(y, {y.size(0), y.size(1), heads, -1}), 1, 2);
    };
    const Tensor mixed = nn::scaled_dot_product_attention(split(q_proj(x)), split(k_proj(memory)),
                                                          split(v_proj(memory)), {.is_causal = causal});
    return out_proj(reshape(transpose(mixed, 1, 2), x.shape()));
  }

  nn::Linear k_proj, v_proj, q_proj, out_proj;
  std::int64_t heads;
  WEFT_MEMBERS(k_proj, v_proj, q_proj, out_proj, heads)
};

struct WhisperMlp {
  explicit WhisperMlp(const WhisperConfig& c) : fc1(c.width, 4 * c.width), fc2(4 * c.width, c.width) {}
  Tensor operator()(const Tensor& x) const { return fc2(gelu(fc1(x))); }

  nn::Linear fc1, fc2;
  WEFT_MEMBERS(fc1, fc2)
};

struct WhisperEncoderLayer {
  explicit WhisperEncoderLayer(const WhisperConfig& c)
      : self_attn(c), self_attn_layer_norm(c.width), mlp(c), final_layer_norm(c.width) {}
  Tensor operator()(const Tensor& given) const {
    const Tensor normed = self_attn_layer_norm(given), x = given + self_attn(normed, normed);
    return x + mlp(final_layer_norm(x));
  }

  WhisperAttention self_attn;
  nn::LayerNorm self_attn_layer_norm;
  WhisperMlp mlp;
  nn::LayerNorm final_layer_norm;
  WEFT_MEMBERS(self_attn, self_attn_layer_norm, mlp, final_layer_norm)
};

struct WhisperDecoderLayer {
  explicit WhisperDecoderLayer(const WhisperConfig& c)
      : self_attn(c),
        self_attn_layer_norm(c.width),
        encoder_attn(c),
        encoder_attn_layer_norm(c.width),
        mlp(c),
        final_layer_norm(c.width) {}
  Tensor operator()(const Tensor& given, const Tensor& memory) const {
    const Tensor normed = self_attn_layer_norm(given), x = given + self_attn(normed, normed, true);
    const Tensor y = x + encoder_attn(encoder_attn_layer_norm(x), memory);
    return y + mlp(final_layer_norm(y));
  }

  WhisperAttention self_attn;
  nn::LayerNorm self_attn_layer_norm;
  WhisperAttention encoder_attn;
  nn::LayerNorm encoder_attn_layer_norm;
  WhisperMlp mlp;
  nn::LayerNorm final_layer_norm;
  WEFT_MEMBERS(self_attn, self_attn_layer_norm, encoder_attn, encoder_attn_layer_norm, mlp, final_layer_norm)
};

struct WhisperEncoder {
  explicit WhisperEncoder(const WhisperConfig& c)
      : conv1(c.mel_bins, c.width, 3, {.padding = 1}),
        conv2(c.width, c.width, 3, {.stride = 2, .padding = 1}),
        embed_positions(c.frames / 2, c.width),
        layer_norm(c.width) {
    embed_positions.weight = nn::sinusoidal_positions(c.frames / 2, c.width);
    embed_positions.weight.frozen = true;
    for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
  }
  // Log-mel spectrograms [N, mel_bins, frames] to [N, frames / 2, width]; frames may be fewer than the config's.
  Tensor operator()(const Tensor& spectrogram) const {
    Tensor x = transpose(gelu(conv2(gelu(conv1(spectrogram)))), 1, 2);
    x = x + slice(embed_positions.weight, 0, 0, x.size(1));
    for (const WhisperEncoderLayer& layer : layers) x = layer(x);
    return layer_norm(x);
  }

  nn::Conv1d conv1, conv2;
  nn::Embedding embed_positions;
  std::vector<WhisperEncoderLayer> layers;
  nn::LayerNorm layer_norm;
  WEFT_MEMBERS(conv1, conv2, embed_positions, layers, layer_norm)
};

struct WhisperDecoder {
  explicit WhisperDecoder(const WhisperConfig& c)
      : embed_tokens(c.vocab_size, c.width), embed_positions(c.context, c.width), layer_norm(c.width) {
    embed_tokens.weight = embed_tokens.weight * 0.02;
    embed_positions.weight = embed_positions.weight * 0.02;
    for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
  }
  // Tokens [N, L] and what the encoder gave to logits [N, L, vocab_size] of the token after each.
  Tensor operator()(const Tensor& tokens, const Tensor& memory) const {
    Tensor x = embed_tokens(tokens) + slice(embed_positions.weight, 0, 0, tokens.size(1));
    for (const WhisperDecoderLayer& layer : layers) x = layer(x, memory);
    return matmul(layer_norm(x), transpose(embed_tokens.weight));
  }

  nn::Embedding embed_tokens, embed_positions;
  std::vector<WhisperDecoderLayer> layers;
  nn::LayerNorm layer_norm;
  WEFT_MEMBERS(embed_tokens, embed_positions, layers, layer_norm)
};

struct Whisper {
  explicit Whisper(const WhisperConfig& c = {}) : encoder(c), decoder(c) {}
  Tensor operator()(const Tensor& spectrogram, const Tensor& tokens) const {
    return decoder(tokens, encoder(spectrogram));
  }

  WhisperEncoder encoder;
  WhisperDecoder decoder;
  WEFT_MEMBERS(encoder, decoder)
};

// For io::load of Hugging Face's files.
inline const std::vector<io::Renamed> whisper_names = {{"*.mlp.*", "model.*.*"}, {"*", "model.*"}};

}  // namespace models
