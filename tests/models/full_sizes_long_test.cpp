// Every family in its published size: it is built, has as many parameters as the published model, and a training step
// makes its loss smaller. Of Mixtral 8x7B, which no machine of ours holds, one layer of 32.
#include <doctest/doctest.h>

#include <cmath>

#include "examples/models/bert.hpp"
#include "examples/models/clip.hpp"
#include "examples/models/efficientnet.hpp"
#include "examples/models/gpt2.hpp"
#include "examples/models/llama.hpp"
#include "examples/models/lstm_language_model.hpp"
#include "examples/models/mask_rcnn.hpp"
#include "examples/models/mixtral.hpp"
#include "examples/models/resnet.hpp"
#include "examples/models/unet.hpp"
#include "examples/models/vit.hpp"
#include "examples/models/whisper.hpp"

using namespace weft;

namespace {

using Inputs = std::vector<Tensor>;

Tensor tokens(Sizes sizes, std::int64_t below, std::uint64_t seed) {
  Generator generator(seed);
  return randint(sizes, 0, below, generator);
}
Tensor noise(Sizes sizes, std::uint64_t seed = 1) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator);
}
Tensor classify(const Tensor& logits, const Tensor& labels) {
  return nn::cross_entropy(reshape(logits, {-1, logits.size(-1)}), flatten(labels));
}

// `loss(model, inputs)` is what is trained. `parameters`: of the published model; 0 where it has others besides.
template <class M, class Loss>
void check(M model, std::int64_t parameters, const Inputs& inputs, Loss, double rate = 1e-3) {
  std::int64_t count = 0;
  for (auto& p : nn::parameters(model)) count += std::int64_t(p.value.tensor().element_count());
  MESSAGE(count, " parameters");
  if (parameters > 0) CHECK(count == parameters);
  const auto step = compile([](M& m, const Inputs& in, Scalar rate) {
    auto [loss, gradients] = value_and_grad([&](M& m) { return Loss()(m, in); }, m);
    tree::for_each(m, gradients, [&](Param& p, const Param& g) {
      if (g->defined()) p = p.tensor() - g.tensor() * rate;
    });
    return loss;
  });
  const double first = step(model, inputs, rate).item(), second = step(model, inputs, rate).item();
  MESSAGE("loss ", first, ", then ", second);
  CHECK(std::isfinite(first));
  CHECK(second < first);
}

constexpr auto of_image = [](auto& m, const Inputs& in) { return nn::cross_entropy(m(in[0]), in[1]); };
constexpr auto of_text = [](auto& m, const Inputs& in) { return classify(m(in[0]), in[1]); };

const Inputs images{noise({2, 3, 224, 224}), tokens({2}, 1000, 2)};

}  // namespace

TEST_CASE("ResNet-18") { check(models::resnet18(), 11689512, images, of_image); }
TEST_CASE("ResNet-50") { check(models::resnet50(), 25557032, images, of_image); }
TEST_CASE("EfficientNet-B0") { check(models::EfficientNet({.dropout = 0, .skip = 0}), 5288548, images, of_image); }
TEST_CASE("the U-Net of CIFAR-10") {
  check(models::UNet(), 35746307, {noise({2, 3, 32, 32}), noise({2, 3, 32, 32}, 2), tokens({2}, 1000, 3)},
        [](auto& m, const Inputs& in) { return nn::mse_loss(m(in[0], in[2]), in[1]); });
}
TEST_CASE("GPT-2") {
  check(models::Gpt2({.dropout = 0}), 124439808, {tokens({1, 128}, 50257, 1), tokens({1, 128}, 50257, 2)}, of_text);
}
TEST_CASE("Llama 3.2 1B") {
  check(models::Llama(models::LlamaConfig()), 1235814400, {tokens({1, 32}, 128256, 1), tokens({1, 32}, 128256, 2)},
        of_text);
}
TEST_CASE("a layer of Mixtral 8x7B") {
  models::MixtralConfig c;
  c.layers = 1;
  // Two embeddings, and 1.45 billion of the layer.
  check(models::Mixtral(c), 2 * 32000 * std::int64_t{4096} + 4096 + 1451270144,
        {tokens({1, 16}, 32000, 1), tokens({1, 16}, 32000, 2)}, of_text);
}
TEST_CASE("BERT base") {
  check(models::Bert({.dropout = 0}), 109482240,
        {tokens({2, 64}, 30522, 1), ones({2, 64}, {DType::i64}), noise({2, 768})},
        [](auto& m, const Inputs& in) { return nn::mse_loss(m.pool(m(in[0], in[1])), in[2]); });
}
TEST_CASE("ViT-B/16") { check(models::VitClassifier(), 86567656, images, of_image); }
TEST_CASE("CLIP ViT-B/32, its image tower") {
  check(models::Vit(models::ClipConfig().image), 0, {images[0], noise({2, 50, 768}, 3)},
        [](auto& m, const Inputs& in) { return nn::mse_loss(m(in[0]), in[1]); });
}
TEST_CASE("Whisper base") {
  check(models::Whisper(models::WhisperConfig()), 72593920,
        {noise({1, 80, 3000}), tokens({1, 32}, 51865, 1), tokens({1, 32}, 51865, 2)},
        [](auto& m, const Inputs& in) { return classify(m(in[0], in[1]), in[2]); });
}
TEST_CASE("the LSTM language model of WikiText-2") {
  constexpr std::int64_t words = 33278, width = 650, layer = 4 * width * (2 * width + 2);
  check(models::LstmLanguageModel({.dropout = 0}), 2 * words * width + words + 2 * layer,
        {tokens({35, 4}, words, 1), tokens({35, 4}, words, 2)}, [](auto& m, const Inputs& in) {
          models::LstmLanguageModel::State state = m.make_state(4);
          return classify(m(in[0], state), in[1]);
        });
}
TEST_CASE("the heads of Mask R-CNN") {
  std::vector<float> boxes;
  for (int i = 0; i < 16; ++i)
    for (const int number : {0, i * 9, i * 8, i * 9 + 64, i * 8 + 96}) boxes.push_back(static_cast<float>(number));
  Inputs in{from_span(boxes, {16, 5}), tokens({16}, 91, 3)};
  for (const std::int64_t size : {64, 32, 16, 8, 4}) in.push_back(noise({1, 256, size, size}, 4));
  check(models::MaskRcnnHeads(models::MaskRcnnConfig()), 0, in, [](auto& m, const Inputs& in) {
    const Inputs features(in.begin() + 2, in.end());
    const auto anchors = m.proposals(features);
    const auto found = m.boxes(features, in[0]);
    return mean(square(anchors.logits)) + mean(square(anchors.numbers)) + nn::cross_entropy(found.logits, in[1]) +
           mean(square(found.numbers)) + mean(square(m.masks(features, in[0], in[1])));
  });
}
