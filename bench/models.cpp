// models NAME forward|training eager|compiled|profile: whole models of examples/models, small, in f32, taking turns
// (support.hpp): logits in evaluation, or a training step with AdamW. `profile` prints profile() of the compiled
// function and the share of its time that libraries take. Without arguments the names; `models full` has those of the
// models of full size, which have a forward pass alone. bench/peers/models_peer.py has the same models of the same
// sizes.
#include <cstdio>
#include <cstring>
#include <iostream>

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
#include "support.hpp"

namespace {

using namespace weft;
using Inputs = std::vector<Tensor>;

constexpr std::int64_t vocabulary = 4000, classes = 100;

Tensor tokens(std::int64_t a, std::int64_t b, unsigned seed = 1, std::int64_t below = vocabulary) {
  return reshape(bench::random_labels(a * b, below, seed), {a, b}).eval();
}
// Logits [..., classes] and labels of any shape.
Tensor classify(const Tensor& logits, const Tensor& labels) {
  return nn::cross_entropy(reshape(logits, {-1, logits.size(-1)}), flatten(labels));
}

class Runner {
 public:
  Runner(int count, char** arguments) : arguments_(arguments), count_(count) {}

  // `outputs(model, inputs)` is the forward pass, `loss(outputs, inputs)` what is trained.
  template <class M, class Outputs, class Loss>
  void operator()(const char* name, M (*make)(), const Inputs& inputs, Outputs, Loss) {
    if (!is_wanted(name, count_ == 1)) return;
    M model = make();
    bench::eval_all(model);
    const CompileOptions how = options();
    if (!std::strcmp(arguments_[2], "forward")) {
      forward(model, inputs, Outputs(), how);
    } else {
      optim::AdamW optimizer(model, {.lr = 1e-4});
      bench::eval_all(optimizer);
      auto run = compile(
          [](M& m, optim::AdamW& o, const Inputs& in) {
            auto [loss, gradients] = value_and_grad([&](M& m) { return Loss()(Outputs()(m, in), in); }, m);
            o.update(m, gradients);
            return loss;
          },
          how);
      if (profiled()) return print(profile(run, model, optimizer, inputs));
      bench::take_turns([&] {
        run(model, optimizer, inputs).eval();
        bench::eval_all(model);
        bench::eval_all(optimizer);
      });
    }
  }

  // A model of full size.
  template <class M, class Outputs>
  void full(const char* name, M (*make)(), Inputs (*inputs)(), Outputs outputs) {
    if (!is_wanted(name, count_ == 2 && !std::strcmp(arguments_[1], "full"))) return;
    M model = make();
    bench::eval_all(model);
    forward(model, inputs(), outputs, options());
  }

 private:
  // Prints the name where it is to be listed.
  bool is_wanted(const char* name, bool listed) const {
    if (listed) std::puts(name);
    return count_ == 4 && !std::strcmp(arguments_[1], name);
  }
  CompileOptions options() const {
    return {.backend = std::strcmp(arguments_[3], "eager") ? Backend::compiled : Backend::eager};
  }
  template <class M, class Outputs>
  void forward(M& model, const Inputs& inputs, Outputs, const CompileOptions& how) {
    nn::eval(model);
    auto run = compile([](M& m, const Inputs& in) { return Outputs()(m, in); }, how);
    if (profiled()) return print(profile(run, model, inputs));
    bench::take_turns([&] { run(model, inputs).eval(); });
  }
  bool profiled() const { return !std::strcmp(arguments_[3], "profile"); }
  static void print(const Profile& profile) {
    double of_libraries = 0;
    for (const Profile::Step& step : profile.steps) of_libraries += step.generated ? 0 : step.seconds;
    std::cout << profile;
    std::printf("libraries %.1f %%\n", 100 * of_libraries / profile.seconds_in_steps);
  }

  char** arguments_;
  int count_;
};

constexpr auto of_image = [](auto& m, const Inputs& in) { return m(in[0]); };
constexpr auto of_image_loss = [](const Tensor& y, const Inputs& in) { return classify(y, in[1]); };
constexpr auto of_text = [](auto& m, const Inputs& in) { return m(in[0]); };

const models::LlamaConfig llama{.vocab_size = vocabulary,
                                .context = 128,
                                .width = 256,
                                .hidden = 688,
                                .layers = 4,
                                .heads = 8,
                                .kv_heads = 2,
                                .rope_scaling = {.factor = 1},
                                .tied = false};

}  // namespace

int main(int count, char** arguments) {
  Runner run(count, arguments);
  const auto image = [](std::int64_t batch, std::int64_t size) {
    return Inputs{bench::random_normal({batch, 3, size, size}, 1), bench::random_labels(batch, classes, 2)};
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
      {bench::random_normal({4, 3, 32, 32}, 1), bench::random_normal({4, 3, 32, 32}, 2),
       bench::random_labels(4, 1000, 3)},
      [](auto& m, const Inputs& in) { return m(in[0], in[2]); },
      [](const Tensor& y, const Inputs& in) { return nn::mse_loss(y, in[1]); });
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
      {tokens(8, 64), ones({8, 64}, {DType::i64}).eval(), bench::random_normal({8, 256}, 2)},
      [](auto& m, const Inputs& in) { return m.pool(m(in[0], in[1])); },
      [](const Tensor& y, const Inputs& in) { return nn::mse_loss(y, in[2]); });
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
      {bench::random_normal({4, 80, 200}, 1), tokens(4, 32, 1), tokens(4, 32, 2)},
      [](auto& m, const Inputs& in) { return m(in[0], in[1]); },
      [](const Tensor& y, const Inputs& in) { return classify(y, in[2]); });
  run(
      "lstm",
      +[] {
        return models::LstmLanguageModel(
            {.vocab_size = vocabulary, .width = 200, .hidden = 200, .layers = 2, .dropout = 0});
      },
      {tokens(35, 20, 1), tokens(35, 20, 2), zeros({2, 20, 200}).eval()},
      [](auto& m, const Inputs& in) {
        models::LstmLanguageModel::State state{in[2], in[2]};
        return m(in[0], state);
      },
      of_image_loss);
  // Boxes of 32 x 64 pixels, all over images of 256; scores of the classes, their boxes and masks, and of all anchors.
  std::vector<float> boxes;
  for (int i = 0; i < 32; ++i)
    for (const int number : {i % 2, i * 6, i * 5, i * 6 + 32, i * 5 + 64}) boxes.push_back(static_cast<float>(number));
  run(
      "mask-rcnn",
      +[] {
        return models::MaskRcnnHeads({.channels = 64, .hidden = 256, .classes = 20, .anchor_sizes = {32, 64}});
      },
      {bench::random_normal({2, 64, 64, 64}, 1), bench::random_normal({2, 64, 32, 32}, 2), from_span(boxes, {32, 5}),
       bench::random_labels(32, 20, 3)},
      [](auto& m, const Inputs& in) {
        const Inputs features{in[0], in[1]};
        const auto anchors = m.proposals(features);
        const auto found = m.boxes(features, in[2]);
        return concat({flatten(anchors.logits), flatten(anchors.numbers), flatten(found.logits), flatten(found.numbers),
                       flatten(m.masks(features, in[2], in[3]))});
      },
      [](const Tensor& y, const Inputs&) { return mean(square(y)); });
  constexpr auto one_image = [] { return Inputs{bench::random_normal({1, 3, 224, 224}, 1)}; };
  constexpr auto resnet50 = [] { return models::resnet50(); };
  run.full("resnet50-b1", +resnet50, +one_image, of_image);
  run.full(
      "resnet50-b8", +resnet50,
      +[] {
        return Inputs{bench::random_normal({8, 3, 224, 224}, 1)};
      },
      of_image);
  run.full(
      "efficientnet-b0-b1", +[] { return models::EfficientNet({.dropout = 0, .skip = 0}); }, +one_image, of_image);
  constexpr auto bert_base = [] { return models::Bert({.dropout = 0}); };
  constexpr auto of_bert = [](auto& m, const Inputs& in) { return m.pool(m(in[0], in[1])); };
  run.full(
      "bert-base-b1", +bert_base,
      +[] {
        return Inputs{tokens(1, 128, 1, 30522), ones({1, 128}, {DType::i64}).eval()};
      },
      of_bert);
  run.full(
      "bert-base-b8", +bert_base,
      +[] {
        return Inputs{tokens(8, 128, 1, 30522), ones({8, 128}, {DType::i64}).eval()};
      },
      of_bert);
  run.full(
      "gpt2-b1", +[] { return models::Gpt2({.dropout = 0}); }, +[] { return Inputs{tokens(1, 64, 1, 50257)}; },
      of_text);
}
