// Transformers (Vaswani and others 2017), with the parameters, initial values and masks of PyTorch's. Sources are [S,
// N, E], targets [T, N, E]; with batch_first [N, S, E] and [N, T, E]; without a batch [S, E] and [T, E].
#pragma once
#include <optional>

#include "weft/nn/attention.hpp"
#include "weft/nn/dropout.hpp"
#include "weft/nn/normalization.hpp"

namespace weft::nn {

enum class Activation : std::uint8_t { relu, gelu };  // between a layer's two Linear
struct TransformerOptions {                           // of encoders and decoders
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;  // the probability, in [0, 1), in training: of attention weights, and in each part of a layer
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // normalizes what a part reads, not what it adds to
  bool bias = true;         // of all projections, linear layers and normalizations
  Options options = {};
};
// Masks are true where something is NOT seen, or floating numbers that are added. In a decoder layer `self` is of the
// targets among themselves, `memory` of the targets' view of the encoder's result.
struct DecoderMasks {
  AttentionMasks self = {};    // of the targets' attention to themselves
  AttentionMasks memory = {};  // of the targets' attention to the encoder's result
};

// x + attention(x), then x + linear2(activation(linear1(x))), each normalized.
struct TransformerEncoderLayer {
  TransformerEncoderLayer() = delete;  // weft: it is made as nn::TransformerEncoderLayer(d_model, nhead)
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options = {},
                          Loc loc = Loc::current());
  // source [S, N, E], [N, S, E] with batch_first, or [S, E] of no batch; the result has its shape.
  Tensor operator()(At source, const AttentionMasks& masks = {}) const;

  MultiheadAttention self_attn;
  Linear linear1;   // d_model to dim_feedforward
  Linear linear2;   // dim_feedforward to d_model
  LayerNorm norm1;  // of the attention
  LayerNorm norm2;  // of the feed-forward part
  double dropout;   // probability, in training; that of attention weights is self_attn.dropout
  Activation activation;
  bool norm_first;
  bool training = true;
  WEFT_MEMBERS(self_attn, linear1, linear2, norm1, norm2, dropout, activation, norm_first, training)
};
// The same with attention to the encoder's result in between.
struct TransformerDecoderLayer {
  TransformerDecoderLayer() = delete;  // weft: it is made as nn::TransformerDecoderLayer(d_model, nhead)
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options = {},
                          Loc loc = Loc::current());
  // target [T, N, E] and memory [S, N, E], in the order of batch_first or without a batch; the target's shape.
  Tensor operator()(At target, At memory, const DecoderMasks& masks = {}) const;

  MultiheadAttention self_attn;       // the targets' attention to themselves
  MultiheadAttention multihead_attn;  // the targets' attention to the encoder's result
  Linear linear1;                     // d_model to dim_feedforward
  Linear linear2;                     // dim_feedforward to d_model
  LayerNorm norm1;                    // of self_attn
  LayerNorm norm2;                    // of multihead_attn
  LayerNorm norm3;                    // of the feed-forward part
  double dropout;                     // probability, in training; that of attention weights is the attentions' own
  Activation activation;
  bool norm_first;
  bool training = true;
  WEFT_MEMBERS(self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3, dropout, activation, norm_first,
               training)
};

// Layers one after the other, and a normalization of the result where there is one. The layers start as copies of the
// one that is given, as in PyTorch: nn::initialize draws them apart.
struct TransformerEncoder {       // encoder layers, one after the other
  TransformerEncoder() = delete;  // weft: it is made as nn::TransformerEncoder(layer, num_layers)
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers, std::optional<LayerNorm> norm = {},
                     Loc loc = Loc::current());
  // source [S, N, E], [N, S, E] with batch_first, or [S, E] of no batch; the result has its shape.
  Tensor operator()(At source, const AttentionMasks& masks = {}) const;

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
  WEFT_MEMBERS(layers, norm)
};
struct TransformerDecoder {       // decoder layers, one after the other
  TransformerDecoder() = delete;  // weft: it is made as nn::TransformerDecoder(layer, num_layers)
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers, std::optional<LayerNorm> norm = {},
                     Loc loc = Loc::current());
  // target [T, N, E] and memory [S, N, E], in the order of batch_first or without a batch; the target's shape.
  Tensor operator()(At target, At memory, const DecoderMasks& masks = {}) const;

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
  WEFT_MEMBERS(layers, norm)
};

struct TransformerMasks {      // of Transformer
  AttentionMasks source = {};  // of the encoder's attention
  AttentionMasks target = {};  // of the targets' attention to themselves
  AttentionMasks memory = {};  // of the targets' attention to the encoder's result
};
// An encoder and a decoder, both with a normalization of the result. Matrices start as xavier_uniform.
struct Transformer {  // an encoder, and a decoder that reads its result
  Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8, std::int64_t num_encoder_layers = 6,
              std::int64_t num_decoder_layers = 6, TransformerOptions options = {}, Loc loc = Loc::current());
  // source [S, N, E] and target [T, N, E], in the order of batch_first or without a batch; the target's shape.
  Tensor operator()(At source, At target, const TransformerMasks& masks = {}) const;

  TransformerEncoder encoder;
  TransformerDecoder decoder;
  WEFT_MEMBERS(encoder, decoder)
};

}  // namespace weft::nn
