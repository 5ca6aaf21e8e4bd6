// rnn_step [first | plan]: a training step of a GRU of 128 over 200 steps of a batch of 32, by gradient descent, taking
// turns (support.hpp). first: the seconds of the first call, from an empty cache where WEFT_CACHE_DIR is one. plan: its
// kernels and its schedule.
#include <cstdio>
#include <cstring>
#include <iostream>

#include "support.hpp"

namespace {

using namespace weft;

const auto train = [](nn::GRU& model, const Tensor& x, const Tensor& y) {
  auto [loss, gradients] = value_and_grad([&](const nn::GRU& m) { return nn::mse_loss(m(x).output, y); }, model);
  auto parameters = nn::parameters(model);
  auto slopes = nn::parameters(gradients);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].value -= slopes[i].value.tensor() * 1e-3;
  return loss;
};

}  // namespace

int main(int count, char** arguments) {
  const Tensor x = bench::random_normal({200, 32, 128}, 1), y = bench::random_normal({200, 32, 128}, 2);
  nn::GRU model(128, 128);
  auto step = compile(train);
  const auto asked = [&](const char* what) { return count > 1 && !std::strcmp(arguments[1], what); };
  if (asked("first")) {
    const auto start = bench::Clock::now();
    step(model, x, y).eval();
    std::printf("%.6g\n", bench::seconds_since(start));
  } else if (asked("plan")) {
    const Explanation plan = explain(step, model, x, y);
    std::printf("%zu kernels\n", plan.kernels.size());
    std::cout << plan << '\n';
  } else {
    bench::take_turns([&] { step(model, x, y).eval(); });
  }
}
