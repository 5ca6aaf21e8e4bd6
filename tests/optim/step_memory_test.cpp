// What a compiled training step moves and keeps: the norm of all gradients is one pass over them, clipping and
// unscaling are part of the update's kernels, and gradients are not there all at once where nothing waits for all of
// them.
#include <doctest/doctest.h>

#include <string>

#include "tests/needs_compiler.hpp"
#include "tests/on_the_host.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/memory.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

// Of four layers, whose gradients are larger than activations: a batch of 8.
struct Deep {
  std::vector<nn::Linear> layers = std::vector<nn::Linear>(4, nn::Linear(256, 256));
};
constexpr std::int64_t weights = 4 * 256 * 256 * 4, gradient_bytes = weights + 4 * 256 * 4;
Tensor loss_of(const Deep& m, const Tensor& x) {
  Tensor y = x;
  for (const nn::Linear& layer : m.layers) y = tanh(layer(y));
  return mean(square(y));
}
auto gradients_of(const Deep& m, const Tensor& x) {
  return value_and_grad([&](const Deep& m) { return loss_of(m, x); }, m);
}

template <class Optimizer>
Tensor train(Deep& m, Optimizer& opt, const Tensor& x) {
  auto [loss, gradients] = gradients_of(m, x);
  opt.update(m, gradients);
  return loss;
}

Tensor plain_step(Deep& m, optim::AdamW& opt, const Tensor& x, const Scalar&) { return train(m, opt, x); }
Tensor clipped_step(Deep& m, optim::AdamW& opt, const Tensor& x, const Scalar&) {
  auto [loss, gradients] = gradients_of(m, x);
  nn::clip_grad_norm(gradients, 1.0);
  opt.update(m, gradients);
  return loss;
}
Tensor unscaled_step(Deep& m, optim::AdamW& opt, const Tensor& x, const Scalar& scale) {
  auto [loss, gradients] = value_and_grad([&](const Deep& m) { return loss_of(m, x) * scale; }, m);
  tree::for_each(gradients, [&](Param& g) { g = g * (1 / scale); });
  nn::clip_grad_norm(gradients, 1.0);
  opt.update(m, gradients);
  return loss;
}

struct Moved {
  std::int64_t update = 0, all = 0;  // bytes of the kernels that update, and of all generated kernels
  std::int64_t arena = 0;            // bytes of temporaries
};
template <class F>
Moved moved_by(F f) {
  Deep m;
  optim::AdamW opt(m);
  const Explanation e = explain(compile(f), m, opt, ones({8, 256}), Scalar(1024));
  Moved result;
  result.arena = e.arena_bytes;
  for (const Explanation::Kernel& kernel : e.kernels) {
    result.all += kernel.bytes;
    if (kernel.name.find("AdamW") != std::string::npos) result.update += kernel.bytes;
  }
  return result;
}

TEST_CASE("the norm is one pass over all gradients; unscaling, clipping and the update are one more" *
          test::needs(test::a_compiler)) {
  const Moved plain = moved_by(plain_step);
  for (const Moved& each : {moved_by(clipped_step), moved_by(unscaled_step)}) {
    // The update reads a parameter, its gradient and two moments and writes three of them, with and without the norm.
    CHECK(each.update >= 7 * weights);
    // On a device the kernel of the norm computes numbers of the update as well, and has its name.
    const std::int64_t norm = test::on_the_host() ? 0 : gradient_bytes;
    CHECK(each.update <= 1.02 * static_cast<double>(plain.update) + static_cast<double>(norm));
    // The norm reads each gradient once, and nothing of their size is written.
    CHECK(each.all - plain.all <= 1.15 * static_cast<double>(gradient_bytes));
  }
}

TEST_CASE("gradients go into the update as backward makes them: they are not there all at once" *
          test::needs(test::all_of<test::a_compiler, test::order_of_least_memory>)) {
  const Moved plain = moved_by(plain_step), clipped = moved_by(clipped_step);
  CHECK(plain.arena < gradient_bytes / 2);
  CHECK(clipped.arena >= gradient_bytes);  // the norm waits for all
}

TEST_CASE("of 20 layers a step holds the gradients of one or two, as planned and as measured" *
          test::needs(test::all_of<test::a_compiler, test::order_of_least_memory>)) {
  constexpr std::int64_t count = 20, of_layer = gradient_bytes / 4, activations = count * 8 * 256 * 4;
  const auto check = [&]<class Optimizer>(Tensor (*step)(Deep&, Optimizer&, const Tensor&)) {
    Deep m;
    m.layers.assign(count, nn::Linear(256, 256));
    Optimizer opt(m);
    const auto compiled = compile(step, {.check = Check::never});
    const Tensor x = ones({8, 256}).eval();
    const Explanation::Memory planned = explain(compiled, m, opt, x).memory;
    CHECK(planned.temporaries < 2 * of_layer + 2 * activations);
    CHECK(planned.results < of_layer);
    for (int i = 0; i < 3; ++i) compiled(m, opt, x).eval();
    const MemoryMeter meter;
    compiled(m, opt, x).eval();
    CHECK(meter.peak() < 3 * of_layer + 2 * activations);  // all gradients are 20
  };
  check(train<optim::SGD>);
  check(train<optim::AdamW>);
}

}  // namespace
}  // namespace weft
