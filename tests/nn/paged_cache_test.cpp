// A paged cache of keys and values against KeyValueCache: the same tokens give the same results, whatever pages have
// them; pages that are shared, freed and used again; one compilation; nothing is copied; what is refused.
#include <limits>

#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "tests/loops/support.hpp"
#include "tests/message_of.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using loops_test::check_close;
using loops_test::noise;
using weft::test::refused;

namespace {

constexpr std::int64_t heads = 2, queries = 4, depth = 4, page_size = 3;

nn::PagedKeyValueCache cache_of(std::int64_t pages) {
  return nn::PagedKeyValueCache(pages, heads, page_size, depth, {DType::f64});
}
// Of text `seed` from `first` on.
struct Tokens {
  Tensor q, k, v;  // [1, heads, count, depth]
};
Tokens tokens_of(int seed, std::int64_t first, std::int64_t count) {
  const auto part = [&](std::int64_t of_heads, std::uint64_t kind) {
    return narrow(noise({1, of_heads, 16, depth}, static_cast<std::uint64_t>(seed) * 10 + kind), 2, first, count);
  };
  return {part(queries, 1), part(heads, 2), part(heads, 3)};
}
// What text `seed` gives at these tokens, by a cache of its own.
Tensor alone(int seed, std::int64_t first, std::int64_t count) {
  nn::KeyValueCache cache(1, heads, 16, depth, {DType::f64});
  const Tokens all = tokens_of(seed, 0, first + count), own = tokens_of(seed, first, count);
  cache.update(all.k, all.v, 0);
  return nn::scaled_dot_product_attention(own.q, cache.keys, cache.values,
                                          {.attn_mask = cache.mask(count, first), .enable_gqa = true});
}

struct Step {
  static Tensor run(nn::PagedKeyValueCache& cache, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& table, const Tensor& positions) {
    cache.update(k, v, table, positions);
    return cache.attention(q, table, positions);
  }
};

// A step of `count` tokens of each of these texts; texts of a batch are at places of their own.
struct Text {
  int seed;
  std::int64_t at;
  std::vector<std::int32_t> pages;
};
template <class F>
void check_step(F& step, nn::PagedKeyValueCache& cache, std::vector<Text>& texts, std::int64_t count) {
  std::vector<Tensor> q, k, v, expected;
  std::vector<std::int32_t> table, positions;
  for (const Text& text : texts) {
    const Tokens own = tokens_of(text.seed, text.at, count);
    q.push_back(own.q), k.push_back(own.k), v.push_back(own.v);
    expected.push_back(alone(text.seed, text.at, count));
    table.insert(table.end(), text.pages.begin(), text.pages.end());
    positions.push_back(static_cast<std::int32_t>(text.at));
  }
  const auto ints = [](const std::vector<std::int32_t>& all, Sizes sizes) {
    return from_span(std::span<const std::int32_t>(all), sizes);
  };
  const auto n = static_cast<std::int64_t>(texts.size());
  check_close(step(cache, concat(q, 0), concat(k, 0), concat(v, 0),
                   ints(table, {n, static_cast<std::int64_t>(table.size()) / n}), ints(positions, {n})),
              concat(expected, 0));
  for (Text& text : texts) text.at += count;
}

}  // namespace

TEST_CASE("a paged cache gives what KeyValueCache gives: texts of several lengths, pages in any order, used again") {
  auto compiled = compile(Step::run, {.on_compile_error = OnFailure::raise});
  auto eager = [](auto&&... all) { return Step::run(all...); };
  const auto run = [](auto& step) {
    nn::PagedKeyValueCache cache = cache_of(7);
    std::vector<Text> texts{{1, 0, {6, 1, 4, 2}}};
    check_step(step, cache, texts, 4);  // a prompt of a text alone
    check_step(step, cache, texts, 1);
    texts.push_back({2, 0, {0, 5, -1, 99}});
    for (int i = 0; i < 3; ++i) check_step(step, cache, texts, 1);  // at places 5 and 0
    check_step(step, cache, texts, 2);
    texts.erase(texts.begin());  // text 1 ends: its pages are text 3's, in another order
    texts.push_back({3, 0, {4, 6, 1, 2}});
    texts[0].pages[2] = 3;
    for (int i = 0; i < 4; ++i) check_step(step, cache, texts, 1);
  };
  run(compiled);
  run(eager);
}

TEST_CASE("a paged cache in a compiled step: nothing is copied, and other positions and pages are no new compilation") {
  auto step = compile(
      [](nn::PagedKeyValueCache& cache, const Tensor& k, const Tensor& v, const Tensor& table, const Tensor& at) {
        cache.update(k, v, table, at);
        return sum(cache.keys);
      },
      {.on_compile_error = OnFailure::raise});
  nn::PagedKeyValueCache cache(1 << 12, heads, 16, depth);
  const Tensor row = ones({2, heads, 1, depth});
  const auto of = [](std::initializer_list<std::int32_t> all) { return from_list(all); };
  const Tensor table = reshape(of({7, 4095, 3, 12}), {2, 2}), other = reshape(of({1, 4095, 2, 12}), {2, 2});
  CHECK(step(cache, row, row, table, of({0, 5})).item() == 16);
  const void* const place = storage_of(cache.keys)->data;
  CHECK(step(cache, row * 2, row, table, of({1, 31})).item() == 48);
  CHECK(step(cache, row * 3, row, other, of({16, 16})).item() == 96);
  CHECK(storage_of(cache.keys)->data == place);
  CHECK(specialization_count(step) == 1);
  CHECK(explain(step, cache, row, row, table, of({0, 5})).arena_bytes < 1 << 16);
  CHECK(sum(select(cache.keys, 0, 4095)).item() == 24);
}

TEST_CASE("texts share the pages of a common beginning; what another text left in a page is not seen") {
  nn::PagedKeyValueCache cache = cache_of(4);
  cache.keys = full({4, heads, page_size, depth}, std::numeric_limits<double>::quiet_NaN(), {DType::f64});
  cache.values = full({4, heads, page_size, depth}, std::numeric_limits<double>::infinity(), {DType::f64});
  const Tokens all = tokens_of(1, 0, 5);
  const auto part = [](const Tensor& x, std::int64_t first, std::int64_t count) { return narrow(x, 2, first, count); };
  const Tensor two = from_list<std::int32_t>({3, 3}), one = from_list<std::int32_t>({0});
  cache.update(part(all.k, 0, 3), part(all.v, 0, 3), reshape(from_list<std::int32_t>({2, -1}), {1, 2}), one);
  const Tensor table = reshape(from_list<std::int32_t>({2, 0, 2, 3}), {2, 2});
  const auto both = [](const Tensor& x) { return concat({x, x}, 0); };
  cache.update(both(part(all.k, 3, 2)), both(part(all.v, 3, 2)), table, two);
  check_close(cache.attention(both(part(all.q, 3, 2)), table, two), both(alone(1, 3, 2)));
}

TEST_CASE("mods over a paged cache get places of the text") {
  nn::PagedKeyValueCache cache = cache_of(4);
  const Tokens all = tokens_of(1, 0, 7);
  const Tensor table = reshape(from_list<std::int64_t>({2, 0, 3}), {1, 3}), slopes = noise({queries}, 5);
  cache.update(all.k, all.v, table, from_list<std::int64_t>({0}));
  const nn::AttentionOptions mods{.scale = 0.3, .score_mod = nn::alibi(slopes), .mask_mod = nn::sliding_window(3)};
  const Tensor q = narrow(all.q, 2, 5, 2), k = repeat_interleave(all.k, 2, 1), v = repeat_interleave(all.v, 2, 1);
  const Tensor at = unsqueeze(arange(2), 1) + 5, key_at = arange(7);
  const Tensor scores = matmul(q, transpose(k)) * 0.3 - reshape(slopes, {queries, 1, 1}) * abs(at - key_at);
  const Tensor sees = (key_at <= at) & (abs(at - key_at) < 3);
  check_close(cache.attention(q, table, from_list<std::int64_t>({5}), mods),
              matmul(softmax(where(sees, scores, -std::numeric_limits<double>::infinity()), -1), v));
}

TEST_CASE("what a paged cache has not is refused, and nothing is written") {
  nn::PagedKeyValueCache cache = cache_of(4);
  const Tensor row = noise({1, heads, 2, depth}, 1), query = noise({1, queries, 2, depth}, 1);
  const Tensor table = reshape(from_list<std::int32_t>({1, 4, 2}), {1, 3});
  const auto at = [](std::int32_t position) { return from_list({position}); };
  refused([&] { cache.update(row, row, table, at(-1)); },
          "[paged_key_value_cache] a position is out of range [0, 9), where 2 tokens of a text are written");
  refused([&] { cache.update(row, row, table, at(8)); }, "a position is out of range [0, 9)");
  refused([&] { cache.update(row, row, table, at(2)); },
          "names a page out of range [0, 4) for a token that is written");
  refused([&] { cache.attention(query, table, at(2)); }, "names a page out of range [0, 4) for a token that is seen");
  CHECK(max(abs(cache.keys)).item() == 0);
  cache.update(row, row, table, at(1));
  cache.attention(query, table, at(1));
  refused([&] { cache.update(cast(row, DType::f32), row, table, at(0)); }, "the keys must be [texts, heads, tokens, ");
  refused([&] { cache.update(row, query, table, at(0)); }, "the values must be [texts, heads, tokens, depth]");
  refused([&] { cache.update(row, row, flatten(table), at(0)); }, "takes a block table, integers [texts, most pages]");
  refused([&] { cache.attention(query, table, from_list<std::int32_t>({0, 1})); }, "i32[1,3] and i32[2]");
  refused([&] { cache.attention(noise({1, 3, 2, depth}, 1), table, at(0)); }, "takes queries [texts, heads, tokens, ");
  refused([&] { cache.attention(query, table, at(0), {.is_causal = true}); }, "takes neither attn_mask nor is_causal");
  refused([&] { nn::PagedKeyValueCache(0, 1, 1, 1); }, "must be positive: 0, 1, 1, 1");
  auto step = compile(Step::run);
  const Tensor before = cache.keys.tensor() + 0;
  CHECK(weft::test::message_of([&] { step(cache, query, row, row, table, at(2)).eval(); }).find("that is written") !=
        std::string::npos);
  check_close(cache.keys.tensor(), before, 0);
}
