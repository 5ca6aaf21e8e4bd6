// gpu_models [tiny] [NAME [CASE]]: as gpu.cpp, of whole models: gpu-decode, gpu-resnet50, and gpu-models, which has
// every model of examples/models at full size but a Mixtral that fits. A forward pass in bf16, or a training step with
// AdamW, f32 under autocast. bench/peers/models_peer.py has the same. `tiny` takes the small ones of model_cases.hpp.
// `trace [MODEL]` in their place records the full-size models on the CPU without computing anything, to see that sizes
// fit.
#include "examples/models/clip.hpp"
#include "gpu_steps.hpp"
#include "model_cases.hpp"
#include "weft/backends.hpp"

namespace {

using namespace bench;

// ---- decoding -------------------------------------------------------------------------------------------------------

// The token after 1,023 others, greedily, of Llama 3.2 1B, whose cache holds 1,024.
constexpr auto next_token = [](const models::Llama& model, models::Llama::Caches& caches, const Tensor& token,
                               const Index& at) { return argmax(model(token, caches, at), -1); };
template <std::int64_t batch>
Call decode() {
  models::LlamaConfig config = tiny ? llama : models::LlamaConfig{.context = 1024};
  config.options = bf16();
  struct State {
    models::Llama model;
    models::Llama::Caches caches;
    Tensor token;
  };
  auto state = std::make_shared<State>(State{models::Llama(config), {}, labels({batch, 1}, 4000, 1)});
  eval_all(state->model);
  state->caches = state->model.make_caches(batch);
  eval_all(state->caches);
  return [state, last = config.context - 1, step = weft::compile(next_token, unchecked)] {
    state->token = step(state->model, state->caches, state->token, last).eval();
  };
}

// ---- ResNet-50 ------------------------------------------------------------------------------------------------------

template <bool constants>
Call resnet50_infer() {
  auto model = std::make_shared<models::ResNet<models::Bottleneck>>(resnet50());
  nn::eval(*model);
  nn::to(*model, DType::bf16);
  nn::to(*model, device);
  eval_all(*model);
  weft::CompileOptions options = unchecked;
  options.constant_parameters = constants;
  auto run = weft::compile([](models::ResNet<models::Bottleneck>& m, const Tensor& x) { return m(x); }, options);
  return [=, x = sample({32, 3, 224, 224}, 1, DType::bf16)] { run(*model, x).eval(); };
}

// ---- every model ----------------------------------------------------------------------------------------------------

using MakeInputs = std::function<Inputs()>;

Inputs on_device(Inputs inputs, bool low) {
  for (Tensor& input : inputs) {
    if (low && input.dtype() == DType::f32) input = cast(input, DType::bf16);
    input = to(input, device).eval();
  }
  return inputs;
}

// Adds both cases of a model.
struct Adder {
  template <class M, class Outputs, class Loss>
  void operator()(const char* name, M (*make)(), MakeInputs inputs, Outputs, Loss) {
    cases.push_back({"gpu-models", std::string(name) + "-forward", [=]() -> Call {
                       auto model = std::make_shared<M>(make());
                       nn::eval(*model);
                       nn::to(*model, DType::bf16);
                       nn::to(*model, device);
                       eval_all(*model);
                       auto run = weft::compile([](M& m, const Inputs& in) { return Outputs()(m, in); }, unchecked);
                       return [=, in = on_device(inputs(), true)] { run(*model, in).eval(); };
                     }});
    cases.push_back({"gpu-models", std::string(name) + "-training", [=]() -> Call {
                       struct State {
                         M model;
                         std::optional<weft::optim::AdamW> optimizer;
                       };
                       auto state = std::make_shared<State>(State{make(), {}});
                       nn::to(state->model, device);
                       eval_all(state->model);
                       state->optimizer.emplace(state->model, weft::optim::AdamWOptions{.lr = 1e-4});
                       to_device(*state->optimizer);
                       CompileOptions how = unchecked;
                       how.autocast = DType::bf16;
                       auto run = weft::compile(
                           [](M& m, weft::optim::AdamW& o, const Inputs& in) {
                             auto [loss, gradients] =
                                 value_and_grad([&](M& m) { return Loss()(Outputs()(m, in), in); }, m);
                             o.update(m, gradients);
                             return loss;
                           },
                           how);
                       return [=, in = on_device(inputs(), false)] {
                         run(state->model, *state->optimizer, in).eval();
                         eval_all(state->model);
                       };
                     }});
  }
  template <class M, class Outputs, class Loss>
  void operator()(const char* name, M (*make)(), const Inputs& inputs, Outputs outputs, Loss loss) {
    operator()(name, make, MakeInputs([inputs] { return inputs; }), outputs, loss);
  }
  std::vector<Case>& cases;
};

// Records the forward pass and its gradients, and computes nothing.
struct Tracer {
  template <class M, class Outputs, class Loss>
  void operator()(const char* name, M (*make)(), const MakeInputs& inputs, Outputs, Loss) {
    if (only && std::strcmp(only, name)) return;
    M model = make();
    double parameters = 0;
    for (const auto& one : nn::parameters(model)) {
      const Shape shape = one.value->shape();
      parameters += static_cast<double>(shape.element_count().constant());
      one.value = expand(zeros({}), shape).eval();
    }
    auto run = weft::compile(
        [](M& m, const Inputs& in) {
          return value_and_grad([&](M& m) { return Loss()(Outputs()(m, in), in); }, m).gradients;
        },
        {.check = Check::never, .backend = "recorded"});
    try {
      run(model, inputs());
    } catch (const std::exception& error) {
      std::printf("%s: %.1f million parameters: %s\n", name, parameters * 1e-6, error.what());
      std::fflush(stdout);
    }
  }
  const char* only;
};

template <class Run>
void each_full_model(Run& run) {
  static constexpr auto images = [](std::int64_t batch) {
    return Inputs{random_normal({batch, 3, 224, 224}, 1), random_labels(batch, 1000, 2)};
  };
  static constexpr auto texts = [](std::int64_t batch, std::int64_t time, std::int64_t vocabulary) {
    return Inputs{tokens(batch, time, 1, vocabulary), tokens(batch, time, 2, vocabulary)};
  };
  const MakeInputs images64 = [] { return images(64); }, images32 = [] { return images(32); };
  run(
      "resnet18", +[] { return models::resnet18(); }, images64, of_image, of_image_loss);
  run(
      "efficientnet-b0", +[] { return models::EfficientNet({.dropout = 0, .skip = 0}); }, images64, of_image,
      of_image_loss);
  run(
      "unet", +[] { return models::UNet(); },
      [] {
        return Inputs{random_normal({64, 3, 32, 32}, 1), random_normal({64, 3, 32, 32}, 2), random_labels(64, 1000, 3)};
      },
      of_diffusion, of_diffusion_loss);
  run(
      "gpt2", +[] { return models::Gpt2({.dropout = 0}); }, [] { return texts(8, 1024, 50257); }, of_text,
      of_image_loss);
  run(
      "llama", +[] { return models::Llama({.options = f32()}); }, [] { return texts(1, 512, 128256); }, of_text,
      of_image_loss);
  run(
      "bert", +[] { return models::Bert({.dropout = 0}); },
      [] {
        return Inputs{tokens(32, 128, 1, 30522), ones({32, 128}, {DType::i64}).eval(), random_normal({32, 768}, 2)};
      },
      of_bert, of_bert_loss);
  run(
      "vit", +[] { return models::VitClassifier(); }, images32, of_image, of_image_loss);
  run(
      "whisper", +[] { return models::Whisper(models::WhisperConfig()); },
      [] {
        return Inputs{random_normal({8, 80, 3000}, 1), tokens(8, 128, 1, 51865), tokens(8, 128, 2, 51865)};
      },
      of_speech, of_speech_loss);
  run(
      "lstm", +[] { return models::LstmLanguageModel({.dropout = 0}); },
      [] {
        return Inputs{tokens(35, 20, 1, 33278), tokens(35, 20, 2, 33278), zeros({2, 20, 650}).eval()};
      },
      of_state, of_image_loss);
  run(
      "mixtral",
      +[] {
        return models::Mixtral(models::MixtralConfig({.vocab_size = 32000,
                                                      .context = 1024,
                                                      .width = 1024,
                                                      .hidden = 3584,
                                                      .layers = 8,
                                                      .heads = 16,
                                                      .kv_heads = 4,
                                                      .rope_base = 1e6,
                                                      .rope_scaling = {.factor = 1},
                                                      .tied = false,
                                                      .options = f32()}));
      },
      [] { return texts(2, 512, 32000); }, of_text, of_image_loss);
  run(
      "mask-rcnn",
      +[] {
        return models::MaskRcnnHeads({.anchor_sizes = {32, 64}});
      },
      [] {
        return Inputs{random_normal({2, 256, 200, 200}, 1), random_normal({2, 256, 100, 100}, 2), some_boxes(256, 2),
                      random_labels(256, 91, 3)};
      },
      of_boxes, of_boxes_loss);
  run(
      "clip", +[] { return models::Clip(); },
      [] {
        Tensor text = tokens(64, 76, 1, 49000);
        return Inputs{random_normal({64, 3, 224, 224}, 1),
                      concat({text, full({64, 1}, 49407, {DType::i64})}, 1).eval()};
      },
      of_speech, [](const Tensor& y, const Inputs&) { return models::Clip::loss(y); });
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && !std::strcmp(arguments[1], "trace")) {
    device = weft::Device();
    weft::register_backend("recorded", [](const GraphView& graph, std::span<const Tensor>) -> weft::BackendExecutable {
      throw Error(("recorded " + std::to_string(graph.nodes().size()) + " nodes").c_str());
    });
    Tracer trace{count > 2 ? arguments[2] : nullptr};
    each_full_model(trace);
    return 0;
  }
  if (!has_device(count, arguments)) return 0;
  std::vector<Case> cases = {
      {"gpu-decode", "1B-bf16-cache1024-B1", decode<1>},
      {"gpu-decode", "1B-bf16-cache1024-B16", decode<16>},
      {"gpu-resnet50", "bf16-infer-B32", resnet50_infer<false>},
      {"gpu-resnet50", "bf16-infer-B32-constants", resnet50_infer<true>},
      {"gpu-resnet50", "bf16-train-B64", [] { return resnet50_step(64); }},
  };
  Adder add{cases};
  if (tiny)
    each_model(add);
  else
    each_full_model(add);
  return run_cases(cases, count, arguments);
}
