// gpu: first figures on a CUDA device, one JSON line a case: the pointwise chain and softmax of the anchors by device
// time (many calls between two synchronizations), the MLP's training step by wall time. Ends with a message where there
// is no device.
#include <cstdlib>
#include <cstring>

#include "mlp.hpp"
#include "runtime/cuda/device.hpp"
#include "support.hpp"

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

}  // namespace

int main() {
  try {
    std::fprintf(stderr, "%s\n", weft::runtime::cuda::use(device).name.c_str());
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 0;
  }
  pointwise();
  softmax(weft::DType::f32, "f32-16384x8192", 4);
  softmax(weft::DType::bf16, "bf16-16384x8192", 2);
  mlp_step(64, "b64");
  mlp_step(1024, "b1024");
}
