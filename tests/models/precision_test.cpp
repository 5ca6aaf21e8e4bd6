// Training under autocast: losses in bf16 and f16 stay within bounds of those in f32. bench/precision_page.py draws
// longer runs of larger models.
#include <doctest/doctest.h>

#include <cmath>

#include "examples/models/gpt2.hpp"
#include "examples/models/resnet.hpp"
#include "tests/needs_compiler.hpp"

namespace weft {
namespace {

using test::a_compiler;
using test::needs;

template <class M, class Loss>
std::vector<double> losses(M model, DType type, const Tensor& x, const Tensor& y, Loss) {
  optim::AdamW optimizer(model, {.lr = 3e-3});
  GradScaler scaler({.init_scale = 1024, .enabled = type == DType::f16});
  auto step = compile(
      [](M& model, optim::AdamW& optimizer, GradScaler& scaler, const Tensor& x, const Tensor& y) {
        auto [scaled, gradients] = value_and_grad([&](M& m) { return scaler.scale(Loss()(m, x, y)); }, model);
        const Tensor scale = scaler.enabled ? scaler.current_scale() : ones({});
        scaler.step(optimizer, model, gradients = scaler.unscale(gradients));
        scaler.update();
        return scaled / scale;
      },
      {.level = Level::O1, .autocast = type});
  std::vector<double> found;
  for (int i = 0; i < 15; ++i) found.push_back(step(model, optimizer, scaler, x, y).template item<double>());
  return found;
}

// The loss falls, and nowhere lies further from that in f32 than these parts of the first loss.
template <class M, class Loss>
void hold(const M& model, const Tensor& x, const Tensor& y, double bf16_bound, double f16_bound, Loss loss) {
  const std::vector<double> wide = losses(model, DType::f32, x, y, loss);
  CHECK(wide.back() < 0.8 * wide.front());
  for (const auto& [type, bound] : {std::pair{DType::bf16, bf16_bound}, {DType::f16, f16_bound}}) {
    const std::vector<double> found = losses(model, type, x, y, loss);
    double most = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) most = std::max(most, std::abs(found[i] - wide[i]));
    CAPTURE(type);
    CHECK(most < bound * wide.front());
  }
}

}  // namespace

TEST_CASE("losses of a GPT under autocast stay near those in f32" * needs(a_compiler)) {
  seed(1);
  const models::Gpt2 model({.vocab_size = 31, .context = 16, .width = 32, .layers = 2, .heads = 2, .dropout = 0});
  Generator numbers(2);
  const Tensor x = randint({8, 16}, 0, 31, numbers).eval(), y = ((x * 7 + 3) % 31).eval();
  hold(model, x, y, 0.01, 0.005, [](const auto& m, const Tensor& x, const Tensor& y) {
    return nn::cross_entropy(flatten(m(x), 0, 1), flatten(y));
  });
}

TEST_CASE("losses of a residual network under autocast stay near those in f32" * needs(a_compiler)) {
  seed(1);
  const models::ResNet<models::BasicBlock> model({1, 1, 1, 1}, 4, 8);
  Generator numbers(2);
  const Tensor y = randint({16}, 0, 4, numbers).eval();
  const Tensor x = (normal({16, 3, 32, 32}, 0, 1, numbers) + reshape(cast(y, DType::f32), {16, 1, 1, 1})).eval();
  hold(model, x, y, 0.05, 0.02, [](auto& m, const Tensor& x, const Tensor& y) { return nn::cross_entropy(m(x), y); });
}

}  // namespace weft
