// BERT (Devlin and others 2018): an encoder of attention in both directions. Parameters have the names of Hugging
// Face's files.
#pragma once
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct BertConfig {  // base, 110 million parameters
  std::int64_t vocab_size = 30522, context = 512, types = 2, width = 768, hidden = 3072, layers = 12, heads = 12;
  double eps = 1e-12, dropout = 0.1;
};

// Where the tokens of texts lie that follow one another in rows, [rows, width], without padding between.
struct TextRows {
  Tensor row;   // integers [texts, length]: the row of a token, any for padding
  Tensor mask;  // [texts, length], not 0 for those that are no padding
  Tensor back;  // integers [rows]: text * length + position
};

struct BertEmbeddings {
  explicit BertEmbeddings(const BertConfig& c)
      : word_embeddings(c.vocab_size, c.width),
        position_embeddings(c.context, c.width),
        token_type_embeddings(c.types, c.width),
        layer_norm(c.width, {.eps = c.eps}),
        drop(c.dropout) {
    for (nn::Embedding* table : {&word_embeddings, &position_embeddings, &token_type_embeddings})
      table->weight = table->weight * 0.02;
  }
  Tensor operator()(const Tensor& tokens, const Tensor& types) const {
    return sum(tokens, slice(position_embeddings.weight, 0, 0, tokens.size(1)), types);
  }
  // Tokens [rows], each at its own position.
  Tensor operator()(const Tensor& tokens, const TextRows& rows) const {
    return sum(tokens, position_embeddings(rows.back % rows.mask.size(1)), zeros_like(tokens));
  }
  Tensor sum(const Tensor& tokens, const Tensor& positions, const Tensor& types) const {
    return drop(layer_norm(word_embeddings(tokens) + positions + token_type_embeddings(types)));
  }

  nn::Embedding word_embeddings, position_embeddings, token_type_embeddings;
  nn::LayerNorm layer_norm;
  nn::Dropout drop;
  WEFT_MEMBERS(word_embeddings, position_embeddings, token_type_embeddings, layer_norm, drop)
};

// What ends both halves of a layer: a projection, added to what the half began with, and normalized.
struct BertOutput {
  BertOutput(std::int64_t in, const BertConfig& c)
      : dense(in, c.width), layer_norm(c.width, {.eps = c.eps}), drop(c.dropout) {}
  Tensor operator()(const Tensor& x, const Tensor& before) const { return layer_norm(drop(dense(x)) + before); }

  nn::Linear dense;
  nn::LayerNorm layer_norm;
  nn::Dropout drop;
  WEFT_MEMBERS(dense, layer_norm, drop)
};

struct BertAttention {
  explicit BertAttention(const BertConfig& c)
      : query(c.width, c.width), key(c.width, c.width), value(c.width, c.width), output(c.width, c), heads(c.heads) {}
  // x [N, L, width]; mask [N, 1, 1, L], true for what is seen.
  Tensor operator()(const Tensor& x, const Tensor& mask) const {
    return output(mix(query(x), key(x), value(x), mask), x);
  }
  // x [rows, width]: each text is put in a row of its own here alone.
  Tensor operator()(const Tensor& x, const TextRows& rows) const {
    const Tensor mask = seen(rows.mask);
    const Tensor mixed = mix(gather(query(x), rows.row), gather(key(x), rows.row), gather(value(x), rows.row), mask);
    return output(gather(reshape(mixed, {-1, x.size(1)}), rows.back), x);
  }
  static Tensor seen(const Tensor& mask) { return reshape(mask != 0, {mask.size(0), 1, 1, mask.size(1)}); }
  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) const {
    const auto split = [&](const Tensor& y) {  // [N, heads, L, depth]
      return transpose(reshape(y, {y.size(0), y.size(1), heads, -1}), 1, 2);
    };
    const Tensor mixed = nn::scaled_dot_product_attention(split(q), split(k), split(v), {.attn_mask = mask});
    return reshape(transpose(mixed, 1, 2), q.shape());
  }

  nn::Linear query, key, value;
  BertOutput output;
  std::int64_t heads;
  WEFT_MEMBERS(query, key, value, output, heads)
};

struct BertLayer {
  explicit BertLayer(const BertConfig& c) : attention(c), intermediate(c.width, c.hidden), output(c.hidden, c) {}
  template <class Seen>  // a mask, or TextRows
  Tensor operator()(const Tensor& given, const Seen& seen) const {
    const Tensor x = attention(given, seen);
    return output(gelu(intermediate(x)), x);
  }

  BertAttention attention;
  nn::Linear intermediate;
  BertOutput output;
  WEFT_MEMBERS(attention, intermediate, output)
};

struct Bert {
  explicit Bert(const BertConfig& c = {}) : embeddings(c), pooler(c.width, c.width) {
    for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
  }
  // Tokens, integers [N, L], a mask [N, L], which is not 0 for those that are no padding, and the sentence of each
  // (0 or 1; all 0 where it is left out) to [N, L, width].
  Tensor operator()(const Tensor& tokens, const Tensor& mask, const Tensor& types = {}) const {
    Tensor x = embeddings(tokens, types.defined() ? types : zeros_like(tokens));
    const Tensor seen = BertAttention::seen(mask);
    for (const BertLayer& layer : layers) x = layer(x, seen);
    return x;
  }
  // Tokens of texts without padding, [rows], to [texts, length, width]. All but attention works on rows alone, which
  // are about two thirds of a padded batch.
  Tensor operator()(const Tensor& tokens, const TextRows& rows) const {
    Tensor x = embeddings(tokens, rows);
    for (const BertLayer& layer : layers) x = layer(x, rows);
    return gather(x, rows.row);
  }
  // Of such a result: one vector a text, [N, width], from its first token.
  Tensor pool(const Tensor& x) const { return tanh(pooler(select(x, 1, 0))); }

  BertEmbeddings embeddings;
  std::vector<BertLayer> layers;
  nn::Linear pooler;
  WEFT_MEMBERS(embeddings, layers, pooler)
};

// One vector a text, of length 1: the mean of its tokens (Reimers and Gurevych 2019). [N, width].
inline Tensor sentence_embedding(const Tensor& x, const Tensor& mask) {
  const Tensor counted = unsqueeze(cast(mask != 0, x.dtype()), -1);
  return nn::normalize(sum(x * counted, 1) / maximum(sum(counted, 1), 1e-9), 2, -1);
}

// For io::load of Hugging Face's files.
inline const std::vector<io::Renamed> bert_names = {
    {"embeddings.layer_norm.*", "embeddings.LayerNorm.*"},
    {"layers.*.attention.output.dense.*", "encoder.layer.*.attention.output.dense.*"},
    {"layers.*.attention.output.layer_norm.*", "encoder.layer.*.attention.output.LayerNorm.*"},
    {"layers.*.attention.*", "encoder.layer.*.attention.self.*"},
    {"layers.*.intermediate.*", "encoder.layer.*.intermediate.dense.*"},
    {"layers.*.output.layer_norm.*", "encoder.layer.*.output.LayerNorm.*"},
    {"layers.*", "encoder.layer.*"},
    {"pooler.*", "pooler.dense.*"}};

}  // namespace models
