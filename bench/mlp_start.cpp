// One training step in a fresh process. In: the time (CLOCK_MONOTONIC, seconds) just before execve, and WEFT_CACHE_DIR.
// Out: a line of JSON with the seconds from there to main, to the first step's loss, and the kernels' part of it.
#include <cstdlib>

#include "mlp.hpp"
#include "runtime/host/jit.hpp"
#include "start_clock.hpp"
#include "support.hpp"

using bench::now;

int main(int count, char** arguments) {
  double start = count > 1 ? std::atof(arguments[1]) : now(), in_main = now();
  weft::Tensor x = bench::random_normal({64, 784}, 1), y = bench::random_labels(64, 10, 2);
  bench::Mlp model;
  weft::optim::Adam optimizer(model, {.lr = 1e-3});
  auto step = weft::compile(bench::train);
  double ready = now();
  double loss = step(model, optimizer, x, y).item();
  double done = now();
  weft::JitCounts counts = weft::jit_counts();
  std::printf(
      "{\"seconds\":%.6f,\"main\":%.6f,\"model\":%.6f,\"step\":%.6f,\"compiler\":%.6f,\"compiled\":%llu,\"loss\":%.4f}"
      "\n",
      done - start, in_main - start, ready - in_main, done - ready, counts.compile_seconds,
      static_cast<unsigned long long>(counts.compiled), loss);
}
