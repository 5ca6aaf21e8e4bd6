// Attention over texts of several lengths that follow one another, as attention with a mask_mod. In: tokens, and where
// each text begins. Out: of each query the keys [first, end) that it sees, and its place in its text, as vectors that
// the mods capture: a mask costs two reads, and a tile of keys of other texts is never visited on a device.
#include "record/indexing.hpp"
#include "weft/nn/attention.hpp"

namespace weft::nn {
namespace {

constexpr const char* varlen = "varlen_attention";

Tensor offsets_of(const char* what, const At& given, const Tensor& tokens, Loc loc) {
  const Tensor offsets = integers(varlen, given, loc);
  const Shape& shape = type_of(offsets).shape;
  if (shape.rank() != 1 || shape[0] == Dim(0))
    fail(varlen, loc, "the offsets of ", what, " must be integers [texts + 1], they are ",
         to_string(type_of(resolve(given, varlen))));
  return to(offsets, type_of(tokens).device);
}

// The user's error where they do not divide the tokens into texts.
void check_offsets(const char* what, const Tensor& offsets, const Tensor& tokens, Loc loc) {
  const Tensor first = slice(offsets, 0, 0, -1), next = slice(offsets, 0, 1);
  const Tensor fits = (select(offsets, 0, 0) == 0) & all(first <= next) &
                      (select(offsets, 0, -1) == dim_value(type_of(tokens).shape[0], loc));
  require(fits, varlen, loc,
          concat_text("the offsets of ", what, " must begin at 0, not fall, and end at the number of tokens, ",
                      dims::to_string(type_of(tokens).shape[0])));
}

void check_tokens(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                  Loc loc) {
  const Type q = type_of(query), k = type_of(key), v = type_of(value);
  bool fits = q.shape.rank() == 3 && k.shape.rank() == 3 && v.shape.rank() == 3 && q.shape[2] == k.shape[2] &&
              k.shape[0] == v.shape[0] && k.shape[1] == v.shape[1] && is_floating(q.dtype) && q.dtype == k.dtype &&
              q.dtype == v.dtype;
  if (fits)
    fits = options.enable_gqa ? !(k.shape[1] == Dim(0)) && q.shape[1] % k.shape[1] == 0 : q.shape[1] == k.shape[1];
  if (!fits)
    fail(varlen, loc,
         "takes a query [tokens, heads, E], keys [tokens, heads, E] and values [tokens, heads, F] of one floating "
         "dtype: ",
         to_string(q), " x ", to_string(k), " x ", to_string(v));
  if (options.attn_mask.defined())
    fail(varlen, loc, "takes no attn_mask: a mask_mod may capture one, and gets places in the text");
}

}  // namespace

Tensor varlen_attention(At query, At key, At value, At query_offsets, At key_offsets, const AttentionOptions& options) {
  LooseComposite call(varlen, query.loc);
  const Loc loc = call.loc();
  const Tensor q = resolve(query, varlen), k = resolve(key, varlen), v = resolve(value, varlen);
  check_tokens(q, k, v, options, loc);
  const bool are_one = query_offsets.tensor && key_offsets.tensor && query_offsets.tensor->same(*key_offsets.tensor);
  const Tensor of_queries = offsets_of("queries", query_offsets, q, loc),
               of_keys = are_one ? of_queries : offsets_of("keys", key_offsets, k, loc);
  if (!(type_of(of_queries).shape[0] == type_of(of_keys).shape[0]))
    fail(varlen, loc, "queries and keys must be of as many texts, they have ",
         dims::to_string(type_of(of_queries).shape[0]), " and ", dims::to_string(type_of(of_keys).shape[0]),
         " offsets");
  check_offsets("queries", of_queries, q, loc);
  if (!are_one || !type_of(q).shape[0].same(type_of(k).shape[0])) check_offsets("keys", of_keys, k, loc);

  // Of each query; whatever the offsets are, nothing is read out of range.
  const auto read = [&](const Tensor& table, const Tensor& at) { return record(Op::gather, {table, at}, {}, {}, loc); };
  const auto narrow = [](const Tensor& places) { return cast(places, DType::i32); };
  const Tensor place = positions(0, Shape::of(type_of(q).shape[0]), type_of(q).device, loc);
  const Tensor last = dim_value(type_of(of_queries).shape[0] - Dim(2), loc);
  const Tensor text = maximum(minimum(searchsorted(of_queries, place, true) - 1, last), 0);
  const Tensor first_of_keys = read(of_keys, text), end_of_keys = read(of_keys, text + 1);
  const Tensor in_text = place - read(of_queries, text + 1) + end_of_keys - first_of_keys;
  const Tensor end = options.is_causal ? minimum(end_of_keys, maximum(in_text, -1) + first_of_keys + 1) : end_of_keys;
  struct Places {
    Tensor text, place, first, end;  // i32 [tokens]
  };
  const Places of{narrow(text), narrow(in_text), narrow(first_of_keys), narrow(end)};

  AttentionOptions inner = options;
  inner.is_causal = false;
  inner.mask_mod = [of, mask = options.mask_mod](auto, auto h, auto q, auto k) {
    const Tensor first = of.first[q], sees = (k >= first) & (k < of.end[q]);
    return mask.defined() ? sees & mask(of.text[q], h, of.place[q], k - first) : sees;
  };
  if (options.score_mod.defined())
    inner.score_mod = [of, score_mod = options.score_mod](auto score, auto, auto h, auto q, auto k) {
      return score_mod(score, of.text[q], h, of.place[q], k - of.first[q]);
    };
  const auto heads_first = [](const Tensor& x) { return transpose(x, 0, 1); };
  return heads_first(scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), inner));
}

}  // namespace weft::nn
