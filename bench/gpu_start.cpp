// gpu_start [tiny] CASE [TIME]: the first training step on a CUDA device in a fresh process. In: one of mlp-step,
// char-gpt, gpt2-train, resnet50-train; the time (CLOCK_MONOTONIC, seconds) just before execve; WEFT_CACHE_DIR. Out: a
// line of JSON with the seconds from there to the end of the step, and their parts: to main, until the device is there,
// of the model and its inputs, of the first step; and of a later one, which computes and nothing else.
#include <cstdlib>

#include "gpu_steps.hpp"
#include "start_clock.hpp"

namespace {

using bench::now;

const struct {
  const char* name;
  bench::Call (*make)();
} cases[] = {
    {"mlp-step", [] { return bench::mlp_step(64); }},
    {"char-gpt", bench::char_gpt_step},
    {"gpt2-train", bench::gpt2_step},
    {"resnet50-train", [] { return bench::resnet50_step(64); }},
};
}  // namespace

int main(int count, char** arguments) {
  const double in_main = now();
  if (!bench::has_device(count, arguments)) return 1;
  const double has_device = now(), start = count > 2 ? std::atof(arguments[2]) : in_main;
  for (const auto& one : cases) {
    if (count < 2 || std::strcmp(arguments[1], one.name)) continue;
    try {
      const bench::Call step = one.make();
      bench::finish();
      const double ready = now();
      step();
      bench::finish();
      const double done = now();
      for (int i = 0; i < 2; ++i) step();
      bench::finish();
      const double before_last = now();
      step();
      bench::finish();
      std::printf("{\"seconds\":%.6f,\"main\":%.6f,\"device\":%.6f,\"model\":%.6f,\"step\":%.6f,\"later\":%.6f}\n",
                  done - start, in_main - start, has_device - in_main, ready - has_device, done - ready,
                  now() - before_last);
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "gpu_start %s: %s\n", one.name, error.what());
    }
  }
  return 1;
}
