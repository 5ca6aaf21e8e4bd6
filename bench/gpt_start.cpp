// One training step of a character GPT (d128, 4 layers, batch 8 x 64) in a fresh process. In: the time
// (CLOCK_MONOTONIC, seconds) just before execve, and WEFT_CACHE_DIR. Out: a line of JSON with the seconds from there to
// the end of the step, and their parts: to main, of the model, of the first step, and in it from the graph to a plan;
// of a second step, which is the time of the kernels alone.
#include <cstdlib>

#include "functions.hpp"
#include "runtime/host/jit.hpp"
#include "start_clock.hpp"
#include "support.hpp"
#include "weft/explain.hpp"

using bench::now;

int main(int count, char** arguments) {
  const double start = count > 1 ? std::atof(arguments[1]) : now(), in_main = now();
  constexpr std::int64_t vocabulary = 65, batch = 8, time = 64;
  bench::Gpt model({vocabulary, time, 128, 4, 4}, {});
  weft::optim::AdamW optimizer(model);
  const auto text = [&](unsigned seed) {
    return reshape(bench::random_labels(batch * time, vocabulary, seed), {batch, time});
  };
  const weft::Tensor x = text(1), y = text(2);
  auto step = weft::compile([](bench::Gpt& m, weft::optim::AdamW& o, const weft::Tensor& x, const weft::Tensor& y) {
    return bench::train_gpt(m, o, x, y, weft::DType::f32);
  });
  const double ready = now();
  step(model, optimizer, x, y).eval();
  const double done = now();
  step(model, optimizer, x, y).eval();
  const double again = now();
  const weft::JitCounts counts = weft::jit_counts();
  double plan = 0;
  for (const auto& pass : explain(step, model, optimizer, x, y).passes) plan += pass.milliseconds * 1e-3;
  std::printf(
      "{\"seconds\":%.6f,\"main\":%.6f,\"model\":%.6f,\"step\":%.6f,\"plan\":%.6f,\"second\":%.6f,\"compiled\":%llu}\n",
      done - start, in_main - start, ready - in_main, done - ready, plan, again - done,
      static_cast<unsigned long long>(counts.compiled));
}
