// gpu: figures on a CUDA device, one JSON line a case: the pointwise chain, softmax, products of 16-bit floats with
// bias and GELU, the MLP's training step, and a GPT-2's and an encoder's forward pass; many calls between two
// synchronizations. Ends with a message where there is no device.
#include <cstdlib>
#include <cstring>

#include "mlp.hpp"
#include "runtime/cuda/device.hpp"
#include "support.hpp"
#include "transformer.hpp"

namespace {

constexpr weft::Device device = weft::Device::cuda();

// Milliseconds of one call, the median of several rounds of `calls`.
template <class Call>
double milliseconds(int calls, Call call) {
  for (int i = 0; i < 20; ++i) call();  // traces, compiles, the sampled checks
  weft::runtime::cuda::synchronize(device);
  std::vector<double> rounds;
  for (int round = 0; round < 9; ++round) {
    const auto start = bench::Clock::now();
    for (int i = 0; i < calls; ++i) call();
    weft::runtime::cuda::synchronize(device);
    rounds.push_back(bench::seconds_since(start) * 1e3 / calls);
  }
  return bench::median(rounds);
}

void report(const char* name, const char* of, double value, double bytes = 0) {
  std::printf(
      "{\"name\":\"%s\",\"case\":\"%s\",\"value\":%.5f,\"unit\":\"ms\",\"baseline\":null,\"baseline_value\":null,"
      "\"ratio\":null",
      name, of, value);
  if (bytes > 0) std::printf(",\"terabytes_per_second\":%.3f", bytes / value / 1e9);
  std::puts("}");
  std::fflush(stdout);
}

weft::Tensor sample(weft::Sizes sizes, std::uint64_t seed, weft::DType dtype = weft::DType::f32) {
  weft::Generator generator(seed);
  return weft::normal(sizes, 0, 1, generator, {dtype, device}).eval();
}

void pointwise() {
  constexpr std::int64_t count = 64 << 20;
  auto chain = weft::compile([](const weft::Tensor& x, const weft::Tensor& y,
                                const weft::Tensor& z) { return tanh(x * y + z) * sigmoid(x) + exp(-y * y) - gelu(z); },
                             {.check = weft::Check::never});
  const weft::Tensor x = sample({count}, 1), y = sample({count}, 2), z = sample({count}, 3);
  report("gpu-pointwise", "f32-64M", milliseconds(20, [&] { chain(x, y, z).eval(); }), 16.0 * count);
}

void softmax(weft::DType dtype, const char* of, double element) {
  auto compiled =
      weft::compile([](const weft::Tensor& x) { return weft::softmax(x, -1); }, {.check = weft::Check::never});
  const weft::Tensor x = sample({16384, 8192}, 4, dtype);
  report("gpu-softmax", of, milliseconds(20, [&] { compiled(x).eval(); }), 2 * element * 16384 * 8192);
}

// With the counter of steps on the device nothing comes back to the host between steps.
void mlp_step(std::int64_t batch, const char* of) {
  weft::Tensor x = to(bench::random_normal({batch, 784}, 1), device),
               y = to(bench::random_labels(batch, 10, 2), device);
  bench::Mlp model;
  weft::nn::move_to(model, device);
  weft::optim::Adam optimizer(model, {.lr = 1e-3});
  optimizer.steps = weft::Scalar(to(optimizer.steps.tensor(), device));
  auto step = weft::compile(bench::train, {.check = weft::Check::never});
  report("gpu-mlp-step", of, milliseconds(200, [&] { step(model, optimizer, x, y).eval(); }));
}

// c = gelu(a b + bias), 4096^3.
void matmul(weft::DType dtype, weft::Gelu form, const char* of) {
  auto compiled = weft::compile([](const weft::Tensor& a, const weft::Tensor& b, const weft::Tensor& bias,
                                   weft::Gelu form) { return weft::gelu(weft::matmul(a, b) + bias, form); },
                                {.check = weft::Check::never});
  const weft::Tensor a = sample({4096, 4096}, 5, dtype), b = sample({4096, 4096}, 6, dtype),
                     bias = sample({4096}, 7, dtype);
  report("gpu-matmul", of, milliseconds(20, [&] { compiled(a, b, bias, form).eval(); }));
}

weft::Options bf16() { return {weft::DType::bf16, device}; }

void gpt2_infer() {
  const bench::Gpt model({}, bf16());
  auto run = weft::compile([](const bench::Gpt& m, const weft::Tensor& text) { return m(text); },
                           {.check = weft::Check::never});
  weft::Generator generator(8);
  const weft::Tensor text =
      cast(weft::uniform({1, 64}, 0, 50000, generator, {weft::DType::f32, device}), weft::DType::i64).eval();
  report("gpu-gpt2-infer", "bf16-B1-T64", milliseconds(20, [&] { run(model, text).eval(); }));
}

struct Encoder {
  std::vector<bench::Block> blocks;
  weft::Tensor operator()(weft::Tensor x) const {
    for (const bench::Block& block : blocks) x = block(x);
    return x;
  }
  WEFT_MEMBERS(blocks)
};
void encoder(std::int64_t batch, const char* of) {
  Encoder model;
  for (int i = 0; i < 12; ++i) model.blocks.emplace_back(768, 12, true, bf16());
  auto run = weft::compile([](const Encoder& m, const weft::Tensor& x) { return m(x); }, {.check = weft::Check::never});
  const weft::Tensor x = sample({batch, 128, 768}, 9, weft::DType::bf16);
  report("gpu-encoder", of, milliseconds(20, [&] { run(model, x).eval(); }));
}

}  // namespace

// The name of a case leaves the others out.
int main(int argc, char** argv) {
  try {
    std::fprintf(stderr, "%s\n", weft::runtime::cuda::use(device).name.c_str());
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 0;
  }
  const auto wanted = [&](const char* name) { return argc < 2 || std::strcmp(argv[1], name) == 0; };
  if (wanted("gpu-pointwise")) pointwise();
  if (wanted("gpu-softmax")) {
    softmax(weft::DType::f32, "f32-16384x8192", 4);
    softmax(weft::DType::bf16, "bf16-16384x8192", 2);
  }
  if (wanted("gpu-matmul")) {
    matmul(weft::DType::bf16, weft::Gelu::tanh, "bf16-4096-bias-gelu-tanh");
    matmul(weft::DType::bf16, weft::Gelu::exact, "bf16-4096-bias-gelu");
    matmul(weft::DType::f16, weft::Gelu::tanh, "f16-4096-bias-gelu-tanh");
  }
  if (wanted("gpu-mlp-step")) {
    mlp_step(64, "b64");
    mlp_step(1024, "b1024");
  }
  if (wanted("gpu-gpt2-infer")) gpt2_infer();
  if (wanted("gpu-encoder")) {
    encoder(1, "bf16-B1-T128");
    encoder(64, "bf16-B64-T128");
  }
}
