// regions LAYERS: the training step of a GPT of so many layers (d128, B 8, T 64, AdamW): seconds of its first call, and
// of the fastest later one, as it is and with Region::never, in turn: a line of JSON.
#include <algorithm>
#include <cstdlib>

#include "functions.hpp"
#include "support.hpp"

namespace {

using weft::Tensor;

struct Training {
  bench::Gpt model;
  weft::optim::AdamW optimizer;
  explicit Training(int layers) : model({65, 64, 128, layers, 4}, {}), optimizer(model) {
    bench::eval_all(model);
    bench::eval_all(optimizer);
  }
};

constexpr auto step = [](bench::Gpt& m, weft::optim::AdamW& o, const Tensor& x, const Tensor& y) {
  return bench::train_gpt(m, o, x, y, weft::DType::f32);
};

}  // namespace

int main(int count, char** arguments) {
  const int layers = count > 1 ? std::atoi(arguments[1]) : 12;
  const auto text = [](unsigned seed) { return reshape(bench::random_labels(8 * 64, 65, seed), {8, 64}).eval(); };
  const Tensor x = text(1), y = text(2);
  const auto call = [&](auto& compiled, Training& of) {
    const auto start = bench::Clock::now();
    compiled(of.model, of.optimizer, x, y).eval();
    return bench::seconds_since(start);
  };
  Training a(layers), b(layers);
  auto automatic = weft::compile(step), never = weft::compile(step, {.region = weft::Region::never});
  const double first = call(automatic, a);
  call(never, b);
  double times[2] = {1e9, 1e9};
  for (int i = 0; i < 20; ++i) {
    times[0] = std::min(times[0], call(automatic, a));
    times[1] = std::min(times[1], call(never, b));
  }
  std::printf("{\"first\":%.6f,\"step\":%.6f,\"never\":%.6f}\n", first, times[0], times[1]);
}
