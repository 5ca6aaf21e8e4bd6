// Google Benchmark's cases <name>/compiled and <name>/eager: everyday functions of small and middle size on random f32.
#include <benchmark/benchmark.h>

#include "mlp.hpp"
#include "support.hpp"

using weft::Tensor;

namespace {

constexpr auto chain = [](const Tensor& x, const Tensor& y) { return tanh(x * y + 1) * sigmoid(x); };
constexpr auto rows = [](const Tensor& x, const Tensor& y) { return weft::softmax(x + y); };
constexpr auto normalize = [](const Tensor& x, const Tensor& y) {
  return (x - mean(x, -1, true)) / sqrt(var(x, -1, 0, true) + 1e-5) * y;
};
constexpr auto columns = [](const Tensor& x, const Tensor& y) { return weft::sum(x * y, 0); };
constexpr auto layer = [](const Tensor& x, const Tensor& y) { return weft::gelu(matmul(x, transpose(y)) + 1); };

template <class F>
void run(benchmark::State& state, F f, bool eager, weft::Sizes x_sizes, weft::Sizes y_sizes) {
  Tensor x = bench::random_normal(x_sizes, 1), y = bench::random_normal(y_sizes, 2), result;
  auto compiled = weft::compile(f);
  for (int i = 0; i < 20; ++i) (result = compiled(x, y)).eval();
  for (auto _ : state) {
    result = eager ? f(x, y) : compiled(x, y);
    benchmark::DoNotOptimize(result.eval().word());
  }
}

void model(benchmark::State& state, bool eager) {
  bench::Mlp mlp;
  Tensor x = bench::random_normal({64, 784}, 1), result;
  auto compiled = weft::compile(mlp);
  for (int i = 0; i < 20; ++i) (result = compiled(x)).eval();
  for (auto _ : state) {
    result = eager ? mlp(x) : compiled(x);
    benchmark::DoNotOptimize(result.eval().word());
  }
}

template <class F>
void both(const char* name, F f, weft::Sizes x, weft::Sizes y) {
  for (bool eager : {false, true})
    benchmark::RegisterBenchmark((std::string(name) + (eager ? "/eager" : "/compiled")).c_str(),
                                 [=](benchmark::State& state) { run(state, f, eager, x, y); });
}

}  // namespace

int main(int count, char** arguments) {
  both("pointwise-64x256", chain, {64, 256}, {64, 256});
  both("pointwise-1M", chain, {1024, 1024}, {1024, 1024});
  both("softmax-64x256", rows, {64, 256}, {256});
  both("softmax-1024x1024", rows, {1024, 1024}, {1024});
  both("normalize-1024x1024", normalize, {1024, 1024}, {1024});
  both("columns-1024x1024", columns, {1024, 1024}, {1024, 1024});
  both("layer-64x256x784", layer, {64, 784}, {256, 784});
  for (bool eager : {false, true})
    benchmark::RegisterBenchmark(eager ? "mlp-forward-64/eager" : "mlp-forward-64/compiled",
                                 [=](benchmark::State& state) { model(state, eager); });
  benchmark::Initialize(&count, arguments);
  benchmark::RunSpecifiedBenchmarks();
}
