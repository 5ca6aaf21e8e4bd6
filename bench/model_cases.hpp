// The models of examples/models, small, in f32: what is measured of them, and what tests hold their memory to.
#pragma once
#include "bench/support.hpp"
#include "examples/models/bert.hpp"
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

namespace bench {

using namespace weft;
using Inputs = std::vector<Tensor>;

inline constexpr std::int64_t vocabulary = 4000, classes = 100;

inline Tensor tokens(std::int64_t a, std::int64_t b, unsigned seed = 1, std::int64_t below = vocabulary) {
  return reshape(random_labels(a * b, below, seed), {a, b}).eval();
}
// Logits [..., classes] and labels of any shape.
inline Tensor classify(const Tensor& logits, const Tensor& labels) {
  return nn::cross_entropy(reshape(logits, {-1, logits.size(-1)}), flatten(labels));
}

inline constexpr auto of_image = [](auto& m, const Inputs& in) { return m(in[0]); };
inline constexpr auto of_image_loss = [](const Tensor& y, const Inputs& in) { return classify(y, in[1]); };
inline constexpr auto of_text = [](auto& m, const Inputs& in) { return m(in[0]); };
inline constexpr auto of_diffusion = [](auto& m, const Inputs& in) { return m(in[0], in[2]); };
inline constexpr auto of_diffusion_loss = [](const Tensor& y, const Inputs& in) { return nn::mse_loss(y, in[1]); };
inline constexpr auto of_bert = [](auto& m, const Inputs& in) { return m.pool(m(in[0], in[1])); };
inline constexpr auto of_sentences = [](auto& m, const Inputs& in) {
  return models::sentence_embedding(m(in[0], in[1]), in[1]);
};
inline constexpr auto of_bert_loss = [](const Tensor& y, const Inputs& in) { return nn::mse_loss(y, in[2]); };
inline constexpr auto of_speech = [](auto& m, const Inputs& in) { return m(in[0], in[1]); };
inline constexpr auto of_speech_loss = [](const Tensor& y, const Inputs& in) { return classify(y, in[2]); };
inline constexpr auto of_state = [](auto& m, const Inputs& in) {
  models::LstmLanguageModel::State state{in[2], in[2]};
  return m(in[0], state);
};
// Scores of the classes, their boxes and masks, and of all anchors; features of each level, boxes, classes.
inline constexpr auto of_boxes = [](auto& m, const Inputs& in) {
  const Inputs features{in[0], in[1]};
  const auto anchors = m.proposals(features);
  const auto found = m.boxes(features, in[2]);
  return concat({flatten(anchors.logits), flatten(anchors.numbers), flatten(found.logits), flatten(found.numbers),
                 flatten(m.masks(features, in[2], in[3]))});
};
inline constexpr auto of_boxes_loss = [](const Tensor& y, const Inputs&) { return mean(square(y)); };
// Boxes [count, 5] of 32 x 64 pixels, all over two images.
inline Tensor some_boxes(int count, int apart = 1) {
  std::vector<float> boxes;
  for (int i = 0; i < count; ++i)
    for (const int number : {i % 2, i * 6 / apart, i * 5 / apart, i * 6 / apart + 32, i * 5 / apart + 64})
      boxes.push_back(static_cast<float>(number));
  return from_span(boxes, {count, 5});
}

inline const models::LlamaConfig llama{.vocab_size = vocabulary,
                                       .context = 128,
                                       .width = 256,
                                       .hidden = 688,
                                       .layers = 4,
                                       .heads = 8,
                                       .kv_heads = 2,
                                       .rope_scaling = {.factor = 1},
                                       .tied = false};

// run(name, make, inputs, outputs, loss) for each: `outputs(model, inputs)` is the forward pass, `loss(outputs,
// inputs)` what is trained.
template <class Run>
void each_model(Run& run) {
  const auto image = [](std::int64_t batch, std::int64_t size) {
    return Inputs{random_normal({batch, 3, size, size}, 1), random_labels(batch, classes, 2)};
  };
  const Inputs text{tokens(4, 128, 1), tokens(4, 128, 2)};
  run(
      "resnet18", +[] { return models::resnet18(classes); }, image(4, 96), of_image, of_image_loss);
  run(
      "efficientnet-b0", +[] { return models::EfficientNet({.classes = classes, .dropout = 0, .skip = 0}); },
      image(4, 96), of_image, of_image_loss);
  run(
      "unet",
      +[] {
        return models::UNet({.widths = {32, 64, 64}, .blocks = 1, .groups = 8});
      },
      {random_normal({4, 3, 32, 32}, 1), random_normal({4, 3, 32, 32}, 2), random_labels(4, 1000, 3)}, of_diffusion,
      of_diffusion_loss);
  run(
      "gpt2",
      +[] {
        return models::Gpt2(
            {.vocab_size = vocabulary, .context = 128, .width = 256, .layers = 4, .heads = 4, .dropout = 0});
      },
      text, of_text, of_image_loss);
  run(
      "llama", +[] { return models::Llama(llama); }, text, of_text, of_image_loss);
  run(
      "mixtral",
      +[] {
        models::MixtralConfig c(llama, 4);
        c.layers = 2;
        return models::Mixtral(c);
      },
      text, of_text, of_image_loss);
  run(
      "bert",
      +[] {
        return models::Bert({.vocab_size = vocabulary,
                             .context = 64,
                             .width = 256,
                             .hidden = 1024,
                             .layers = 4,
                             .heads = 4,
                             .dropout = 0});
      },
      {tokens(8, 64), ones({8, 64}, {DType::i64}).eval(), random_normal({8, 256}, 2)}, of_bert, of_bert_loss);
  run(
      "vit",
      +[] {
        return models::VitClassifier(
            {.image_size = 96, .patch = 16, .width = 192, .layers = 6, .heads = 3, .hidden = 768}, classes);
      },
      image(8, 96), of_image, of_image_loss);
  run(
      "whisper",
      +[] {
        return models::Whisper({.vocab_size = vocabulary,
                                .mel_bins = 80,
                                .frames = 200,
                                .context = 32,
                                .width = 192,
                                .layers = 2,
                                .heads = 4});
      },
      {random_normal({4, 80, 200}, 1), tokens(4, 32, 1), tokens(4, 32, 2)}, of_speech, of_speech_loss);
  run(
      "lstm",
      +[] {
        return models::LstmLanguageModel(
            {.vocab_size = vocabulary, .width = 200, .hidden = 200, .layers = 2, .dropout = 0});
      },
      {tokens(35, 20, 1), tokens(35, 20, 2), zeros({2, 20, 200}).eval()}, of_state, of_image_loss);
  run(
      "mask-rcnn",
      +[] {
        return models::MaskRcnnHeads({.channels = 64, .hidden = 256, .classes = 20, .anchor_sizes = {32, 64}});
      },
      {random_normal({2, 64, 64, 64}, 1), random_normal({2, 64, 32, 32}, 2), some_boxes(32), random_labels(32, 20, 3)},
      of_boxes, of_boxes_loss);
}

}  // namespace bench
