// gpu [tiny] [NAME [CASE]]: figures on a CUDA device, a JSON line a case, of one name or of all (gpu.hpp). With a case
// it takes turns with the peers instead. Ends with a message where there is no device.
#include "gpu.hpp"

#include "decisions.hpp"
#include "examples/support/deciding.hpp"
#include "gpu_steps.hpp"
#include "weft/groups.hpp"

namespace {

using namespace bench;

constexpr std::int64_t many = 64 << 20;
Call pointwise() { return of(bench::pointwise, sample({many}, 1), sample({many}, 2), sample({many}, 3)); }
Call sum() { return of(sum_all, sample({many}, 1)); }

template <DType dtype>
Call softmax() {
  return of(softmax_rows, sample({16384, 8192}, 4, dtype));
}

// Rows that no block can hold.
Call softmax_of_long_rows() { return of(softmax_rows, sample({1024, 131072}, 4)); }

// Few long rows: the pick of a token, and what is found of a whole tensor.
constexpr auto position = [](const Tensor& x) { return weft::argmax(x, -1); };
constexpr auto log_sum = [](const Tensor& x) { return weft::logsumexp(x, -1); };
constexpr auto row_sums = [](const Tensor& x) { return weft::sum(x, -1); };
constexpr std::int64_t words = 128256, long_row = 10'000'000;
template <DType dtype, std::int64_t rows, std::int64_t columns, const auto& function>
Call long_rows() {
  return of(function, sample({rows, columns}, 4, dtype));
}

template <DType dtype>
Call transpose() {
  return of([](const Tensor& x) { return weft::transpose(x, 0, 1) + 1; }, sample({8192, 8192}, 1, dtype));
}

// What people write that is no more than a pass over memory; 64M elements.
constexpr std::int64_t tall = 8192, wide = 8192;
template <DType dtype>
Call scale_and_shift() {  // a row and a column for all
  return of([](const Tensor& x, const Tensor& row, const Tensor& column) { return x * row + column; },
            sample({tall, wide}, 1, dtype), sample({1, wide}, 2, dtype), sample({tall, 1}, 3, dtype));
}
Call add_bf16() {
  return of([](const Tensor& x, const Tensor& y) { return x * 2 + y; }, sample({many}, 1, DType::bf16),
            sample({many}, 2, DType::bf16));
}
Call residual_of_mixed() {
  return of([](const Tensor& x, const Tensor& y) { return cast(x, DType::f32) + y; }, sample({many}, 1, DType::bf16),
            sample({many}, 2));
}
Call to_bf16() {
  return of([](const Tensor& x) { return cast(x, DType::bf16); }, sample({many}, 1));
}
Call where_mask() {
  return of([](const Tensor& x, const Tensor& y) { return weft::where(x < 0.25, y, x * 2); }, sample({many}, 1),
            sample({many}, 2));
}
Call every_other() {
  return of([](const Tensor& x) { return weft::slice(x, 1, 0, wide, 2) + 1; }, sample({tall, wide}, 1));
}
Call inner_part() {  // rows that begin at no multiple of 16 bytes
  return of([](const Tensor& x) { return weft::slice(x, 1, 1, wide, 1) + 1; }, sample({tall, wide}, 1));
}
Call join_columns() {
  return of(
      [](const Tensor& x, const Tensor& y) {
        return weft::concat({x, y}, 1);
      },
      sample({tall, wide / 2}, 1), sample({tall, wide / 2}, 2));
}
Call join_rows() {
  return of(
      [](const Tensor& x, const Tensor& y) {
        return weft::concat({x, y}, 0);
      },
      sample({tall / 2, wide}, 1), sample({tall / 2, wide}, 2));
}
Call one_hot() {
  return of([](const Tensor& x) { return weft::one_hot(x, 1024); }, labels({65536}, 1024, 1));
}
Call swap_heads() {  // B T H D to B H T D
  return of([](const Tensor& x) { return weft::transpose(x, 1, 2) * 2; }, sample({16, 1024, 16, 64}, 1, DType::bf16));
}
Call narrow_many() {
  Parameters model;
  for (std::uint64_t i = 0; i < 97; ++i) model.values.push_back(sample({768, i % 3 == 0 ? 3072 : 768}, i));
  return of(
      [](const Parameters& given) {
        Parameters result;
        for (const Tensor& value : given.values) result.values.push_back(cast(value, DType::bf16));
        return result;
      },
      model);
}

// c = gelu(a b + bias), 4096^3.
template <DType dtype, weft::Gelu form>
Call matmul() {
  return of(
      [](const Tensor& a, const Tensor& b, const Tensor& bias) { return weft::gelu(weft::matmul(a, b) + bias, form); },
      sample({4096, 4096}, 5, dtype), sample({4096, 4096}, 6, dtype), sample({4096}, 7, dtype));
}

// c = a b of these sizes: a large one, and one of few rows.
template <std::int64_t m, std::int64_t k, std::int64_t n>
Call product() {
  return of([](const Tensor& a, const Tensor& b) { return weft::matmul(a, b); }, sample({m, k}, 5, DType::bf16),
            sample({k, n}, 6, DType::bf16));
}

// 4096^3 of f32, by the tensor cores' tf32 where that is asked for; and of 8-bit floats.
template <weft::Float32Products how>
Call product_f32() {
  weft::CompileOptions options = unchecked;
  options.float32_products = how;
  return of(options, [](const Tensor& a, const Tensor& b) { return weft::matmul(a, b); }, sample({4096, 4096}, 5),
            sample({4096, 4096}, 6));
}
Call product_f8() {
  return of(
      [](const Tensor& a, const Tensor& b, const Tensor& scale) {
        return weft::scaled_matmul(a, transpose(b), scale, scale);
      },
      cast(sample({4096, 4096}, 5), DType::f8e4m3).eval(), cast(sample({4096, 4096}, 6), DType::f8e4m3).eval(),
      weft::full({}, 0.5, f32()).eval());
}

// A token of each text, 32 heads of queries over 8 of keys, whose `keys` tokens lie in pages of 16 in no order; a table
// for `longest`.
template <std::int64_t texts, std::int64_t keys, std::int64_t longest, std::int64_t depth>
Call paged_attention() {
  constexpr std::int64_t page = 16, heads = 8, queries = 32;
  const std::int64_t batch = sized(texts), length = sized(keys), width = (sized(longest) + page - 1) / page,
                     pages = batch * ((length + page - 1) / page);
  weft::nn::PagedKeyValueCache cache(pages, heads, page, sized(depth), bf16());
  cache.keys = sample({pages, heads, page, depth}, 1, DType::bf16);
  cache.values = sample({pages, heads, page, depth}, 2, DType::bf16);
  const Tensor table = reshape(weft::arange(0, batch * width, 1, {DType::i64, device}) * 7919 % pages, {batch, width});
  return of([](const weft::nn::PagedKeyValueCache& held, const Tensor& q, const Tensor& pages_of,
               const Tensor& positions) { return held.attention(q, pages_of, positions); },
            cache, sample({batch, queries, 1, depth}, 3, DType::bf16), cast(table, DType::i32).eval(),
            weft::full({batch}, length - 1, {DType::i64, device}).eval());
}

// Rows that lie by expert times the weights of each, [experts, n, k]; and the gradients of both.
constexpr std::int64_t experts = 64, expert_rows = 24576, expert_in = 2048, expert_out = 1408;
struct Experts {
  Tensor x, weights;
  WEFT_MEMBERS(x, weights)
};
template <class F>
Call grouped_with(F f) {
  const Tensor chosen = labels({expert_rows}, experts, 10);  // by chance
  const Tensor ends = cumsum(sum(weft::one_hot(chosen, sized(experts), DType::i64), 0), 0);
  return of(f,
            Experts{sample({expert_rows, expert_in}, 5, DType::bf16),
                    sample({experts, expert_out, expert_in}, 6, DType::bf16)},
            ends.eval(), sample({expert_rows, expert_out}, 7, DType::bf16));
}
Tensor by_expert(const Experts& it, const Tensor& ends) {
  return weft::grouped_matmul(it.x, transpose(it.weights), ends);
}
Call grouped() {
  return grouped_with([](const Experts& it, const Tensor& ends, const Tensor&) { return by_expert(it, ends); });
}
Call grouped_gradients() {
  return grouped_with([](const Experts& given, const Tensor& ends, const Tensor& upstream) {
    const auto loss = [&](const Experts& it) {
      return sum(cast(by_expert(it, ends), DType::f32) * cast(upstream, DType::f32));
    };
    return weft::grad(loss, given);
  });
}

// 32 images of `size` x `size`.
template <DType dtype, int channels, int size, int outputs, int kernel, int stride>
Call conv2d() {
  return of([](const Tensor& x,
               const Tensor& weight) { return weft::conv2d(x, weight, {.stride = stride, .padding = kernel / 2}); },
            sample({32, channels, size, size}, 1, dtype), sample({outputs, channels, kernel, kernel}, 2, dtype));
}

template <DType dtype, std::int64_t rows, std::int64_t columns>
Call layernorm() {
  return of(norm_gradients, NormOf{sample({rows, columns}, 1, dtype), Norm(sized(columns), {dtype, device})},
            sample({rows, columns}, 2, dtype));
}
// h = x + residual and its RMS norm, and the gradients of x, residual and weight, where `upstream` are those of both.
struct Residual {
  Tensor x, residual, weight;
  WEFT_MEMBERS(x, residual, weight)
};
struct Stream {
  Tensor h, y;
  WEFT_MEMBERS(h, y)
};
Call rmsnorm() {
  const std::vector<std::int64_t> sizes{16384, 4096};
  struct Value {
    Tensor loss, h, y;
  };
  struct Result {
    Tensor h, y;
    Residual gradients;
  };
  return of(
      [](const Residual& given, const Stream& upstream) {
        auto [value, gradients] = weft::value_and_grad(
            [&](const Residual& it) {
              const Tensor h = it.x + it.residual, y = weft::nn::rms_norm(h, it.weight, 1e-6);
              const auto along = [](const Tensor& a, const Tensor& b) {
                return sum(cast(a, DType::f32) * cast(b, DType::f32));
              };
              return Value{along(h, upstream.h) + along(y, upstream.y), h, y};
            },
            given);
        return Result{value.h, value.y, gradients};
      },
      Residual{sample(sizes, 1, DType::bf16), sample(sizes, 2, DType::bf16), sample({4096}, 3, DType::bf16)},
      Stream{sample(sizes, 4, DType::bf16), sample(sizes, 5, DType::bf16)});
}

// The product of two halves of a gated MLP, silu(gate) * up, and the gradients of both.
struct Halves {
  Tensor gate, up;
  WEFT_MEMBERS(gate, up)
};
Call swiglu() {
  const std::vector<std::int64_t> sizes{16384, 8192};
  struct Value {
    Tensor loss, product;
  };
  struct Result {
    Tensor product;
    Halves gradients;
  };
  return of(
      [](const Halves& given, const Tensor& upstream) {
        auto [value, gradients] = weft::value_and_grad(
            [&](const Halves& it) {
              const Tensor product = silu(it.gate) * it.up;
              return Value{sum(cast(product, DType::f32) * cast(upstream, DType::f32)), product};
            },
            given);
        return Result{value.product, gradients};
      },
      Halves{sample(sizes, 1, DType::bf16), sample(sizes, 2, DType::bf16)}, sample(sizes, 3, DType::bf16));
}

Call cross_entropy() {
  return of(cross_entropy_gradients, sample({8192, 50304}, 1, DType::bf16), labels({8192}, 50304, 2));
}

Call adamw() {
  struct State {
    Parameters model, gradients;
    weft::optim::AdamW optimizer;
  };
  Parameters model, gradients;
  for (std::uint64_t i = 0; i < 100; ++i) {
    model.values.push_back(sample({1 << 20}, i));
    gradients.values.push_back(sample({1 << 20}, 1000 + i));
  }
  auto state = std::make_shared<State>(State{model, gradients, weft::optim::AdamW(model)});
  to_device(state->optimizer);
  return [state, step = weft::compile(update, unchecked)] {
    step(state->model, state->optimizer, state->gradients);
    eval_all(state->model);
  };
}

// Batch 4, 16 heads where nothing else is said; forward, or with its gradients.
struct Attended {
  Tensor q, k, v;
  WEFT_MEMBERS(q, k, v)
};
constexpr auto causal = [](const Attended& at, const Tensor&) {
  return weft::nn::scaled_dot_product_attention(at.q, at.k, at.v, {.is_causal = true});
};
// Causal; scores are at most 30, by a hyperbolic tangent.
constexpr auto soft_cap = [](const Attended& at, const Tensor&) {
  return weft::nn::scaled_dot_product_attention(at.q, at.k, at.v,
                                                {.is_causal = true, .score_mod = weft::nn::soft_cap(30)});
};
// Causal, within documents of 512 tokens; `document` has the number of each token's.
constexpr auto in_documents = [](const Attended& at, const Tensor& document) {
  return weft::nn::scaled_dot_product_attention(at.q, at.k, at.v,
                                                {.mask_mod = weft::nn::causal() & weft::nn::document_mask(document)});
};
// Causal, a tenth of the weights dropped. By a generator of its own: the state of the default one lies on the host,
// which each call would wait for.
constexpr auto with_dropout = [](const Attended& at, const Tensor&) {
  weft::Generator generator(7);
  return weft::nn::scaled_dot_product_attention(at.q, at.k, at.v,
                                                {.dropout_p = 0.1, .is_causal = true, .generator = &generator});
};
template <auto f, std::int64_t time, std::int64_t depth, bool backward, std::int64_t batch = 4, std::int64_t heads = 16>
Call attention_by() {
  const std::vector<std::int64_t> sizes{batch, heads, time, depth};
  const Attended at{sample(sizes, 1, DType::bf16), sample(sizes, 2, DType::bf16), sample(sizes, 3, DType::bf16)};
  const Tensor document = to(floor_divide(weft::arange(sized(time)), tiny ? 8 : 512), device).eval();
  if (!backward) return of(f, at, document);
  return of(
      [](const Attended& given, const Tensor& document, const Tensor& w) {
        return weft::grad([&](const Attended& p) { return sum(f(p, document) * w); }, given);
      },
      at, document, sample(sizes, 4, DType::bf16));
}
template <std::int64_t time, std::int64_t depth, bool backward>
Call attention() {
  return attention_by<causal, time, depth, backward>();
}
template <bool backward>
Call attention_soft_cap() {
  return attention_by<soft_cap, 4096, 64, backward>();
}
template <bool backward>
Call attention_documents() {
  return attention_by<in_documents, 4096, 64, backward>();
}

Call gpt2_infer() {
  return of([](const Gpt& m, const Tensor& text) { return m(text); }, Gpt(tiny ? gpt2_sizes() : Gpt::Sizes{}, bf16()),
            labels({1, 64}, 50000, 8));
}

struct Blocks {
  std::vector<Block> blocks;
  Tensor operator()(Tensor x) const {
    for (const Block& block : blocks) x = block(x);
    return x;
  }
  WEFT_MEMBERS(blocks)
};
template <std::int64_t batch>
Call encoder() {
  Blocks model;
  for (int i = 0; i < 12; ++i) model.blocks.emplace_back(sized(768), tiny ? 4 : 12, false, bf16());
  return of([](const Blocks& m, const Tensor& x) { return m(x); }, model, sample({batch, 128, 768}, 9, DType::bf16));
}

// A dozen layers, of which four are needed; and a function of four.
Call early_exit() {
  using weft::from_list;
  const Tensor sure = to(from_list<float>({2, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 2}), device).eval();
  return of(bench::early_exit, bench::Encoder(12, f32()), to(random_normal({8, 64, 128}, 1), device).eval(), sure);
}
Call four_layers() { return of(all_layers, Encoder(4, f32()), to(random_normal({8, 64, 128}, 1), device).eval()); }
// Square roots by Newton's method: 5 to 50 rounds each.
Call newton() {
  return [f = weft::compile(deciding::square_root, unchecked), numbers = [] {
    std::vector<Tensor> all;
    for (const float a : {2.f, 1e3f, 1e6f, 1e12f, 1e24f, 30.f, 1e9f, 1e-3f})
      all.push_back(weft::full({}, a, {DType::f32, device}).eval());
    return all;
  }()] {
    for (const Tensor& a : numbers) f(a).eval();
  };
}
// One of two formulas, a call each way.
Call branch() {
  return [f = weft::compile(bench::branch, unchecked), up = weft::full({16}, 0.5, {DType::f32, device}).eval(),
          down = weft::full({16}, -0.5, {DType::f32, device}).eval()] {
    f(up).eval();
    f(down).eval();
  };
}

Call eager_softmax() { return eager(softmax_rows, sample({16384, 4096}, 1)); }
Call eager_layernorm() { return eager(normalize, Norm(sized(4096), f32()), sample({16384, 4096}, 1)); }
Call eager_cross_entropy() { return eager(bench::cross_entropy, sample({16384, 4096}, 1), labels({16384}, 4096, 2)); }

const std::vector<Case> cases = {
    {"gpu-pointwise", "f32-64M", pointwise, 16.0 * many},
    {"gpu-elements", "scale-shift-f32", scale_and_shift<DType::f32>, 8.0 * many},
    {"gpu-elements", "scale-shift-bf16", scale_and_shift<DType::bf16>, 4.0 * many},
    {"gpu-elements", "add-bf16", add_bf16, 6.0 * many},
    {"gpu-elements", "bf16-plus-f32", residual_of_mixed, 10.0 * many},
    {"gpu-elements", "f32-to-bf16", to_bf16, 6.0 * many},
    {"gpu-elements", "where", where_mask, 12.0 * many},
    {"gpu-elements", "every-other-column", every_other, 6.0 * many},
    {"gpu-elements", "all-but-a-column", inner_part, 8.0 * many},
    {"gpu-elements", "join-columns", join_columns, 8.0 * many},
    {"gpu-elements", "join-rows", join_rows, 8.0 * many},
    {"gpu-elements", "one-hot", one_hot, 4.0 * many},
    {"gpu-elements", "swap-heads-bf16", swap_heads, 4.0 * 16 * 1024 * 16 * 64},
    {"gpu-elements", "97-to-bf16", narrow_many, 6.0 * 768 * (33 * 3072 + 64 * 768)},
    {"gpu-softmax", "f32-16384x8192", softmax<DType::f32>, 8.0 * 16384 * 8192},
    {"gpu-softmax", "bf16-16384x8192", softmax<DType::bf16>, 4.0 * 16384 * 8192},
    {"gpu-softmax", "f32-1024x131072", softmax_of_long_rows, 8.0 * 1024 * 131072},
    {"gpu-long-rows", "argmax-bf16-1x128256", long_rows<DType::bf16, 1, words, position>, 2.0 * words},
    {"gpu-long-rows", "argmax-f32-16x128256", long_rows<DType::f32, 16, words, position>, 64.0 * words},
    {"gpu-long-rows", "logsumexp-f32-1x128256", long_rows<DType::f32, 1, words, log_sum>, 4.0 * words},
    {"gpu-long-rows", "softmax-bf16-1x128256", long_rows<DType::bf16, 1, words, softmax_rows>, 4.0 * words},
    {"gpu-long-rows", "argmax-f32-1x10M", long_rows<DType::f32, 1, long_row, position>, 4.0 * long_row},
    {"gpu-long-rows", "sum-f32-132x1M", long_rows<DType::f32, 132, 1 << 20, row_sums>, 4.0 * 132 * (1 << 20)},
    {"gpu-transpose", "f32-8192x8192", transpose<DType::f32>, 8.0 * 8192 * 8192},
    {"gpu-transpose", "bf16-8192x8192", transpose<DType::bf16>, 4.0 * 8192 * 8192},
    {"gpu-matmul", "bf16-4096-bias-gelu-tanh", matmul<DType::bf16, weft::Gelu::tanh>},
    {"gpu-matmul", "bf16-4096-bias-gelu", matmul<DType::bf16, weft::Gelu::exact>},
    {"gpu-matmul", "f16-4096-bias-gelu-tanh", matmul<DType::f16, weft::Gelu::tanh>},
    {"gpu-matmul", "bf16-8192", product<8192, 8192, 8192>},
    {"gpu-matmul", "bf16-8x2048x3072", product<8, 2048, 3072>},
    {"gpu-matmul", "f32-4096", product_f32<weft::Float32Products::ieee>},
    {"gpu-matmul", "tf32-4096", product_f32<weft::Float32Products::tf32>},
    {"gpu-matmul", "f8-4096", product_f8},
    {"gpu-matmul", "bf16-64-experts", grouped},
    {"gpu-matmul", "bf16-64-experts-gradients", grouped_gradients},
    {"gpu-conv2d", "f32-3x3", conv2d<DType::f32, 64, 56, 64, 3, 1>},
    {"gpu-conv2d", "f32-7x7-stride2", conv2d<DType::f32, 3, 224, 64, 7, 2>},
    {"gpu-conv2d", "f32-1x1", conv2d<DType::f32, 256, 56, 64, 1, 1>},
    {"gpu-conv2d", "bf16-3x3", conv2d<DType::bf16, 64, 56, 64, 3, 1>},
    {"gpu-layernorm", "bf16-16384x4096", layernorm<DType::bf16, 16384, 4096>, 8.0 * 16384 * 4096},
    {"gpu-layernorm", "f32-16384x4096", layernorm<DType::f32, 16384, 4096>, 16.0 * 16384 * 4096},
    {"gpu-layernorm", "f32-4096x1024", layernorm<DType::f32, 4096, 1024>, 16.0 * 4096 * 1024},
    {"gpu-rmsnorm", "bf16-16384x4096", rmsnorm, 14.0 * 16384 * 4096},
    {"gpu-swiglu", "bf16-16384x8192", swiglu, 12.0 * 16384 * 8192},
    {"gpu-cross-entropy", "bf16-8192x50304", cross_entropy, 4.0 * 8192 * 50304},
    {"gpu-adamw", "f32-100x1M", adamw, 28.0 * 100 * (1 << 20)},
    {"gpu-sum", "f32-64M", sum, 4.0 * many},
    {"gpu-mlp-step", "b64", [] { return mlp_step(64); }},
    {"gpu-mlp-step", "b1024", [] { return mlp_step(1024); }},
    {"gpu-attention", "T1024-D64", attention<1024, 64, false>},
    {"gpu-attention", "T1024-D128", attention<1024, 128, false>},
    {"gpu-attention", "T4096-D64", attention<4096, 64, false>},
    {"gpu-attention", "T4096-D128", attention<4096, 128, false>},
    {"gpu-attention", "T16384-D64", attention<16384, 64, false>},
    {"gpu-attention", "T16384-D128", attention<16384, 128, false>},
    {"gpu-attention", "T1024-D64-gradients", attention<1024, 64, true>},
    {"gpu-attention", "T1024-D128-gradients", attention<1024, 128, true>},
    {"gpu-attention", "T4096-D64-gradients", attention<4096, 64, true>},
    {"gpu-attention", "T4096-D128-gradients", attention<4096, 128, true>},
    {"gpu-attention", "T16384-D64-gradients", attention<16384, 64, true>},
    {"gpu-attention", "T16384-D128-gradients", attention<16384, 128, true>},
    {"gpu-attention", "T4096-D64-soft-cap", attention_soft_cap<false>},
    {"gpu-attention", "T4096-D64-documents", attention_documents<false>},
    {"gpu-attention", "T4096-D64-soft-cap-gradients", attention_soft_cap<true>},
    {"gpu-attention", "T4096-D64-documents-gradients", attention_documents<true>},
    {"gpu-attention", "B16-H12-T1024-D64-dropout", attention_by<with_dropout, 1024, 64, false, 16, 12>},
    {"gpu-attention", "T4096-D64-dropout", attention_by<with_dropout, 4096, 64, false>},
    {"gpu-attention", "T4096-D128-dropout", attention_by<with_dropout, 4096, 128, false>},
    {"gpu-attention", "B16-H12-T1024-D64-dropout-gradients", attention_by<with_dropout, 1024, 64, true, 16, 12>},
    {"gpu-attention", "T4096-D64-dropout-gradients", attention_by<with_dropout, 4096, 64, true>},
    {"gpu-attention", "T4096-D128-dropout-gradients", attention_by<with_dropout, 4096, 128, true>},
    {"gpu-paged-attention", "B16-T1000-D64", paged_attention<16, 1000, 1024, 64>},
    {"gpu-paged-attention", "B16-T1000-of-8192-D64", paged_attention<16, 1000, 8192, 64>},
    {"gpu-paged-attention", "B16-T4000-D128", paged_attention<16, 4000, 4096, 128>},
    {"gpu-paged-attention", "B64-T2000-D64", paged_attention<64, 2000, 2048, 64>},
    {"gpu-paged-attention", "B1-T8000-D64", paged_attention<1, 8000, 8192, 64>},
    {"gpu-gpt2-infer", "bf16-B1-T64", gpt2_infer},
    {"gpu-encoder", "bf16-B1-T128", encoder<1>},
    {"gpu-encoder", "bf16-B64-T128", encoder<64>},
    {"gpu-gpt2-train", "bf16-B16-T1024", gpt2_step},
    {"gpu-gpt2-train", "autocast-bf16-B16-T1024", gpt2_autocast_step},
    {"gpu-decisions", "early-exit", early_exit},
    {"gpu-decisions", "four-layers", four_layers},
    {"gpu-decisions", "newton", newton},
    {"gpu-decisions", "branch", branch},
    {"gpu-eager", "softmax", eager_softmax, 8.0 * 16384 * 4096},
    {"gpu-eager", "layernorm", eager_layernorm, 8.0 * 16384 * 4096},
    {"gpu-eager", "cross-entropy", eager_cross_entropy, 4.0 * 16384 * 4096},
};

}  // namespace

int main(int count, char** arguments) { return has_device(count, arguments) ? run_cases(cases, count, arguments) : 0; }
