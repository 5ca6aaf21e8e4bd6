// tiers: the training step of a character GPT, d384, compiled in the background. Out: a line of JSON: seconds of an
// eager step, of the first call of an async function, of its slowest call while kernels are made, from its first call
// to the first that runs compiled, and of the first call without async. Run with an empty WEFT_CACHE_DIR for each
// process.
//   tiers async | sync
#include <atomic>
#include <cstring>
#include <thread>

#include "functions.hpp"
#include "support.hpp"

int main(int count, char** arguments) {
  const bool async = count < 2 || !std::strcmp(arguments[1], "async");
  const std::int64_t vocabulary = 65, batch = 4, time = 256;
  bench::Gpt model(bench::Gpt::Sizes{vocabulary, time, 384, 6, 6}, {});
  weft::optim::AdamW optimizer(model);
  bench::eval_all(model);
  bench::eval_all(optimizer);
  const auto text = [&](unsigned seed) {
    return reshape(bench::random_labels(batch * time, vocabulary, seed), {batch, time}).eval();
  };
  const weft::Tensor x = text(1), y = text(2);
  const auto plain = [](bench::Gpt& m, weft::optim::AdamW& o, const weft::Tensor& x, const weft::Tensor& y) {
    return bench::train_gpt(m, o, x, y, weft::DType::f32);
  };
  const auto seconds_of = [](const auto& call) {
    const auto start = bench::Clock::now();
    call();
    return bench::seconds_since(start);
  };
  const auto eager = [&] {
    plain(model, optimizer, x, y).eval();
    bench::eval_all(model);
    bench::eval_all(optimizer);
  };
  std::vector<double> eager_steps;
  for (int i = 0; i < 5; ++i) eager_steps.push_back(seconds_of(eager));
  auto step = weft::compile(plain, {.check = weft::Check::never, .async = async});
  const auto call = [&] { step(model, optimizer, x, y).eval(); };
  const auto start = bench::Clock::now();
  const double first = seconds_of(call);
  double slowest = 0;
  std::atomic<double> swapped = bench::seconds_since(start);
  if (async) {
    std::atomic<bool> made = false;
    std::thread watch([&] {
      wait_compiled(step);
      swapped = bench::seconds_since(start);
      made = true;
    });
    while (!made) {
      const double each = seconds_of(call);
      if (!made) slowest = std::max(slowest, each);
    }
    watch.join();
  }
  std::vector<double> compiled;
  for (int i = 0; i < 5; ++i) compiled.push_back(seconds_of(call));
  std::printf("{\"eager\": %.4f, \"first\": %.4f, \"slowest\": %.4f, \"swapped\": %.4f, \"compiled\": %.4f}\n",
              bench::median(eager_steps), first, slowest, swapped.load(), bench::median(compiled));
}
