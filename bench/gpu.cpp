// gpu [NAME [CASE]]: figures on a CUDA device, a JSON line a case, of one name or of all; many calls between two
// synchronizations. With a case it takes turns with the peers instead (support.hpp). Ends with a message where there is
// no device. WEFT_BENCH_LEVEL=3: functions are compiled at Level::O3.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "decisions.hpp"
#include "examples/support/deciding.hpp"
#include "functions.hpp"
#include "mlp.hpp"
#include "runtime/cuda/device.hpp"
#include "support.hpp"

namespace {

using weft::DType;
using weft::Tensor;
using Call = std::function<void()>;

constexpr weft::Device device = weft::Device::cuda();
const weft::CompileOptions unchecked = [] {
  const char* const level = std::getenv("WEFT_BENCH_LEVEL");
  return weft::CompileOptions{.check = weft::Check::never,
                              .level = level ? static_cast<weft::Level>(std::atoi(level)) : weft::Level::O2};
}();

// Many calls, until everything is done, and how many: about 20 ms of them.
struct Repeated {
  explicit Repeated(Call given) : call(std::move(given)) {
    for (int i = 0; i < 20; ++i) call();  // traces and compiles
    weft::runtime::cuda::synchronize(device);
    const auto start = bench::Clock::now();
    operator()();
    calls = std::clamp(static_cast<int>(20e-3 / bench::seconds_since(start)), 2, 200);
  }
  void operator()() const {
    for (int i = 0; i < calls; ++i) call();
    weft::runtime::cuda::synchronize(device);
  }
  Call call;
  int calls = 1;
};

Tensor sample(weft::Sizes sizes, std::uint64_t seed, DType dtype = DType::f32) {
  weft::Generator generator(seed);
  return weft::normal(sizes, 0, 1, generator, {dtype, device}).eval();
}
Tensor labels(weft::Sizes sizes, double classes, std::uint64_t seed) {
  weft::Generator generator(seed);
  return cast(weft::uniform(sizes, 0, classes, generator, {DType::f32, device}), DType::i64).eval();
}

// A function of tensors, compiled or, with `eager`, as it is.
template <class F, class... Arguments>
Call of(F f, Arguments... argument) {
  return [compiled = weft::compile(f, unchecked), argument...] {
    auto result = compiled(argument...);
    bench::eval_all(result);
  };
}
template <class F, class... Arguments>
Call eager(F f, Arguments... argument) {
  return [=] { f(argument...).eval(); };
}

constexpr std::int64_t many = 64 << 20;
Call pointwise() { return of(bench::pointwise, sample({many}, 1), sample({many}, 2), sample({many}, 3)); }
Call sum() { return of(bench::sum_all, sample({many}, 1)); }

template <DType dtype>
Call softmax() {
  return of(bench::softmax_rows, sample({16384, 8192}, 4, dtype));
}

// Rows that no block can hold.
Call softmax_of_long_rows() { return of(bench::softmax_rows, sample({1024, 131072}, 4)); }

template <DType dtype>
Call transpose() {
  return of([](const Tensor& x) { return weft::transpose(x, 0, 1) + 1; }, sample({8192, 8192}, 1, dtype));
}

// c = gelu(a b + bias), 4096^3.
template <DType dtype, weft::Gelu form>
Call matmul() {
  return of(
      [](const Tensor& a, const Tensor& b, const Tensor& bias) { return weft::gelu(weft::matmul(a, b) + bias, form); },
      sample({4096, 4096}, 5, dtype), sample({4096, 4096}, 6, dtype), sample({4096}, 7, dtype));
}

// 32 images of `size` x `size`.
template <DType dtype, int channels, int size, int outputs, int kernel, int stride>
Call conv2d() {
  return of([](const Tensor& x,
               const Tensor& weight) { return weft::conv2d(x, weight, {.stride = stride, .padding = kernel / 2}); },
            sample({32, channels, size, size}, 1, dtype), sample({outputs, channels, kernel, kernel}, 2, dtype));
}

weft::Options bf16() { return {DType::bf16, device}; }

Call layernorm() {
  return of(bench::norm_gradients, bench::NormOf{sample({16384, 4096}, 1, DType::bf16), bench::Norm(4096, bf16())},
            sample({16384, 4096}, 2, DType::bf16));
}
Call cross_entropy() {
  return of(bench::cross_entropy_gradients, sample({8192, 50304}, 1, DType::bf16), labels({8192}, 50304, 2));
}

// With the counter of steps on the device nothing comes back to the host between steps.
template <class Optimizer>
void to_device(Optimizer& optimizer) {
  optimizer.steps = weft::Scalar(to(optimizer.steps.tensor(), device));
}

Call adamw() {
  struct State {
    bench::Parameters model, gradients;
    weft::optim::AdamW optimizer;
  };
  bench::Parameters model, gradients;
  for (std::uint64_t i = 0; i < 100; ++i) {
    model.values.push_back(sample({1 << 20}, i));
    gradients.values.push_back(sample({1 << 20}, 1000 + i));
  }
  auto state = std::make_shared<State>(State{model, gradients, weft::optim::AdamW(model)});
  to_device(state->optimizer);
  return [state, step = weft::compile(bench::update, unchecked)] {
    step(state->model, state->optimizer, state->gradients);
    bench::eval_all(state->model);
  };
}

template <std::int64_t batch>
Call mlp_step() {
  struct State {
    bench::Mlp model;
    weft::optim::Adam optimizer{model, {.lr = 1e-3}};
  };
  auto state = std::make_shared<State>();
  weft::nn::to(state->model, device);
  state->optimizer = weft::optim::Adam(state->model, {.lr = 1e-3});
  to_device(state->optimizer);
  return [state, x = sample({batch, 784}, 1), y = labels({batch}, 10, 2),
          step = weft::compile(bench::train, unchecked)] { step(state->model, state->optimizer, x, y).eval(); };
}

// Causal, batch 4, 16 heads; forward, or with its gradients.
struct Attended {
  Tensor q, k, v;
  WEFT_MEMBERS(q, k, v)
};
Tensor attend(const Attended& at) {
  return weft::nn::scaled_dot_product_attention(at.q, at.k, at.v, {.is_causal = true});
}
template <std::int64_t time, std::int64_t depth, bool backward>
Call attention() {
  const weft::Sizes sizes{4, 16, time, depth};
  const Attended at{sample(sizes, 1, DType::bf16), sample(sizes, 2, DType::bf16), sample(sizes, 3, DType::bf16)};
  if (!backward) return of(attend, at);
  return of([](const Attended& given,
               const Tensor& w) { return weft::grad([&](const Attended& p) { return sum(attend(p) * w); }, given); },
            at, sample(sizes, 4, DType::bf16));
}

Call gpt2_infer() {
  return of([](const bench::Gpt& m, const Tensor& text) { return m(text); }, bench::Gpt({}, bf16()),
            labels({1, 64}, 50000, 8));
}

// The parameters are f32; inside a step they are cast by hand, or what autocast casts.
template <bool by_hand>
Call gpt2_train() {
  struct State {
    bench::Gpt model{{.fused = true}, {DType::f32, device}};
    weft::optim::AdamW optimizer{model, {.lr = 1e-4}};
  };
  auto state = std::make_shared<State>();
  to_device(state->optimizer);
  weft::CompileOptions how = unchecked;
  if (!by_hand) how.autocast = DType::bf16;
  auto step =
      weft::compile([](bench::Gpt& m, weft::optim::AdamW& o, const Tensor& x,
                       const Tensor& y) { return bench::train_gpt(m, o, x, y, by_hand ? DType::bf16 : DType::f32); },
                    how);
  return [=, x = labels({16, 1024}, 50257, 8), y = labels({16, 1024}, 50257, 9)] {
    step(state->model, state->optimizer, x, y).eval();
  };
}

struct Encoder {
  std::vector<bench::Block> blocks;
  Tensor operator()(Tensor x) const {
    for (const bench::Block& block : blocks) x = block(x);
    return x;
  }
  WEFT_MEMBERS(blocks)
};
template <std::int64_t batch>
Call encoder() {
  Encoder model;
  for (int i = 0; i < 12; ++i) model.blocks.emplace_back(768, 12, false, bf16());
  return of([](const Encoder& m, const Tensor& x) { return m(x); }, model, sample({batch, 128, 768}, 9, DType::bf16));
}

// A dozen layers, of which four are needed; and a function of four.
Call early_exit() {
  using weft::from_list;
  const Tensor sure = to(from_list<float>({2, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 2}), device).eval();
  return of(bench::early_exit, bench::Encoder(12, {DType::f32, device}), sample({8, 64, 128}, 1), sure);
}
Call four_layers() { return of(bench::all_layers, bench::Encoder(4, {DType::f32, device}), sample({8, 64, 128}, 1)); }
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

Call eager_softmax() { return eager(bench::softmax_rows, sample({16384, 4096}, 1)); }
Call eager_layernorm() {
  return eager(bench::normalize, bench::Norm(4096, {DType::f32, device}), sample({16384, 4096}, 1));
}
Call eager_cross_entropy() { return eager(bench::cross_entropy, sample({16384, 4096}, 1), labels({16384}, 4096, 2)); }

constexpr struct {
  const char *name, *of;
  Call (*make)();
  double bytes = 0;  // moved, where nothing else limits
} cases[] = {
    {"gpu-pointwise", "f32-64M", pointwise, 16.0 * many},
    {"gpu-softmax", "f32-16384x8192", softmax<DType::f32>, 8.0 * 16384 * 8192},
    {"gpu-softmax", "bf16-16384x8192", softmax<DType::bf16>, 4.0 * 16384 * 8192},
    {"gpu-softmax", "f32-1024x131072", softmax_of_long_rows, 8.0 * 1024 * 131072},
    {"gpu-transpose", "f32-8192x8192", transpose<DType::f32>, 8.0 * 8192 * 8192},
    {"gpu-transpose", "bf16-8192x8192", transpose<DType::bf16>, 4.0 * 8192 * 8192},
    {"gpu-matmul", "bf16-4096-bias-gelu-tanh", matmul<DType::bf16, weft::Gelu::tanh>},
    {"gpu-matmul", "bf16-4096-bias-gelu", matmul<DType::bf16, weft::Gelu::exact>},
    {"gpu-matmul", "f16-4096-bias-gelu-tanh", matmul<DType::f16, weft::Gelu::tanh>},
    {"gpu-conv2d", "f32-3x3", conv2d<DType::f32, 64, 56, 64, 3, 1>},
    {"gpu-conv2d", "f32-7x7-stride2", conv2d<DType::f32, 3, 224, 64, 7, 2>},
    {"gpu-conv2d", "f32-1x1", conv2d<DType::f32, 256, 56, 64, 1, 1>},
    {"gpu-conv2d", "bf16-3x3", conv2d<DType::bf16, 64, 56, 64, 3, 1>},
    {"gpu-layernorm", "bf16-16384x4096", layernorm, 8.0 * 16384 * 4096},
    {"gpu-cross-entropy", "bf16-8192x50304", cross_entropy, 4.0 * 8192 * 50304},
    {"gpu-adamw", "f32-100x1M", adamw, 28.0 * 100 * (1 << 20)},
    {"gpu-sum", "f32-64M", sum, 4.0 * many},
    {"gpu-mlp-step", "b64", mlp_step<64>},
    {"gpu-mlp-step", "b1024", mlp_step<1024>},
    {"gpu-attention", "T1024-D64", attention<1024, 64, false>},
    {"gpu-attention", "T1024-D128", attention<1024, 128, false>},
    {"gpu-attention", "T4096-D64", attention<4096, 64, false>},
    {"gpu-attention", "T4096-D128", attention<4096, 128, false>},
    {"gpu-attention", "T4096-D64-gradients", attention<4096, 64, true>},
    {"gpu-attention", "T4096-D128-gradients", attention<4096, 128, true>},
    {"gpu-gpt2-infer", "bf16-B1-T64", gpt2_infer},
    {"gpu-encoder", "bf16-B1-T128", encoder<1>},
    {"gpu-encoder", "bf16-B64-T128", encoder<64>},
    {"gpu-gpt2-train", "bf16-B16-T1024", gpt2_train<true>},
    {"gpu-gpt2-train", "autocast-bf16-B16-T1024", gpt2_train<false>},
    {"gpu-decisions", "early-exit", early_exit},
    {"gpu-decisions", "four-layers", four_layers},
    {"gpu-decisions", "newton", newton},
    {"gpu-decisions", "branch", branch},
    {"gpu-eager", "softmax", eager_softmax, 8.0 * 16384 * 4096},
    {"gpu-eager", "layernorm", eager_layernorm, 8.0 * 16384 * 4096},
    {"gpu-eager", "cross-entropy", eager_cross_entropy, 4.0 * 16384 * 4096},
};

void report(const char* name, const char* of, double milliseconds, double bytes) {
  std::printf(
      "{\"name\":\"%s\",\"case\":\"%s\",\"value\":%.5f,\"unit\":\"ms\",\"baseline\":null,\"baseline_value\":null,"
      "\"ratio\":null",
      name, of, milliseconds);
  if (bytes > 0) std::printf(",\"terabytes_per_second\":%.3f", bytes / milliseconds / 1e9);
  std::puts("}");
  std::fflush(stdout);
}

double milliseconds(const Repeated& repeated) {
  std::vector<double> rounds;
  for (int round = 0; round < 9; ++round) {
    const auto start = bench::Clock::now();
    repeated();
    rounds.push_back(bench::seconds_since(start) * 1e3 / repeated.calls);
  }
  return bench::median(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::fprintf(stderr, "%s\n", weft::runtime::cuda::use(device).name.c_str());
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 0;
  }
  for (const auto& one : cases) {
    if (argc > 1 && std::strcmp(argv[1], one.name) != 0) continue;
    if (argc > 2 && std::strcmp(argv[2], one.of) != 0) continue;
    const Repeated repeated(one.make());
    if (argc > 2)
      bench::take_turns(repeated, repeated.calls);
    else
      report(one.name, one.of, milliseconds(repeated), one.bytes);
  }
}
