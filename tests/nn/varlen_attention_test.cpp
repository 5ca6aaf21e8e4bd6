// Attention over texts of several lengths that follow one another, against each text alone by products and a softmax:
// values and gradients, eager, compiled and of symbolic totals; what is refused.
#include <cmath>
#include <limits>

#include "tests/loops/support.hpp"
#include "tests/message_of.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using loops_test::check_close;
using loops_test::noise;
using weft::test::refused;

namespace {

using Tensors = std::vector<Tensor>;
using Lengths = std::vector<std::int64_t>;

Tensor offsets_of(const Lengths& lengths, DType dtype = DType::i32) {
  std::vector<std::int64_t> all{0};
  for (const std::int64_t each : lengths) all.push_back(all.back() + each);
  return cast(from_span(std::span<const std::int64_t>(all), {static_cast<std::int64_t>(all.size())}), dtype);
}
std::int64_t total(const Lengths& lengths) {
  std::int64_t all = 0;
  for (const std::int64_t each : lengths) all += each;
  return all;
}

enum class Mods : std::uint8_t { none, causal, window, all };
constexpr Mods all_mods[] = {Mods::none, Mods::causal, Mods::window, Mods::all};

// x: query, key, value, and a bias [H, 64] that Mods::all reads.
struct Own {
  Tensor query_offsets, key_offsets;
  Mods mods;
  Tensor operator()(const Tensors& x) const {
    nn::AttentionOptions options{.is_causal = mods != Mods::none, .scale = 0.7, .enable_gqa = true};
    if (mods == Mods::window) options.mask_mod = nn::sliding_window(2);
    if (mods == Mods::all) {
      options.mask_mod = [](auto b, auto h, auto q, auto k) { return (b != 1) | (q % 2 == 0) | (h + k > 1); };
      options.score_mod = [bias = x[3]](auto score, auto b, auto h, auto q, auto k) {
        return 2 * tanh(score) + bias[h][q - k + 8] * (b + 1);
      };
    }
    return nn::varlen_attention(x[0], x[1], x[2], query_offsets, key_offsets, options);
  }
};
// The same by hand, text by text.
struct ByHand {
  Lengths queries, keys;
  Mods mods;
  Tensor operator()(const Tensors& x) const {
    Tensors all;
    std::int64_t q0 = 0, k0 = 0;
    const auto heads = static_cast<std::int64_t>(x[0].size(1));
    for (std::size_t text = 0; text < queries.size(); q0 += queries[text], k0 += keys[text], ++text) {
      const std::int64_t n = queries[text], m = keys[text];
      if (n == 0) continue;
      if (m == 0) {
        all.push_back(zeros({n, heads, static_cast<std::int64_t>(x[2].size(2))}, {DType::f64}));
        continue;
      }
      const auto part = [&](const Tensor& x, std::int64_t first, std::int64_t count) {
        return repeat_interleave(transpose(narrow(x, 0, first, count), 0, 1),
                                 heads / static_cast<std::int64_t>(x.size(1)), 0);
      };
      const Tensor q = part(x[0], q0, n), k = part(x[1], k0, m), v = part(x[2], k0, m);
      const Tensor at = unsqueeze(arange(n), 1) + (m - n), key_at = arange(m);
      const Tensor head = reshape(arange(heads), {heads, 1, 1});
      Tensor scores = matmul(q, transpose(k)) * 0.7, sees = expand((at < m) | (key_at < 0), {heads, n, m});
      if (mods != Mods::none) sees = sees & (key_at <= at);
      if (mods == Mods::window) sees = sees & (abs(at - key_at) < 2);
      if (mods == Mods::all) {
        if (text == 1) sees = sees & ((at % 2 == 0) | (head + key_at > 1));
        const Tensor place = where(sees, head * 64 + (at - key_at + 8), 0);
        scores = 2 * tanh(scores) + gather(flatten(x[3]), place) * static_cast<double>(text + 1);
      }
      const Tensor any_seen = any(sees, -1, true);
      const Tensor weights = softmax(where(sees | ~any_seen, scores, -std::numeric_limits<double>::infinity()), -1);
      all.push_back(transpose(matmul(where(any_seen, weights, 0), v), 0, 1));
    }
    return concat(all, 0);
  }
};

// f(x), and the gradients of x by one loss.
template <class F>
Tensors both(const Tensors& x, const F& f) {
  Tensors all{f(x)};
  const Tensors slopes = grad(
      [&](const Tensors& at) {
        const Tensor made = f(at);
        return sum(made * reshape(cos(cast(arange(made.element_count()), made.dtype())), made.shape()));
      },
      x);
  all.insert(all.end(), slopes.begin(), slopes.end());
  return all;
}
void check_lists(const Tensors& found, const Tensors& expected, double tolerance = 1e-11) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    check_close(found[i], expected[i], tolerance);
  }
}
Tensors inputs(const Lengths& queries, const Lengths& keys, std::int64_t heads, std::int64_t groups) {
  return {noise({total(queries), heads, 4}, 1), noise({total(keys), groups, 4}, 2), noise({total(keys), groups, 3}, 3),
          noise({heads, 64}, 4)};
}

struct Texts {
  Lengths queries, keys;
};
const Texts several[] = {{{3, 0, 5, 1}, {3, 0, 5, 1}},  // as in training
                         {{1, 3, 2}, {4, 3, 7}},        // chunks over caches
                         {{4, 2, 3}, {2, 0, 3}},        // more queries than keys, and no keys
                         {{6}, {6}}};

}  // namespace

TEST_CASE("varlen_attention gives what each text gives alone, with its gradients") {
  for (const Texts& texts : several)
    for (const Mods mods : all_mods) {
      CAPTURE(static_cast<int>(mods));
      CAPTURE(texts.queries.size());
      const Tensors x = inputs(texts.queries, texts.keys, 4, 2);
      const Own own{offsets_of(texts.queries), offsets_of(texts.keys, DType::i64), mods};
      check_lists(both(x, own), both(x, ByHand{texts.queries, texts.keys, mods}));
    }
}

TEST_CASE("varlen_attention compiled: other offsets, and totals that are symbols, are no new compilation") {
  for (const Mods mods : all_mods) {
    CAPTURE(static_cast<int>(mods));
    auto compiled = compile(
        [](const Tensors& x, const Tensor& of_queries, const Tensor& of_keys, const Mods& mods) {
          return both(x, Own{of_queries, of_keys, mods});
        },
        {.dynamic = true, .on_compile_error = OnFailure::raise});
    for (const Texts& texts : {Texts{{1, 3, 2}, {4, 3, 7}}, Texts{{3, 0, 5}, {3, 0, 5}}, Texts{{5, 4, 2}, {2, 4, 3}}}) {
      const Tensors x = inputs(texts.queries, texts.keys, 4, 2);
      check_lists(compiled(x, offsets_of(texts.queries), offsets_of(texts.keys), mods),
                  both(x, ByHand{texts.queries, texts.keys, mods}));
    }
    CHECK(specialization_count(compiled) == 1);
  }
}

TEST_CASE("varlen_attention over 16-bit floats, and with dropout") {
  const Lengths lengths{3, 4};
  const Tensors x = inputs(lengths, lengths, 2, 2);
  const Tensor offsets = offsets_of(lengths);
  const Tensor expected = nn::varlen_attention(x[0], x[1], x[2], offsets, offsets);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor found =
        nn::varlen_attention(cast(x[0], dtype), cast(x[1], dtype), cast(x[2], dtype), offsets, offsets);
    CHECK(found.dtype() == dtype);
    check_close(cast(found, DType::f64), expected, 0.02);
  }
  Generator one(3), same(3);
  const auto dropped = [&](Generator& generator) {
    return nn::varlen_attention(x[0], x[1], x[2], offsets, offsets, {.dropout_p = 0.5, .generator = &generator});
  };
  const Tensor first = dropped(one);
  check_close(dropped(same), first, 0);
  CHECK(max(abs(first - expected)).item() > 0.01);
}

TEST_CASE("varlen_attention: offsets that divide no tokens are an error when computed, other shapes when recorded") {
  const Tensors x = inputs({7}, {7}, 2, 2);
  const auto attend = [&](const Tensor& of_queries, const Tensor& of_keys, Loc loc = Loc::current()) {
    return nn::varlen_attention(At(x[0], loc), x[1], x[2], of_queries, of_keys);
  };
  const Tensor right = from_list<std::int32_t>({0, 3, 7});
  const auto wrong = [&](const Tensor& offsets) {
    const char* const of_queries =
        "[varlen_attention] the offsets of queries must begin at 0, not fall, and end at the number of tokens, 7";
    refused([&] { attend(offsets, right); }, of_queries);
    refused([&] { attend(right, offsets); }, "the offsets of keys must begin at 0");
    auto compiled = compile([](const Tensors& x, const Tensor& offsets) {
      return nn::varlen_attention(x[0], x[1], x[2], offsets, offsets);
    });
    CHECK(weft::test::message_of([&] { compiled(x, offsets).eval(); }).find(of_queries) == 0);
    check_close(compiled(x, right), attend(right, right));
  };
  wrong(from_list<std::int32_t>({0, 8, 7}));
  wrong(from_list<std::int32_t>({0, -1, 7}));
  wrong(from_list<std::int32_t>({1, 3, 7}));
  wrong(from_list<std::int32_t>({0, 3, 6}));
  wrong(from_list<std::int32_t>({0, 3, 8}));
  const Tensor one = from_list<std::int32_t>({0, 7}), table = reshape(right, {1, 3});
  refused([&] { attend(right, one); }, "queries and keys must be of as many texts, they have 3 and 2 offsets");
  refused([&] { attend(ones({3}), right); }, "varlen_attention");
  refused([&] { attend(table, right); }, "the offsets of queries must be integers [texts + 1], they are i32[1,3]");
  const auto with = [&](const Tensor& q, const nn::AttentionOptions& options, Loc loc = Loc::current()) {
    nn::varlen_attention(At(q, loc), x[1], x[2], right, right, options);
  };
  refused([&] { with(noise({7, 4, 4}, 1), {}); }, "takes a query [tokens, heads, E], keys [tokens, heads, E]");
  refused([&] { with(noise({7, 3, 4}, 1), {.enable_gqa = true}); }, "takes a query [tokens, heads, E]");
  refused([&] { with(cast(x[0], DType::f32), {}); }, "of one floating dtype: f32[7,2,4] x f64[7,2,4]");
  refused([&] { with(x[0], {.attn_mask = ones({7, 7})}); }, "takes no attn_mask");
}
