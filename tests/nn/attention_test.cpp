// Attention against PyTorch's, and tables of positions against loops: results and all gradients, compiled and eager.
#include "weft/nn/attention.hpp"
#include "tests/message_of.hpp"
#include "tests/nn/golden_list.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using weft::test::message_of;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/attention_golden.inc"
};

using golden_test::wave;
template <class F>
void check(std::size_t number, const std::vector<Tensor>& inputs, F f) {
  CAPTURE(number);
  golden_test::check(golden[number], inputs, f);
}
void check_numbers(std::size_t number, const std::vector<Tensor>& values, double tolerance) {
  CAPTURE(number);
  golden_test::check_numbers(golden[number], values, tolerance);
}

Tensor some_masked(std::int64_t rows, std::int64_t columns, std::int64_t every) {
  const Tensor mask = remainder(reshape(arange(rows * columns), {rows, columns}), every) != 0;
  return mask & (unsqueeze(arange(rows), 1) != 0);
}

struct DotProducts {
  Tensor mask;
  bool is_causal = false;
  double scale = 0;
  bool enable_gqa = false;
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    return {nn::scaled_dot_product_attention(inputs[0], inputs[1], inputs[2],
                                             {.attn_mask = inputs.size() > 3 ? inputs[3] : mask,
                                              .is_causal = is_causal,
                                              .scale = scale,
                                              .enable_gqa = enable_gqa})};
  }
};

void check_dot_products(std::size_t number, std::initializer_list<Sizes> shapes, DotProducts f = {}) {
  std::vector<Tensor> inputs;
  for (const Sizes& shape : shapes) inputs.push_back(wave(shape, 30 + static_cast<int>(inputs.size())));
  check(number, inputs, f);
}

struct Multihead {
  nn::MultiheadAttention layer;
  Tensor key_padding_mask, attn_mask;
  bool is_causal = false;
  std::int64_t count = 1;  // of inputs; one is query, keys and values
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    Multihead moved = *this;
    auto next = static_cast<std::size_t>(count);
    for (auto& parameter : nn::parameters(moved.layer)) parameter.value.tensor() = inputs[next++];
    const std::size_t key = count == 3 ? 1 : 0, value = count == 3 ? 2 : 0;
    const nn::MultiheadResult result =
        moved.layer(inputs[0], inputs[key], inputs[value],
                    {.key_padding_mask = key_padding_mask, .attn_mask = attn_mask, .is_causal = is_causal});
    return {result.output, result.weights};
  }
};

void check_multihead(std::size_t number, std::initializer_list<Sizes> shapes, Multihead f) {
  std::vector<Tensor> inputs;
  for (const Sizes& shape : shapes) inputs.push_back(wave(shape, 30 + static_cast<int>(inputs.size())));
  f.count = static_cast<std::int64_t>(inputs.size());
  int seed = 0;
  for (const auto& parameter : nn::parameters(f.layer)) inputs.push_back(wave(parameter.value->shape(), seed++));
  check(number, inputs, f);
}

}  // namespace

TEST_CASE("scaled_dot_product_attention gives PyTorch's results and gradients") {
  check_dot_products(0, {{2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 6, 2}});
  check_dot_products(1, {{2, 3, 5, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}}, {.mask = {}, .is_causal = true});
  check_dot_products(2, {{2, 2, 4, 3}, {2, 2, 5, 3}, {2, 2, 5, 3}}, {.mask = some_masked(4, 5, 3)});
  std::vector<Tensor> masked{wave({2, 2, 4, 3}, 30), wave({2, 2, 5, 3}, 31), wave({2, 2, 5, 3}, 32),
                             wave({2, 1, 4, 5}, 33)};
  check(3, masked, DotProducts{.mask = {}, .scale = 0.3});
  check_dot_products(4, {{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}}, {.mask = {}, .enable_gqa = true});
  check_dot_products(5, {{2, 6, 4, 2}, {2, 3, 4, 2}, {2, 3, 4, 2}},
                     {.mask = {}, .is_causal = true, .enable_gqa = true});
  check_dot_products(6, {{3, 1, 4, 2}, {2, 5, 2}, {1, 2, 5, 3}});
  check_dot_products(7, {{4, 2}, {3, 2}, {3, 2}});
}

TEST_CASE("attention over 16-bit floats normalizes in f32; dropout draws; what does not fit is refused") {
  const Tensor q = wave({2, 8, 4}, 1), k = wave({2, 9, 4}, 2), v = wave({2, 9, 4}, 3);
  const Tensor expected = nn::scaled_dot_product_attention(q, k, v);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor found = nn::scaled_dot_product_attention(cast(q, dtype), cast(k, dtype), cast(v, dtype));
    CHECK(found.dtype() == dtype);
    loops_test::check_close(cast(found, DType::f64), expected, 0.01);
  }
  Generator one(3), same(3);
  const Tensor kept = nn::scaled_dot_product_attention(q, k, v, {.dropout_p = 0.5, .generator = &one});
  loops_test::check_close(nn::scaled_dot_product_attention(q, k, v, {.dropout_p = 0.5, .generator = &same}), kept, 0);
  CHECK(max(abs(kept - expected)).item() > 0.01);
  refused([&] { nn::scaled_dot_product_attention(q, k, cast(v, DType::f32)); }, "of one floating dtype");
  refused([&] { nn::scaled_dot_product_attention(q, wave({2, 9, 3}, 1), v); }, "takes a query [..., heads, L, E]");
  refused([&] { nn::scaled_dot_product_attention(q, k, v, {.attn_mask = arange(9)}); },
          "a mask must be bool or floating");
  refused([&] { nn::scaled_dot_product_attention(q, k, v, {.attn_mask = q, .is_causal = true}); }, "not both");
  refused([&] { nn::scaled_dot_product_attention(q, k, v, {.dropout_p = 1}); }, "must be in [0, 1), it is 1");
  const Tensor three = wave({3, 8, 4}, 1);
  refused([&] { nn::scaled_dot_product_attention(three, k, v, {.enable_gqa = true}); },
          "the query has 3 heads, which is no multiple of the keys' 2: f64[3,8,4] x f64[2,9,4] x f64[2,9,4]");
  const auto heads = [](std::int64_t n) { return wave({1, n, 3, 4}, 1); };
  const auto attend = [&](std::int64_t h, std::int64_t k, std::int64_t v, bool shared, Loc loc = Loc::current()) {
    return nn::scaled_dot_product_attention(At(heads(h), loc), heads(k), heads(v), {.enable_gqa = shared});
  };
  refused([&] { attend(6, 4, 4, true); }, "the query has 6 heads, which is no multiple of the keys' 4");
  refused([&] { attend(6, 3, 2, true); }, "the keys have 3 heads and the values 2");
  refused([&] { attend(6, 3, 2, false); }, "the keys have 3 heads and the values 2");
  refused([&] { attend(6, 3, 3, false); },
          "the query has 6 heads and the keys and values 3, which heads share where .enable_gqa is true");
  refused([&] { attend(6, 4, 4, false); }, "the query has 6 heads and the keys and values 4: f64[1,6,3,4] x");
  CHECK(attend(6, 1, 1, false).shape().same(Shape::of(1, 6, 3, 4)));
}

TEST_CASE("attention of no features weighs keys equally; a query of no keys gets zeros") {
  const Tensor none = ones({1, 2, 0}), value = reshape(arange(6), {1, 2, 3}) * 1.0;
  loops_test::check_close(nn::scaled_dot_product_attention(none, none, value), expand(mean(value, 1, true), {1, 2, 3}),
                          1e-6);
  const Tensor query = ones({1, 2, 3}), no_keys = ones({1, 0, 3}), mask = zeros({2, 0});
  static constexpr auto attend = [](const Tensor& q, const Tensor& k) {
    return nn::scaled_dot_product_attention(q, k, k);
  };
  loops_test::check_close(attend(query, no_keys), zeros({1, 2, 3}), 0);
  loops_test::check_close(nn::scaled_dot_product_attention(query, no_keys, no_keys, {.is_causal = true}),
                          zeros({1, 2, 3}), 0);
  for (const Tensor& each : {mask, mask > 0})
    loops_test::check_close(nn::scaled_dot_product_attention(query, no_keys, no_keys, {.attn_mask = each}),
                            zeros({1, 2, 3}), 0);
  const auto slope = [](const Tensor& q, const Tensor& k) {
    return grad([&](const Tensor& x) { return sum(attend(x, k)); }, q);
  };
  loops_test::check_close(slope(query, no_keys), zeros({1, 2, 3}), 0);
  CHECK(softmax(no_keys, 1).shape() == Shape::of(1, 0, 3));
  CHECK(log_softmax(no_keys, 1).shape() == Shape::of(1, 0, 3));

  auto fixed = compile(attend, {.on_compile_error = OnFailure::raise});
  loops_test::check_close(fixed(query, no_keys), zeros({1, 2, 3}), 0);
  auto varied = compile(attend, {.dynamic = true, .on_compile_error = OnFailure::raise});
  auto varied_slope = compile(slope, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t keys : {4, 5, 0, 7, 0}) {
    CAPTURE(keys);
    const Tensor k = ones({1, keys, 3});
    loops_test::check_close(varied(query, k), keys == 0 ? zeros({1, 2, 3}) : ones({1, 2, 3}), 1e-6);
    loops_test::check_close(varied_slope(query, k), zeros({1, 2, 3}), 1e-6);
  }
}

TEST_CASE("MultiheadAttention gives PyTorch's results, weights and gradients") {
  const nn::MultiheadAttentionOptions wide{.options = {DType::f64}};
  constexpr std::int64_t L = 3, S = 4, N = 2, E = 6, H = 2;
  const Tensor unseen = ~(remainder(reshape(arange(L * S), {L, S}), 5) != 0) & (unsqueeze(arange(L), 1) != 0);
  check_multihead(8, {{L, N, E}, {S, N, E}, {S, N, E}}, {nn::MultiheadAttention(E, H, wide), {}, unseen});
  nn::MultiheadAttentionOptions other{
      .bias = false, .kdim = 5, .vdim = 3, .batch_first = true, .options = {DType::f64}};
  check_multihead(9, {{N, L, E}, {N, S, 5}, {N, S, 3}}, {nn::MultiheadAttention(E, H, other), {}, {}});
  nn::MultiheadAttentionOptions batch_first{.batch_first = true, .options = {DType::f64}};
  const Tensor padding = cast(from_list({{0, 1, 0}, {0, 0, 1}}), DType::boolean);
  check_multihead(10, {{N, L, E}}, {nn::MultiheadAttention(E, H, batch_first), padding, wave({N * H, L, L}, 7)});
  check_multihead(11, {{L, E}}, {nn::MultiheadAttention(E, H, wide), {}, {}, true});
}

TEST_CASE("MultiheadAttention: initial values, modes, and what is refused") {
  nn::MultiheadAttention layer(8, 2, {.dropout = 0.5});
  CHECK(max(abs(layer.in_proj_bias)).item() == 0);
  CHECK(max(abs(layer.out_proj.bias)).item() == 0);
  CHECK(max(abs(layer.in_proj_weight)).item() <= std::sqrt(6.0 / 32));
  const Tensor x = cast(wave({5, 3, 8}, 1), DType::f32);
  CHECK(max(abs(layer(x, x, x).output - layer(x, x, x).output)).item() > 0);
  layer.training = false;
  CHECK(max(abs(layer(x, x, x).output - layer(x, x, x).output)).item() == 0);
  refused([] { nn::MultiheadAttention(8, 3); }, "8 features do not divide into 3 heads");
  refused([&] { layer(ones({5, 3, 7}), x, x); }, "takes 8 features");
  refused([&] { layer(ones({5}), x, x); }, "of 2 or 3 axes");
}

TEST_CASE("rotary and sinusoidal positions, ALiBi and relative biases follow their definitions") {
  struct Rotation {
    std::int64_t offset;
    double base;
    bool interleaved;
    std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
      return {nn::RotaryEmbedding(6, {.base = base, .interleaved = interleaved})(inputs[0], offset)};
    }
  };
  check(12, {wave({2, 3, 6}, 30)}, Rotation{0, 10000, false});
  check(13, {wave({2, 3, 6}, 30)}, Rotation{3, 100, true});
  check(14, {wave({2, 3, 6}, 30)}, Rotation{7, 10000, true});
  check_numbers(15, {nn::sinusoidal_positions(5, 4)}, 1e-6);
  check_numbers(16, {nn::alibi_bias(4, 3, 3)}, 1e-6);
  check_numbers(17, {nn::alibi_bias(6, 2, 4)}, 1e-6);
  check_numbers(18, {nn::alibi_bias(1, 1, 5)}, 1e-6);
  auto compiled = compile([](const Tensor& x) { return nn::alibi_bias(6, x.size(0), x.size(1), x.device()) + x * 0; });
  for (const std::int64_t rows : {2, 3, 5}) {
    const Tensor x = ones({rows, 4});
    CHECK(all(compiled(x) == nn::alibi_bias(6, rows, 4, x.device())).item<bool>());
  }
  CHECK(specialization_count(compiled) == 2);
  struct Bias {
    nn::RelativePositionBias bias;
    std::int64_t offset;
    std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
      Bias moved = *this;
      moved.bias.weight.tensor() = inputs[0];
      return {moved.bias(3, 50, offset)};
    }
  };
  const Options wide{DType::f64};
  check(19, {wave({8, 2}, 1)}, Bias{nn::RelativePositionBias(2, true, 8, 20, wide), 0});
  check(20, {wave({8, 2}, 1)}, Bias{nn::RelativePositionBias(2, false, 8, 20, wide), 2});
  check(21, {wave({32, 2}, 1)}, Bias{nn::RelativePositionBias(2, true, 32, 128, wide), 40});
  refused([] { nn::RotaryEmbedding(5); }, "the width must be even, it is 5");
  refused([] { nn::RotaryEmbedding(4)(ones({2, 6})); }, "takes a floating tensor [..., L, 4]");
  refused([] { nn::RotaryEmbedding(4, {.base = 0}); }, "the base must be positive, it is 0");
  refused([] { nn::RotaryEmbedding(4, {.scaling = {.factor = 0}}); }, "factor must be positive, it is 0");
  refused([] { nn::RotaryEmbedding(4, {.scaling = {.low = 4}}); }, "low must be positive and below high: 4, 4");
  refused([] { nn::RotaryEmbedding(4, {.scaling = {.context = 0}}); }, "context must be positive, it is 0");
  refused([] { nn::alibi_bias(0, 2, 2); }, "there must be a head");
  refused([] { nn::RelativePositionBias(2, true, 2); }, "needs a head, buckets");
}

TEST_CASE(
    "a cache of keys and values: one compilation for all positions, and what is seen is what a whole text gives") {
  constexpr std::int64_t length = 6, heads = 2, depth = 4;
  const Tensor q = wave({1, heads, length, depth}, 1), k = wave({1, heads, length, depth}, 2),
               v = wave({1, heads, length, depth}, 3);
  const nn::RotaryEmbedding rotate(depth);
  const Tensor whole = nn::scaled_dot_product_attention(rotate(q), rotate(k), v, {.is_causal = true});
  auto step = compile([](nn::KeyValueCache& cache, const nn::RotaryEmbedding& rotate, const Tensor& q, const Tensor& k,
                         const Tensor& v, const Index& at) {
    cache.update(rotate(k, at), v, at);
    return nn::scaled_dot_product_attention(rotate(q, at), cache.keys, cache.values, {.attn_mask = cache.mask(1, at)});
  });
  nn::KeyValueCache cache(1, heads, 8, depth, {DType::f64});
  for (std::int64_t t = 0; t < length; ++t) {
    const auto at = [t](const Tensor& x) { return narrow(x, 2, t, 1); };
    loops_test::check_close(step(cache, rotate, at(q), at(k), at(v), t), at(whole));
  }
  CHECK(specialization_count(step) == 1);
}

namespace {

struct Prefill {  // of a chunk; `window`: keys that a query sees, by a mod that knows where the chunk is
  static Tensor run(nn::KeyValueCache& cache, const nn::RotaryEmbedding& rotate, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Index& at, const bool& has_window) {
    cache.update(rotate(k, at), v, at);
    nn::AttentionOptions options{.enable_gqa = true};
    if (has_window)
      options.mask_mod = [&](auto, auto, auto q, auto k) { return (k <= q + at) & (q + at - k < 3); };
    else
      options.attn_mask = cache.mask(q.size(2), at);
    return nn::scaled_dot_product_attention(rotate(q, at), cache.keys, cache.values, options);
  }
};

}  // namespace

TEST_CASE("a prompt in chunks of any length gives what it gives as one, without a compilation for each position") {
  constexpr std::int64_t length = 9, queries = 4, heads = 2, depth = 4;
  const Tensor q = wave({2, queries, length, depth}, 1), k = wave({2, heads, length, depth}, 2),
               v = wave({2, heads, length, depth}, 3);
  const nn::RotaryEmbedding rotate(depth);
  for (const bool has_window : {false, true}) {
    CAPTURE(has_window);
    const Tensor whole = nn::scaled_dot_product_attention(
        rotate(q), rotate(k), v,
        {.is_causal = true, .enable_gqa = true, .mask_mod = has_window ? nn::sliding_window(3) : nn::MaskMod()});
    auto step = compile(Prefill::run, {.on_compile_error = OnFailure::raise});
    nn::KeyValueCache cache(2, heads, 12, depth, {DType::f64});
    for (const std::vector<std::int64_t>& chunks : std::vector<std::vector<std::int64_t>>{
             {9}, {4, 5}, {2, 3, 4}, {3, 3, 3}, {5, 1, 1, 2}, {1, 1, 7}, {8, 1}, {6, 2, 1}}) {
      std::int64_t at = 0;
      for (const std::int64_t count : chunks) {
        CAPTURE(at);
        CAPTURE(count);
        const auto part = [&](const Tensor& x) { return narrow(x, 2, at, count); };
        loops_test::check_close(step(cache, rotate, part(q), part(k), part(v), at, has_window), part(whole));
        loops_test::check_close(Prefill::run(cache, rotate, part(q), part(k), part(v), at, has_window), part(whole));
        at += count;
      }
    }
    CHECK(specialization_count(step) == 3);  // of 9 tokens, of any number, and of one
  }
}

TEST_CASE("a cache of keys and values: positions and dtypes that it has not are refused") {
  nn::KeyValueCache cache(1, 2, 8, 4);
  const Tensor new_key = ones({1, 2, 1, 4});
  refused([&] { cache.mask(2, Index(-5)); }, "[key_value_cache] the position must not be negative, it is -5");
  refused([&] { cache.update(new_key, new_key, Index(-1)); }, "the position is out of range [0, 7]: -1");
  refused([&] { cache.update(new_key, new_key, Index(8)); },
          "[key_value_cache] the position is out of range [0, 7]: 8, for 1 place in a cache of 8");
  const Tensor three = ones({1, 2, 3, 4});
  refused([&] { cache.update(three, three, Index(6)); },
          "[key_value_cache] the position is out of range [0, 5]: 6, for 3 places in a cache of 8");
  auto step = compile([](nn::KeyValueCache& c, const Tensor& x, Index at) { c.update(x, x, at); });
  step(cache, three, Index(5));
  const std::string text = message_of([&] { step(cache, three, Index(6)); });
  CHECK(text.find("[key_value_cache] the position is out of range [0, 5], for 3 places in a cache of 8, at "
                  "attention_test.cpp") != std::string::npos);
  // What fails writes neither keys nor values.
  refused([&] { cache.update(new_key * 7, three, Index(7)); }, "out of range [0, 5]: 7");
  CHECK(max(cache.keys.tensor()).item() == 1);
  refused([&] { cache.update(cast(new_key, DType::bf16), new_key, 0); },
          "another dtype than what it is written into: bf16[1,2,1,4] into f32[1,2,8,4]");
}
