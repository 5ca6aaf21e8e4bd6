// What a call of a compiled function costs besides its kernels. Without arguments: Google Benchmark's cases `call`
// (compiled (x + 1) * 2 on 16 floats; `call-eager` the same eagerly) and `guard-<leaves>`, finding the specialization
// alone. With --allocations: heap allocations of a call. With --calls N: N calls in weft_bench_calls, for a profiler
// that counts instructions.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "allocations.hpp"
#include "support.hpp"

using weft::Tensor;

namespace {

constexpr auto tiny = [](const Tensor& x) { return (x + 1) * 2; };
// The checks that trace again on calls 2, 4, 8, ... are over after these calls.
constexpr int settled = 1500;

template <class F>
void repeat(const F& f, const Tensor& x, long calls) {
  for (long i = 0; i < calls; ++i) benchmark::DoNotOptimize(f(x).eval().word());
}

template <class F>
__attribute__((noinline)) void weft_bench_calls(const F& f, const Tensor& x, long calls) {
  repeat(f, x, calls);
}

void call(benchmark::State& state) {
  auto f = weft::compile(tiny);
  Tensor x = bench::random_normal({16}, 1);
  repeat(f, x, settled);
  for (auto _ : state) repeat(f, x, 1);
}
BENCHMARK(call)->Name("call");

void call_eager(benchmark::State& state) {
  Tensor x = bench::random_normal({16}, 1);
  for (auto _ : state) repeat(tiny, x, 1);
}
BENCHMARK(call_eager)->Name("call-eager");

template <std::size_t leaves>
void guard(benchmark::State& state) {
  using Inputs = std::array<Tensor, leaves>;
  auto f = weft::compile([](const Inputs& x) { return x.front() + x.back(); });
  Inputs inputs;
  for (std::size_t i = 0; i < leaves; ++i) inputs[i] = bench::random_normal({16}, static_cast<unsigned>(i));
  f(inputs).eval();
  for (auto _ : state) {
    weft::detail::Call call(f.function().get(), weft::detail::SignatureOfCall<Tensor, const Inputs&>::value, nullptr,
                            nullptr, weft::Loc());
    call.argument(inputs, weft::detail::Access::input);
    benchmark::DoNotOptimize(call.prepare());
  }
}
BENCHMARK_TEMPLATE(guard, 1)->Name("guard-1");
BENCHMARK_TEMPLATE(guard, 10)->Name("guard-10");
BENCHMARK_TEMPLATE(guard, 100)->Name("guard-100");

}  // namespace

int main(int count, char** arguments) {
  auto is = [&](const char* option) { return count > 1 && !std::strcmp(arguments[1], option); };
  if (is("--allocations") || is("--calls")) {
    auto f = weft::compile(tiny);
    Tensor x = bench::random_normal({16}, 1);
    repeat(f, x, settled);
    long calls = count > 2 ? std::atol(arguments[2]) : 500, before = allocations;
    weft_bench_calls(f, x, calls);
    std::printf("%g\n", static_cast<double>(allocations - before) / static_cast<double>(calls));
    return 0;
  }
  benchmark::Initialize(&count, arguments);
  benchmark::RunSpecifiedBenchmarks();
}
