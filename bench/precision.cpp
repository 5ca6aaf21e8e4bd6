// precision char-gpt|fashion-mnist|resnet-18 f32|bf16|f16 STEPS: trains in f32 or under autocast, f16 with a
// GradScaler, and prints the loss of each step: bench/precision_page.py draws them. Weights, data and order are the
// same for each type.
#include <cstdlib>
#include <cstring>

#include "examples/models/gpt2.hpp"
#include "examples/models/resnet.hpp"
#include "examples/support/characters.hpp"
#include "support.hpp"

namespace {

using namespace weft;

struct Settings {
  DType type;
  int steps;
};

template <class M, class Batch, class Loss>
void train(M model, double lr, const Settings& settings, Batch batch, Loss) {
  optim::AdamW optimizer(model, {.lr = lr});
  GradScaler scaler({.enabled = settings.type == DType::f16});
  auto step = compile(
      [](M& model, optim::AdamW& optimizer, GradScaler& scaler, const Tensor& x, const Tensor& y) {
        auto [scaled, gradients] = value_and_grad([&](M& m) { return scaler.scale(Loss()(m, x, y)); }, model);
        const Tensor scale = scaler.enabled ? scaler.current_scale() : ones({});
        scaler.step(optimizer, model, gradients = scaler.unscale(gradients));
        scaler.update();
        return scaled / scale;
      },
      {.autocast = settings.type});
  for (int i = 0; i < settings.steps; ++i) {
    const auto [x, y] = batch(i);
    std::printf("%.6f\n", step(model, optimizer, scaler, x, y).template item<double>());
    std::fflush(stdout);
  }
}

void char_gpt(const Settings& settings) {
  const std::string text = data::read_text("/usr/share/common-licenses/GPL-3");
  support::CharacterModel shape;
  shape.alphabet = support::Alphabet(text);
  shape.width = 128, shape.layers = 4;
  const Tensor all = shape.alphabet.encode(text);
  const std::int64_t context = shape.context;
  Generator places(7);
  const auto batch = [&](int) {
    const Tensor from = randint({8}, 0, static_cast<std::int64_t>(text.size()) - context - 1, places);
    const Tensor rows = gather(all, unsqueeze(from, 1) + arange(context + 1));
    return std::pair{slice(rows, 1, 0, -1).eval(), slice(rows, 1, 1).eval()};
  };
  train(shape.make({}), 1e-3, settings, batch, [](const auto& m, const Tensor& x, const Tensor& y) {
    return nn::cross_entropy(flatten(m(x), 0, 1), flatten(y));
  });
}

struct Mlp {  // of examples/04_fashion_mnist.cpp
  nn::Linear in{784, 256}, mid{256, 128}, out{128, 10};
  Tensor operator()(const Tensor& x) const { return out(relu(mid(relu(in(flatten(x, 1)))))); }
};

template <class M>
void of_images(M model, double lr, std::int64_t rows, const Settings& settings) {
  const data::Dataset set = data::fashion_mnist(data::Split::train);
  const Tensor images = reshape(slice(set.x, 0, 0, 4096), {4096, 1, 28, 28}).eval(), labels = slice(set.y, 0, 0, 4096);
  train(
      std::move(model), lr, settings,
      [&](int i) {
        const std::int64_t at = i * rows % (4096 - rows);
        return std::pair{slice(images, 0, at, at + rows).eval(), slice(labels, 0, at, at + rows).eval()};
      },
      [](auto& m, const Tensor& x, const Tensor& y) { return nn::cross_entropy(m(x), y); });
}

struct Resnet18 {  // of one channel
  models::ResNet<models::BasicBlock> net = models::resnet18(10);
  Tensor operator()(const Tensor& x) { return net(expand(x, {x.size(0), 3, x.size(2), x.size(3)})); }
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string name = arguments[1], type = arguments[2];
  seed(1);
  const Settings settings{type == "bf16"  ? DType::bf16
                          : type == "f16" ? DType::f16
                                          : DType::f32,
                          std::atoi(arguments[3])};
  if (name == "char-gpt") char_gpt(settings);
  if (name == "fashion-mnist") of_images(Mlp(), 1e-3, 128, settings);
  if (name == "resnet-18") of_images(Resnet18(), 1e-3, 32, settings);
}
