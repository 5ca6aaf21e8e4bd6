// Keys and values in pages. In: a table that says which page is whose. Out: rows of the flattened pages that are
// written in place, and of each text its pages in a row, under a mask of what it has.
#include "nn/attention.hpp"
#include "record/attention_mods.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/nn/attention.hpp"

namespace weft::nn {
namespace {

constexpr const char* paged = "paged_key_value_cache";

// Sizes of the pages, and the integers that say where texts are.
struct Texts {
  Type pages;  // [pages, heads, page_size, depth]
  Tensor table, positions;

  Texts(const Type& pages, const Tensor& table, const Tensor& positions)
      : pages(pages), table(table), positions(positions) {}
  Texts(const Buffer& keys, const At& block_table, const At& positions_, Loc loc)
      : pages(type_of(resolve(At(keys.tensor(), loc), paged))),
        table(to(integers(paged, block_table, loc), pages.device)),
        positions(to(integers(paged, positions_, loc), pages.device)) {
    const Shape &of_table = type_of(table).shape, &of_positions = type_of(positions).shape;
    if (of_table.rank() != 2 || of_positions.rank() != 1 || !(of_table[0] == of_positions[0]) || of_table[1] == Dim(0))
      fail(paged, loc, "takes a block table, integers [texts, most pages], and positions, integers [texts]: ",
           to_string(type_of(resolve(block_table, paged))), " and ", to_string(type_of(resolve(positions_, paged))));
  }
  Dim texts() const { return type_of(table).shape[0]; }
  Dim capacity() const { return type_of(table).shape[1] * pages.shape[2]; }
  // [N, T]: the places of T tokens.
  Tensor places(Dim tokens, Loc loc) const {
    const Shape shape = Shape::of(texts(), tokens);
    return unsqueeze(positions, 1) + weft::positions(1, shape, pages.device, loc);
  }
  // Of each number whether it is a page's.
  Tensor are_pages(const Tensor& numbers, Loc loc) const {
    return (numbers >= 0) & (numbers < dim_value(pages.shape[0], loc));
  }
};

void check_new(const char* what, const Tensor& given, const Texts& texts, Loc loc) {
  const Type type = type_of(given);
  const Shape& shape = type.shape;
  if (shape.rank() != 4 || type.dtype != texts.pages.dtype || !(shape[0] == texts.texts()) ||
      !(shape[1] == texts.pages.shape[1]) || !(shape[3] == texts.pages.shape[3]))
    fail(paged, loc, "the ", what,
         " must be [texts, heads, tokens, depth] in the dtype of the pages: ", to_string(type), " into pages ",
         to_string(texts.pages), " of ", dims::to_string(texts.texts()), " texts");
}

// The attention as functions of one tensor have it: of each text its pages in a row. What nobody sees is 0: another
// text may have left anything there. `stats` as attention_by.
Tensor attend(const Tensor& query, const Tensor& keys, const Tensor& values, const Texts& texts,
              AttentionOptions options, Tensor* stats, Loc loc) {
  const Shape pages = texts.pages.shape;
  const Dim tokens = type_of(query).shape[2];
  const Tensor last = texts.positions + dim_value(tokens - Dim(1), loc);  // [N]: the last place that is seen
  const Tensor page = clamp(texts.table, 0, dim_value(pages[0] - Dim(1), loc));
  const Tensor key_place = weft::positions(0, Shape::of(texts.capacity()), texts.pages.device, loc);
  const Tensor is_text = reshape(key_place <= unsqueeze(last, 1), {texts.texts(), 1, texts.capacity(), 1});
  const auto in_a_row = [&](const Tensor& from) {
    const Tensor taken = record(Op::gather, {from, page}, {}, {}, loc);
    const Tensor row = reshape_to(permute(taken, {0, 2, 1, 3, 4}),
                                  Shape::of(texts.texts(), pages[1], texts.capacity(), pages[3]), loc);
    return where(is_text, row, 0);
  };
  if (!options.score_mod.defined() && !options.mask_mod.defined()) {
    options.attn_mask = unsqueeze(key_place <= unsqueeze(texts.places(tokens, loc), 2), 1);
  } else {
    const Tensor first = cast(texts.positions, DType::i32);
    options.mask_mod = [first, mask = options.mask_mod](auto b, auto h, auto q, auto k) {
      const Tensor place = first[b] + q, sees = k <= place;
      return mask.defined() ? sees & mask(b, h, place, k) : sees;
    };
    if (options.score_mod.defined())
      options.score_mod = [first, score_mod = options.score_mod](auto score, auto b, auto h, auto q, auto k) {
        return score_mod(score, b, h, first[b] + q, k);
      };
  }
  return attention_by(nullptr, query, in_a_row(keys), in_a_row(values), options, stats);
}

// Whether a device may do it whole, reading the pages where they lie (src/providers/split_attention.cpp).
bool may_be_whole(const Tensor& query, const Texts& texts, const AttentionOptions& options) {
  constexpr std::int64_t most_tokens = 16, rows_together = 16, features_together = 8, most_features = 256;
  const Shape &shape = type_of(query).shape, &pages = texts.pages.shape;
  for (const Dim dim : {shape[1], shape[2], shape[3], pages[0], pages[2]})
    if (!dim.is_constant()) return false;
  const bool plain = !options.score_mod.defined() && !options.mask_mod.defined() && options.dropout_p == 0;
  return plain && attention_may_be_whole(type_of(query)) && shape[2].constant() >= 1 &&
         shape[2].constant() <= most_tokens && pages[2].constant() % rows_together == 0 &&
         shape[3].constant() % features_together == 0 && shape[3].constant() <= most_features;
}

}  // namespace

PagedKeyValueCache::PagedKeyValueCache(std::int64_t pages, std::int64_t heads, std::int64_t page_size,
                                       std::int64_t depth, Options options, Loc loc) {
  const LooseComposite call(paged, loc);
  if (pages < 1 || heads < 1 || page_size < 1 || depth < 1)
    fail(paged, call.loc(), "pages, heads, their size and depth must be positive: ", pages, ", ", heads, ", ",
         page_size, ", ", depth);
  keys = zeros({pages, heads, page_size, depth}, options, loc);
  values = zeros({pages, heads, page_size, depth}, options, loc);
}

void PagedKeyValueCache::update(At key, At value, At block_table, At positions) {
  LooseComposite call(paged, key.loc);
  const Loc loc = call.loc();
  const Texts texts(keys, block_table, positions, loc);
  const Tensor new_keys = resolve(key, paged), new_values = resolve(value, paged);
  check_new("keys", new_keys, texts, loc), check_new("values", new_values, texts, loc);
  const Shape shape = type_of(new_keys).shape;
  if (!(type_of(new_values).shape == shape))
    fail(paged, loc, "keys and values must be of as many tokens: ", to_string(type_of(new_keys)), " and ",
         to_string(type_of(new_values)));
  if (shape.element_count() == Dim(0)) return;
  const Shape& pages = texts.pages.shape;
  const Tensor place = texts.places(shape[2], loc);
  require(all((place >= 0) & (place < dim_value(texts.capacity(), loc))), paged, loc,
          concat_text("a position is out of range [0, ", dims::to_string(texts.capacity()), "), where ",
                      dims::to_string(shape[2]), " tokens of a text are written"));
  // [N, T] pages, [N, heads, T] rows of `depth` elements, in the order of the keys.
  const Tensor size = dim_value(pages[2], loc), most = dim_value(texts.capacity() - Dim(1), loc);
  const Tensor inside = maximum(minimum(place, most), 0);
  const Tensor text = weft::positions(0, Shape::of(shape[0], shape[2]), texts.pages.device, loc);
  const Tensor entry = text * dim_value(type_of(texts.table).shape[1], loc) + floor_divide(inside, size);
  const Tensor page = record(Op::gather, {flatten(texts.table), entry}, {}, {}, loc);
  require(all(texts.are_pages(page, loc)), paged, loc,
          concat_text("the block table names a page out of range [0, ", dims::to_string(pages[0]),
                      ") for a token that is written"));
  const Tensor head = weft::positions(1, Shape::of(Dim(1), pages[1], Dim(1)), texts.pages.device, loc);
  const Tensor row = (unsqueeze(page, 1) * dim_value(pages[1], loc) + head) * size + unsqueeze(inside % size, 1);
  const Dim all_rows = pages[0] * pages[1] * pages[2];
  const auto write = [&](Buffer& to, const Tensor& updates) {
    const Tensor rows = reshape_to(to.tensor(), Shape::of(all_rows, pages[3]), loc);
    const Tensor written = update_rows(rows, 0, flatten(row), flatten(updates, 0, 2), false, loc);
    to = reshape_to(written, pages, loc);
  };
  write(keys, new_keys), write(values, new_values);
}

Tensor PagedKeyValueCache::attention(At query, At block_table, At positions, const AttentionOptions& options) const {
  LooseComposite call(paged, query.loc);
  const Loc loc = call.loc();
  const Texts texts(keys, block_table, positions, loc);
  const Shape& pages = texts.pages.shape;
  const Tensor q = resolve(query, paged);
  const Shape shape = type_of(q).shape;
  if (shape.rank() != 4 || type_of(q).dtype != texts.pages.dtype || !(shape[0] == texts.texts()) ||
      !(shape[1] % pages[1] == Dim(0)) || !(shape[3] == pages[3]))
    fail(paged, loc, "takes queries [texts, heads, tokens, depth] in the dtype of the pages: ", to_string(type_of(q)),
         " to pages ", to_string(texts.pages), " of ", dims::to_string(texts.texts()), " texts");
  if (options.attn_mask.defined() || options.is_causal)
    fail(paged, loc,
         "takes neither attn_mask nor is_causal: a query sees its text up to itself, a mask_mod may hide "
         "more");
  const Dim most = type_of(texts.table).shape[1];
  const Tensor last = texts.positions + dim_value(shape[2] - Dim(1), loc);  // [N]: the last place that is seen
  const Tensor first_of_page =
      weft::positions(1, Shape::of(Dim(1), most), texts.pages.device, loc) * dim_value(pages[2], loc);
  require(all((first_of_page > unsqueeze(last, 1)) | texts.are_pages(texts.table, loc)), paged, loc,
          concat_text("the block table names a page out of range [0, ", dims::to_string(pages[0]),
                      ") for a token that is seen"));
  AttentionOptions inner = options;
  inner.enable_gqa = true;
  const Tensor of_keys = resolve(At(keys.tensor(), loc), paged), of_values = resolve(At(values.tensor(), loc), paged);
  if (!may_be_whole(q, texts, options)) return attend(q, of_keys, of_values, texts, inner, nullptr, loc);
  inner.scale = options.scale != 0 ? options.scale : usual_scale(static_cast<std::int64_t>(shape[3]));
  const AttentionCall how{called("paged_attention"), inner.scale};
  Tensor operands[] = {q, of_keys, of_values, cast(texts.table, DType::i64), cast(texts.positions, DType::i64)};
  Tensor results[2];
  composite(how, operands, results, loc, [&](std::span<const Tensor> in, std::span<Tensor> made) {
    made[0] = attend(in[0], in[1], in[2], {type_of(in[1]), in[3], in[4]}, inner, &made[1], {});
  });
  return results[0];
}

}  // namespace weft::nn
