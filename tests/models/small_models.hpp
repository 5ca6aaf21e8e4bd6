// The example models (examples/models/) at sizes that a test runs in milliseconds, each with its forward function and
// arguments.
#pragma once
#include "examples/models/bert.hpp"
#include "examples/models/clip.hpp"
#include "examples/models/efficientnet.hpp"
#include "examples/models/gpt2.hpp"
#include "examples/models/llama.hpp"
#include "examples/models/lstm_language_model.hpp"
#include "examples/models/mask_rcnn.hpp"
#include "examples/models/mixtral.hpp"
#include "examples/models/resnet.hpp"
#include "examples/models/silero_vad.hpp"
#include "examples/models/unet.hpp"
#include "examples/models/vit.hpp"
#include "examples/models/whisper.hpp"
#include "weft/weft.hpp"

namespace small_models {

using namespace weft;

inline Tensor tokens(std::int64_t rows, std::int64_t columns, std::int64_t below) {
  return randint({rows, columns}, 0, below);
}

// Calls to.add(name, f, model, arguments...) for each: `f` takes the model and the arguments, and gives a tensor.
template <class To>
void add_small_models(To& to) {
  seed(7);
  const auto eval = [](auto model) {
    nn::eval(model);
    return model;
  };
  {
    const models::BertConfig config{
        .vocab_size = 19, .context = 12, .types = 2, .width = 16, .hidden = 24, .layers = 2, .heads = 4};
    to.add(
        "bert", [](const models::Bert& m, const Tensor& a, const Tensor& b, const Tensor& c) { return m(a, b, c); },
        eval(models::Bert(config)), tokens(3, 8, 19), tokens(3, 8, 2) == 0, tokens(3, 8, 2));
  }
  {
    const models::Gpt2Config config{.vocab_size = 19, .context = 12, .width = 16, .layers = 2, .heads = 4};
    to.add(
        "gpt2", [](const models::Gpt2& m, const Tensor& x) { return m(x); }, eval(models::Gpt2(config)),
        tokens(2, 9, 19));
  }
  to.add(
      "resnet18", [](models::ResNet<models::BasicBlock>& m, const Tensor& x) { return m(x); },
      eval(models::ResNet<models::BasicBlock>({2, 2, 2, 2}, 7)), uniform({2, 3, 40, 40}));
  to.add(
      "resnet50", [](models::ResNet<models::Bottleneck>& m, const Tensor& x) { return m(x); },
      eval(models::ResNet<models::Bottleneck>({1, 1, 2, 1}, 7)), uniform({2, 3, 48, 44}));
  {
    const models::VitConfig config{.image_size = 12, .patch = 4, .width = 16, .layers = 2, .heads = 4, .hidden = 24};
    to.add(
        "vit", [](const models::VitClassifier& m, const Tensor& x) { return m(x); },
        eval(models::VitClassifier(config, 7)), uniform({3, 3, 12, 12}));
  }
  {
    const models::LlamaConfig config{
        .vocab_size = 19, .context = 12, .width = 16, .hidden = 24, .layers = 2, .heads = 4, .kv_heads = 2};
    to.add(
        "llama", [](const models::Llama& m, const Tensor& x) { return m(x); }, eval(models::Llama(config)),
        tokens(2, 9, 19));
    const models::MixtralConfig mixture(config, 4);
    to.add(
        "mixtral", [](const models::Mixtral& m, const Tensor& x) { return m(x); }, eval(models::Mixtral(mixture)),
        tokens(2, 9, 19));
  }
  {
    const models::WhisperConfig config{
        .vocab_size = 19, .mel_bins = 6, .frames = 20, .context = 12, .width = 16, .layers = 2, .heads = 4};
    to.add(
        "whisper", [](const models::Whisper& m, const Tensor& sound, const Tensor& text) { return m(sound, text); },
        eval(models::Whisper(config)), uniform({2, 6, 20}, -1), tokens(2, 8, 19));
  }
  {
    const models::EfficientNetConfig config{.stem = 16,
                                            .stages = {{1, 3, 1, 8, 1}, {6, 3, 2, 16, 2}, {4, 5, 2, 24, 2}},
                                            .head = 40,
                                            .classes = 7,
                                            .dropout = 0,
                                            .skip = 0};
    to.add(
        "efficientnet", [](models::EfficientNet& m, const Tensor& x) { return m(x); },
        eval(models::EfficientNet(config)), uniform({4, 3, 32, 32}, -1));
  }
  {
    const models::UNetConfig config{
        .channels = 2, .widths = {8, 16, 16}, .blocks = 1, .attention_level = 1, .groups = 4, .eps = 1e-6};
    to.add(
        "unet", [](const models::UNet& m, const Tensor& x, const Tensor& t) { return m(x, t); },
        eval(models::UNet(config)), uniform({2, 2, 8, 8}, -1), randint({2}, 0, 1000));
  }
  to.add(
      "lstm_language_model",
      [](const models::LstmLanguageModel& m, const Tensor& x, const Tensor& h, const Tensor& c) {
        models::LstmLanguageModel::State state{h, c};
        return m(x, state);
      },
      eval(models::LstmLanguageModel({.vocab_size = 19, .width = 10, .hidden = 12, .layers = 2, .dropout = 0})),
      tokens(8, 3, 19), uniform({2, 3, 12}, -1), uniform({2, 3, 12}, -1));
  {
    models::ClipConfig clip;
    clip.image = {.image_size = 12, .patch = 4, .width = 16, .layers = 2, .heads = 4, .hidden = 24};
    clip.image.clip = true, clip.image.eps = 1e-5;
    clip.text.width = 12, clip.text.layers = 2, clip.text.heads = 2, clip.text.hidden = 20;
    clip.vocab_size = 19, clip.context = 10, clip.end_token = 18, clip.dimension = 10;
    to.add(
        "clip", [](const models::Clip& m, const Tensor& image, const Tensor& text) { return m(image, text); },
        eval(models::Clip(clip)), uniform({3, 3, 12, 12}, -1), where(arange(8) == 5, 18, tokens(3, 8, 18)));
  }
  {
    const models::MaskRcnnConfig config{.channels = 8, .hidden = 10, .classes = 4, .anchor_sizes = {16, 32}};
    const Tensor corner = uniform({6, 2}, 0, 40),
                 boxes = concat({zeros({6, 1}), corner, corner + uniform({6, 2}, 4, 50)}, 1);
    to.add(
        "mask_rcnn",
        [](const models::MaskRcnnHeads& m, const Tensor& a, const Tensor& b, const Tensor& boxes) {
          return m.boxes({a, b}, boxes).logits;
        },
        eval(models::MaskRcnnHeads(config)), uniform({1, 8, 16, 24}, -1), uniform({1, 8, 8, 12}, -1), boxes);
  }
  to.add(
      "silero_vad",
      [](const models::SileroVad& m, const Tensor& samples, const Tensor& h, const Tensor& c) {
        models::SileroVad::State state{h, c};
        return m(samples, state);
      },
      eval(models::SileroVad()), uniform({3, 576}, -1), zeros({1, 1, models::SileroVad::width}),
      zeros({1, 1, models::SileroVad::width}));
}

}  // namespace small_models
