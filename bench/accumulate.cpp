// accumulate parts|calls|memory: a training step over 8 microbatches of 64 samples (4 layers of 512, clipped gradients,
// AdamW), as one compiled step, and as eight compiled calls that add up gradients and a compiled update, taking turns
// (support.hpp). `memory` prints the most bytes that the step takes beside its arguments, and those of the gradients of
// one microbatch.
#include <cstring>

#include "support.hpp"
#include "weft/accumulate.hpp"
#include "weft/memory.hpp"

namespace {

using weft::Tensor;
using Optimizer = weft::optim::AdamW;

constexpr std::int64_t count = 8, size = 64, width = 512;

struct Deep {
  std::vector<weft::nn::Linear> layers = std::vector<weft::nn::Linear>(4, weft::nn::Linear(width, width));
};

Tensor loss_of(const Deep& model, const Tensor& x) {
  Tensor y = x;
  for (const weft::nn::Linear& layer : model.layers) y = tanh(layer(y));
  return mean(square(y));
}

void update(Deep& model, Optimizer& optimizer, Deep& gradients) {
  weft::nn::clip_grad_norm(gradients, 1);
  optimizer.update(model, gradients);
}

Tensor whole_step(Deep& model, Optimizer& optimizer, const Tensor& x) {
  auto [loss, gradients] = weft::accumulate(count, loss_of, std::as_const(model), x);
  update(model, optimizer, gradients);
  return loss;
}

// Adds the gradients of a part to the sums.
Tensor part_step(const Deep& model, Deep& sums, const Tensor& x) {
  auto [loss, gradients] = weft::value_and_grad([&](const Deep& m) { return loss_of(m, x); }, model);
  weft::tree::for_each(sums, gradients, [](weft::Param& sum, const weft::Param& own) { sum = sum + own; });
  return loss / static_cast<double>(count);
}

void last_step(Deep& model, Optimizer& optimizer, Deep& sums) {
  Deep gradients = sums;
  weft::tree::for_each(gradients, [](weft::Param& own) { own = own / static_cast<double>(count); });
  update(model, optimizer, gradients);
  weft::tree::for_each(sums, [](weft::Param& sum) { sum = sum * 0; });
}

template <class Call>
std::int64_t most_of(Call call) {
  weft::MemoryMeter meter;
  for (int i = 0; i < 3; ++i) call();
  meter.reset_peak();
  call();
  return meter.peak();
}

}  // namespace

int main(int arguments, char** argument) {
  const char* const way = arguments > 1 ? argument[1] : "parts";
  const weft::CompileOptions options{.check = weft::Check::never};
  Deep model;
  Optimizer optimizer(model, {.lr = 1e-4});
  bench::eval_all(model);
  bench::eval_all(optimizer);
  const Tensor x = bench::random_normal({count * size, width}, 1);
  // The layers begin as copies of one, and share its memory until they are updated.
  weft::compile(whole_step, {.backend = weft::Backend::eager})(model, optimizer, x).eval();
  bench::eval_all(model);
  bench::eval_all(optimizer);
  const auto whole = weft::compile(whole_step, options);
  if (!std::strcmp(way, "memory")) {
    const std::int64_t all = most_of([&] { whole(model, optimizer, x).eval(); });
    const auto one = weft::compile(
        [](const Deep& m, const Tensor& x) {
          return weft::value_and_grad([&](const Deep& m) { return loss_of(m, x); }, m);
        },
        options);
    const Tensor part = slice(x, 0, 0, size).eval();
    const std::int64_t of_one = most_of([&] {
      auto found = one(std::as_const(model), part);
      bench::eval_all(found.gradients);
    });
    std::printf("%lld %lld\n", static_cast<long long>(all), static_cast<long long>(of_one));
    return 0;
  }
  if (!std::strcmp(way, "calls")) {
    std::vector<Tensor> parts;
    for (std::int64_t i = 0; i < count; ++i) parts.push_back((slice(x, 0, i * size, (i + 1) * size) + 0).eval());
    Deep sums = model;
    weft::tree::for_each(sums, [](weft::Param& sum) { sum = sum * 0; });
    bench::eval_all(sums);
    const auto part = weft::compile(part_step, options);
    const auto last = weft::compile(last_step, options);
    bench::take_turns([&] {
      Tensor loss = weft::zeros({});
      for (const Tensor& own : parts) loss = loss + part(std::as_const(model), sums, own);
      last(model, optimizer, sums);
      loss.eval();
    });
    return 0;
  }
  bench::take_turns([&] { whole(model, optimizer, x).eval(); });
}
