// Attention and what it is told of positions. Queries, keys and values are [..., heads, length, depth].
#pragma once
#include "weft/nn/attention_mods.hpp"
#include "weft/nn/linear.hpp"
#include "weft/ops.hpp"

namespace weft::nn {

// ---- scaled dot products --------------------------------------------------------------------------------------------

struct AttentionOptions {  // of scaled_dot_product_attention
  // bool: which keys each query sees; or a floating number for each pair, added to its score. Broadcasts to [...,
  // heads, L, S]. A query that sees nothing (false, or -inf, everywhere, or no keys at all) gets zeros.
  Tensor attn_mask = {};
  double dropout_p = 0;            // of the weights; a draw of the generator where it is not 0
  bool is_causal = false;          // query i sees keys 0 ... i. Not beside a mask
  double scale = 0;                // of the scores; 0: 1 / sqrt(depth)
  bool enable_gqa = false;         // queries may have a multiple of the keys' heads; neighbours share one
  Generator* generator = nullptr;  // null: the default one
  // Of a score of a query and a key, times the scale, a function; and whether the query sees the key (is_causal may
  // hide more). Captured tensors are operands of the call: they get gradients. Not beside attn_mask. A query of which
  // all scores are -inf, or that sees nothing, gets zeros.
  ScoreMod score_mod = {};
  MaskMod mask_mod = {};
};
// softmax(query key^T * scale) value (Vaswani and others 2017): query [..., H, L, E], key [..., G, S, E], value
// [..., G, S, F] to [..., H, L, F]; axes before the last two broadcast, but G is H, or a divisor of it with enable_gqa.
// Of one floating dtype; of f16 and bf16 scores are f32, and weights are rounded. Throws Error on other shapes, dtypes,
// and mods that give no number.
Tensor scaled_dot_product_attention(At query, At key, At value, const AttentionOptions& options = {});

// The same of texts of several lengths, one after the other without padding: a token sees its own text alone. query
// [tokens, H, E], key [others, G, E] and value [others, G, F] to [tokens, H, F], of one floating dtype; G is H, or a
// divisor of it with enable_gqa. `query_offsets` and `key_offsets`, i32 or i64 [N + 1], say where each of the N texts
// begins, the last one how many tokens there are: 0, 3, 3, 8 are texts of 3, 0 and 5 tokens. They may be one tensor.
//
// A text's last query is at its last key: with n queries and m keys query i is at place i + m - n, and is_causal lets
// it see the keys up to that place, as flash-attention does. A mod gets the text as batch, that place as q, which is
// negative for the first queries where n > m, and the key's place in its text as k. A query that sees nothing gets
// zeros. attn_mask is none of its options. Other numbers of tokens are no new compilation where they are symbols.
// Throws Error on other shapes and dtypes. Throws, or stops the call, where offsets do not begin at 0, fall, or do not
// end at the number of tokens.
Tensor varlen_attention(At query, At key, At value, At query_offsets, At key_offsets,
                        const AttentionOptions& options = {});

// ---- positions -----------------------------------------------------------------------------------------------------

// Slower turns, for texts longer than those a model was trained on first (Grattafiori and others 2024: Llama 3.1; the
// rope_type llama3 of Hugging Face). A pair that turns once in more than context / low positions turns `factor` times
// as slowly, one that turns once in less than context / high as before, those between by the mean of both, weighted
// linearly in turns.
struct RotaryScaling {
  double factor = 1;            // 1: no scaling; positive
  double low = 1, high = 4;     // turns in `context` positions: 0 < low < high
  std::int64_t context = 8192;  // positions of the training before; positive
};
struct RotaryOptions {       // of RotaryEmbedding
  double base = 10000;       // pair i turns by base^(-2i/dim) radians a position; positive
  bool interleaved = false;  // pairs are neighbours, 2i and 2i + 1; else elements i and i + dim/2
  RotaryScaling scaling = {};
};
// Rotates pairs of the elements of x [..., L, dim] by angles that grow with the position: pair i of the token at
// position p by p * base^(-2i/dim) (Su and others 2021), or slower (RotaryScaling). `offset` is the position of the
// first token, an Index of a cache, say. Pairs are element i and element i + dim/2, or with `interleaved` elements 2i
// and 2i + 1.
struct RotaryEmbedding {
  // Throws Error where dim is not even and positive, or an option is none of those it can be.
  RotaryEmbedding() = delete;  // weft: it is made as nn::RotaryEmbedding(dim)
  explicit RotaryEmbedding(std::int64_t dim, const RotaryOptions& options = {}, Loc loc = Loc::current());
  // x [..., L, dim], floating, of which token i is at position offset + i; the result has its type. Throws Error on
  // other shapes and dtypes.
  Tensor operator()(At x, At offset = 0) const;

  std::int64_t dim;  // the size of the last axis of x: even, the constructor throws Error otherwise
  double base;       // pair i turns by base^(-2i/dim) radians a position; positive
  bool interleaved;  // pairs are neighbours; else elements i and i + dim/2
  RotaryScaling scaling;
  WEFT_MEMBERS(dim, base, interleaved, scaling)
};

// f32 [length, dim]: sin and cos of p * base^(-2i/dim) for position p at columns 2i and 2i + 1 (Vaswani and others
// 2017). dim is even.
Tensor sinusoidal_positions(Dim length, std::int64_t dim, double base = 10000, Device device = {},
                            Loc loc = Loc::current());

// A mask of biases, f32 [heads, L, S]: -slope_h * |p - q| for the key at p and the query at q, the last query being at
// the last key; slopes fall from 1/2 to 1/256 in equal ratios, those of other counts than powers of two as in the
// source (Press and others 2022).
Tensor alibi_bias(std::int64_t heads, Dim queries, Dim keys, Device device = {}, Loc loc = Loc::current());

// A mask of learned biases, [heads, L, S], one for a head and a bucket of distances: near ones have their own, far ones
// share, logarithmically up to max_distance (Raffel and others 2020). Drawn from a normal of mean 0 and deviation 1.
struct RelativePositionBias {
  RelativePositionBias() = delete;  // weft: it is made as nn::RelativePositionBias(heads)
  explicit RelativePositionBias(std::int64_t heads, bool bidirectional = true, std::int64_t num_buckets = 32,
                                std::int64_t max_distance = 128, Options options = {}, Loc loc = Loc::current());
  // The first query is at `offset`, the first key at 0.
  Tensor operator()(Dim queries, Dim keys, At offset = 0) const;
  // Draws the weight anew, from a normal of mean 0 and deviation 1.
  void initialize(Generator& generator);

  Param weight;        // [num_buckets, heads]
  bool bidirectional;  // half of the buckets is for keys after the query; else those share the bucket of distance 0
  std::int64_t max_distance;  // from this distance on all pairs of a direction share one bucket
  WEFT_MEMBERS(weight, bidirectional, max_distance)
};

// Keys and values of the tokens so far, [N, heads, capacity, depth], for a step that adds some: in a compiled function
// that takes it by reference no more is written than what is new, and another position is no new compilation.
struct KeyValueCache {
  // Zeros in all `capacity` places.
  KeyValueCache() = delete;  // weft: it is made as nn::KeyValueCache(batch, heads, capacity, depth)
  KeyValueCache(std::int64_t batch, std::int64_t heads, std::int64_t capacity, std::int64_t depth, Options options = {},
                Loc loc = Loc::current());

  // Puts those of the tokens from `position` on. Stops the call where they do not fit.
  void update(At key, At value, const Index& position);
  // bool [length, capacity]: what the queries from `position` on see: all tokens up to themselves. Throws Error where
  // the position is negative; in a compiled function the check of update() is the one.
  Tensor mask(Dim length, const Index& position, Loc loc = Loc::current()) const;

  Buffer keys;    // [N, heads, capacity, depth]; zeros where no token is yet
  Buffer values;  // of the same shape
  WEFT_MEMBERS(keys, values)
};

// Keys and values of the tokens so far of texts that grow and end one by one, in pages of `page_size` tokens (Kwon and
// others 2023): a text takes a page when it needs one, and gives its pages back at its end. Who has which page says the
// block table, integers [N, most_pages]: token p of text n is in page block_table[n][p / page_size]. Texts with the
// same beginning may share its pages. Entries of pages that a text does not reach yet may be any, -1, say. As of
// KeyValueCache, in a compiled function that takes the cache by reference no more is written than what is new, and
// other positions, tables and pages are no new compilation.
struct PagedKeyValueCache {
  // Zeros in all pages. Throws Error where a size is not positive.
  PagedKeyValueCache() = delete;  // weft: it is made as nn::PagedKeyValueCache(pages, heads, page_size, depth)
  PagedKeyValueCache(std::int64_t pages, std::int64_t heads, std::int64_t page_size, std::int64_t depth,
                     Options options = {}, Loc loc = Loc::current());

  // Puts key and value [N, heads, T, depth], of the pages' dtype, to places positions[n], ..., positions[n] + T - 1 of
  // text n; positions: integers [N]. Texts with fewer than T new tokens have others after theirs, which nobody sees
  // until the text's own are written over them. Throws Error on other shapes and dtypes. Throws, or stops the call and
  // writes nothing, where a position is negative or beyond the table, or a place's page does not exist. Of two texts
  // that write into one page at one place, the last one stays.
  void update(At key, At value, At block_table, At positions);
  // Attention of queries [N, H, T, depth] at places positions[n], ... of text n, which see the text up to themselves:
  // [N, H, T, depth], as scaled_dot_product_attention gives it over each text's keys and values in a row. H is a
  // multiple of `heads`. A mod gets the places in the text as q and k; attn_mask and is_causal are none of its options.
  // Up to 16 queries a text, of f16 or bf16 on a GPU, without mods and dropout, read pages of a multiple of 16 tokens
  // where they lie, and what a text has not is not read. Else most_pages pages a text are gathered: a table is as wide
  // as the longest text of the call needs. Throws Error on other shapes and dtypes. Throws, or stops the call, where a
  // page that is seen does not exist.
  Tensor attention(At query, At block_table, At positions, const AttentionOptions& options = {}) const;

  Buffer keys;    // [pages, heads, page_size, depth]; zeros where no token has been
  Buffer values;  // of the same shape
  WEFT_MEMBERS(keys, values)
};

// ---- multi-head attention ------------------------------------------------------------------------------------------

struct MultiheadAttentionOptions {  // of MultiheadAttention
  double dropout = 0;        // the probability, in [0, 1), with which an attention weight becomes zero in training
  bool bias = true;          // of the projections of queries, keys, values and result
  std::int64_t kdim = 0;     // features of a key; 0: embed_dim
  std::int64_t vdim = 0;     // features of a value; 0: embed_dim
  bool batch_first = false;  // [N, L, E] in the place of [L, N, E]
  Options options = {};
};
struct AttentionMasks {          // of MultiheadAttention
  Tensor key_padding_mask = {};  // [N, S]: bool, true for keys that nobody sees; or numbers that are added
  Tensor attn_mask = {};   // [L, S] or [N * heads, L, S]: bool, true for keys that the query does not see; or numbers
  bool is_causal = false;  // query i sees keys 0 ... i, besides the masks
};
struct MultiheadResult {  // of MultiheadAttention
  Tensor output;          // of the query's shape
  Tensor weights;         // [N, heads, L, S], or [heads, L, S] of no batch; computed where it is used
};
// Projections of queries, keys and values, attention of `num_heads` heads, and a projection of the result, with the
// parameters and initial values of PyTorch's. Inputs [L, N, E] and [S, N, E], or [L, E] of no batch.
struct MultiheadAttention {
  MultiheadAttention() = delete;  // weft: it is made as nn::MultiheadAttention(embed_dim, num_heads)
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, MultiheadAttentionOptions options = {},
                     Loc loc = Loc::current());
  // query [L, N, E], key [S, N, kdim], value [S, N, vdim]; with batch_first N comes first, of no batch there is none.
  // Throws Error on other shapes.
  MultiheadResult operator()(At query, At key, At value, const AttentionMasks& masks = {}) const;
  // Draws the input's projections as xavier_uniform and the weight of out_proj as Linear does; all biases become 0.
  void initialize(Generator& generator);

  Param in_proj_weight;    // [3 E, E], where kdim and vdim are E; else undefined and frozen
  Param q_proj_weight;     // [E, E], where kdim or vdim is not E; else undefined and frozen
  Param k_proj_weight;     // [E, kdim], where q_proj_weight is defined
  Param v_proj_weight;     // [E, vdim], where q_proj_weight is defined
  Param in_proj_bias;      // [3 E]; undefined and frozen where there is none
  Linear out_proj;         // [E, E]: of the heads' results, side by side
  std::int64_t num_heads;  // divides E
  double dropout;          // the probability with which an attention weight becomes zero in training
  bool batch_first;
  bool training = true;
  WEFT_MEMBERS(in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, out_proj, num_heads, dropout,
               batch_first, training)
};

}  // namespace weft::nn
