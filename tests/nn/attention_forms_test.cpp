// What masks, functions of scores, shapes and dropout make of attention, against PyTorch's numbers: results and all
// gradients, eager, compiled and of symbolic sizes. Shapes that models use; dropout against the weights that it drew;
// queries that see nothing.
#include <cmath>
#include <limits>

#include "tests/nn/golden_list.hpp"

using namespace weft;
using golden_test::wave;
using loops_test::check_close;
using loops_test::noise;

namespace {

using Tensors = std::vector<Tensor>;

const std::vector<double> golden[] = {
#include "tests/nn/attention_forms_golden.inc"
};
constexpr double infinity = std::numeric_limits<double>::infinity();

enum class Form : std::uint8_t { causal, window, documents, blocks, alibi, relative_bias, capped, tables, mla, varlen };

struct Attention {
  Form form;
  Tensor query_offsets = {}, key_offsets = {};  // of texts
  Tensors operator()(const Tensors& x) const {
    const auto attend = [&](nn::AttentionOptions options) {
      options.enable_gqa = true;
      return Tensors{nn::scaled_dot_product_attention(x[0], x[1], x[2], options)};
    };
    switch (form) {
      case Form::causal: return attend({.is_causal = true});
      case Form::window: return attend({.mask_mod = nn::causal() & nn::sliding_window(2)});
      case Form::documents: return attend({.mask_mod = nn::document_mask(floor_divide(arange(6), 2))});
      case Form::blocks: {
        const Tensor distance = unsqueeze(arange(3), 1) - arange(2), blocks = (distance == 0) | (distance == 1);
        return attend(
            {.mask_mod = [&](auto, auto, auto q, auto k) { return blocks[floor_divide(q, 2)][floor_divide(k, 3)]; }});
      }
      case Form::alibi: return attend({.is_causal = true, .score_mod = nn::alibi(x[3])});
      case Form::relative_bias:
        return attend({.score_mod = [bias = x[3]](auto score, auto, auto h, auto q, auto k) {
          return score + bias[h][q - k + 5];
        }});
      case Form::capped:
        return attend({.score_mod = nn::soft_cap(0.5), .mask_mod = nn::document_mask(floor_divide(arange(6), 2))});
      case Form::tables:
        return attend({.score_mod = [table = x[3], factor = x[4]](auto score, auto b, auto, auto q,
                                                                  auto k) { return score * factor + table[b][q] * k; },
                       .mask_mod = [](auto b, auto h, auto q, auto) { return (q + b + h) % 3 != 0; }});
      case Form::mla: {
        Shape shared = x[2].shape();
        shared[3] = x[3].shape()[3];
        return {
            nn::scaled_dot_product_attention(concat({x[0], x[1]}, -1), concat({x[2], expand(x[3], shared)}, -1), x[4])};
      }
      case Form::varlen:
        return {nn::varlen_attention(x[0], x[1], x[2], query_offsets, key_offsets,
                                     {.is_causal = true, .enable_gqa = true})};
    }
    return {};
  }
};

void check(Form form, std::initializer_list<Sizes> more) {
  CAPTURE(static_cast<int>(form));
  Tensors inputs;
  if (form < Form::mla) inputs = {wave({2, 4, 5, 3}, 30), wave({2, 2, 6, 3}, 31), wave({2, 2, 6, 2}, 32)};
  for (const Sizes& sizes : more) inputs.push_back(wave(sizes, 30 + static_cast<int>(inputs.size())));
  golden_test::check(golden[static_cast<std::size_t>(form)], inputs,
                     Attention{form, from_list<std::int32_t>({0, 3, 4, 6}), from_list<std::int32_t>({0, 4, 7, 9})});
}

}  // namespace

TEST_CASE("forms of attention give PyTorch's results and gradients, those of what mods capture too") {
  check(Form::causal, {}), check(Form::window, {}), check(Form::documents, {}), check(Form::blocks, {});
  check(Form::alibi, {{4}});
  check(Form::relative_bias, {{4, 11}});
  check(Form::capped, {});
  check(Form::tables, {{2, 5}, Sizes(Shape())});
  check(Form::mla, {{1, 2, 3, 24}, {1, 2, 3, 8}, {1, 2, 4, 24}, {1, 1, 4, 8}, {1, 2, 4, 16}});
  check(Form::varlen, {{6, 4, 3}, {9, 2, 3}, {9, 2, 2}});
}

namespace {

// The results and the gradients of q, k and v; `weights` of the loss.
template <class F>
Tensors both(const Tensors& x, const Tensor& weights, const F& f) {
  Tensors all = grad([&](const Tensors& at) { return sum(cast(f(at), DType::f32) * weights); }, x);
  all.push_back(f(x));
  return all;
}
Tensor causal_by_hand(const Tensors& x, std::int64_t groups) {
  const Tensor k = repeat_interleave(x[1], groups, 1), v = repeat_interleave(x[2], groups, 1);
  const auto depth = static_cast<double>(static_cast<std::int64_t>(x[0].size(3)));
  const Tensor scores = matmul(x[0], transpose(k)) / std::sqrt(depth);
  return matmul(softmax(where(unsqueeze(arange(x[0].size(2)), 1) >= arange(k.size(2)), scores, -infinity), -1), v);
}

struct Own {
  Tensor operator()(const Tensors& x) const {
    return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .enable_gqa = true});
  }
};

}  // namespace

TEST_CASE("head sizes of models, of f32, f16 and bf16, with gradients; queries and keys of 192, values of 128") {
  struct Case {
    std::int64_t depth, value_depth, groups;
  };
  for (const Case& it : {Case{32, 32, 1}, Case{64, 64, 2}, Case{72, 72, 1}, Case{96, 96, 1}, Case{128, 128, 4},
                         Case{192, 128, 1}, Case{256, 256, 1}}) {
    CAPTURE(it.depth);
    const std::int64_t keys = 4 / it.groups;
    const Tensors wide{noise({1, 4, 9, it.depth}, 1), noise({1, keys, 9, it.depth}, 2),
                       noise({1, keys, 9, it.value_depth}, 3)};
    const Tensor weights = noise({1, 4, 9, it.value_depth}, 4);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      Tensors x, rounded;
      for (const Tensor& each : wide) x.push_back(cast(each, dtype)), rounded.push_back(cast(x.back(), DType::f64));
      const Tensors expected = both(rounded, weights, [&](const Tensors& at) { return causal_by_hand(at, it.groups); });
      const auto step = [](const Tensors& x, const Tensor& weights, const Own& own) { return both(x, weights, own); };
      std::vector<Tensors> all{step(x, weights, Own())};
      if (it.depth == 192 || dtype == DType::bf16)
        all.push_back(compile(step, {.on_compile_error = OnFailure::raise})(x, weights, Own()));
      for (const Tensors& found : all)
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          CHECK(found[i].dtype() == dtype);
          check_close(cast(found[i], DType::f64), expected[i],
                      dtype == DType::f32   ? 1e-5
                      : dtype == DType::f16 ? 4e-3
                                            : 3e-2);
        }
    }
  }
}

namespace {

enum class Beside : std::uint8_t { nothing, causal, bools, numbers, mods };

// x: query, key, value. With a mask of rows that see nothing.
struct Dropped {
  Beside beside;
  double rate;
  Tensor operator()(const Tensors& x, std::uint64_t seed) const {
    Generator generator(seed);
    nn::AttentionOptions options{.dropout_p = rate, .generator = &generator};
    const std::int64_t rows = static_cast<std::int64_t>(x[0].size(1)), keys = static_cast<std::int64_t>(x[1].size(1));
    const Tensor mask = (unsqueeze(arange(rows), 1) % 4 != 0) & (arange(keys) % 3 != 0);
    if (beside == Beside::causal) options.is_causal = true;
    if (beside == Beside::bools) options.attn_mask = mask;
    if (beside == Beside::numbers) options.attn_mask = where(mask, cast(arange(keys), DType::f64) * 0.1, -infinity);
    if (beside == Beside::mods) {
      options.score_mod = nn::soft_cap(1);
      options.mask_mod = [](auto, auto, auto q, auto k) { return (q % 4 != 0) & (k % 3 != 0); };
    }
    return nn::scaled_dot_product_attention(x[0], x[1], x[2], options);
  }
};

}  // namespace

TEST_CASE("dropout beside masks and mods: its fraction and scale, and gradients of the weights that were drawn") {
  constexpr std::int64_t rows = 40, keys = 50;
  constexpr double rate = 0.3;
  const Tensor q = noise({2, rows, 4}, 1), k = noise({2, keys, 4}, 2), v = noise({2, keys, 3}, 3);
  const Tensor identity = expand(eye(keys, {DType::f64}), {2, keys, keys}), given = noise({2, rows, 3}, 4);
  for (const Beside beside : {Beside::nothing, Beside::causal, Beside::bools, Beside::numbers, Beside::mods}) {
    CAPTURE(static_cast<int>(beside));
    const Dropped dropped{beside, rate}, plain{beside, 0};
    // The values of a unit matrix show the weights.
    const Tensor weights = plain({q, k, identity}, 1), drawn = dropped({q, k, identity}, 1);
    const Tensor kept = drawn != 0, seen = weights != 0;
    check_close(drawn, where(kept, weights / (1 - rate), 0));
    const double share = (sum(kept) / cast(sum(seen), DType::f64)).item();
    CHECK(share == doctest::Approx(1 - rate).epsilon(0.06));
    CHECK(max(abs(dropped({q, k, identity}, 2) - drawn)).item() > 0);  // another draw
    // The same draw forward and backward: as if the weights had been multiplied with these numbers.
    const Tensor factor = cast(kept, DType::f64) / (1 - rate);
    const auto by_hand = [&](const Tensors& x) { return matmul(plain({x[0], x[1], identity}, 1) * factor, x[2]); };
    const Tensors x{q, k, v}, expected = grad([&](const Tensors&at) { return sum(by_hand(at) * given); }, x);
    const auto slopes = [](const Tensors& x, const Tensor& given, const Dropped& f) {
      return std::pair{grad([&](const Tensors& at) { return sum(f(at, 1) * given); }, x), f(x, 1)};
    };
    for (const auto& [found, value] :
         {slopes(x, given, dropped), compile(slopes, {.on_compile_error = OnFailure::raise})(x, given, dropped)}) {
      check_close(value, by_hand(x));
      for (std::size_t i = 0; i < 3; ++i) check_close(found[i], expected[i]);
    }
  }
}

TEST_CASE("a query that sees nothing gives zeros and zero gradients, of every dtype and kind of mask") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const Beside beside : {Beside::bools, Beside::numbers, Beside::mods})
      for (const double rate : {0.0, 0.5}) {
        if (rate > 0 && dtype != DType::bf16) continue;
        CAPTURE(info(dtype).name);
        CAPTURE(static_cast<int>(beside));
        Tensors x;
        for (int i = 0; i < 3; ++i) x.push_back(cast(noise({2, 8, 4}, static_cast<std::uint64_t>(i)), dtype));
        const Dropped f{beside, rate};
        const auto step = [](const Tensors& x, const Dropped& f) {
          Tensors all = grad([&](const Tensors& at) { return sum(square(cast(f(at, 1), DType::f32))); }, x);
          all.push_back(f(x, 1));
          return all;
        };
        for (const Tensors& found : {step(x, f), compile(step, {.on_compile_error = OnFailure::raise})(x, f)}) {
          for (const Tensor& each : found) CHECK(all(isfinite(each)).item<bool>());
          for (const std::size_t i : {0, 3})  // of the queries, and the result
            CHECK(max(abs(select(reshape(cast(found[i], DType::f32), {2, 2, 4, 4}), 2, 0))).item() == 0);
          for (const std::size_t i : {1, 2})  // of keys that nobody sees
            CHECK(max(abs(select(cast(found[i], DType::f32), 1, 3))).item() == 0);
          CHECK(max(abs(cast(found[1], DType::f32))).item() > 0);
        }
      }
}
