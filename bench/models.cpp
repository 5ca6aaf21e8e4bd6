// models NAME forward|training eager|compiled|frozen|profile: whole models of examples/models, small, in f32, taking
// turns (support.hpp): logits in evaluation, or a training step with AdamW. `frozen` is compiled with
// constant_parameters; `profile` prints profile() of that function and the share of its time that libraries take.
// Without arguments the names; `models full` has those of the models of full size, which have a forward pass alone.
// bench/peers/models_peer.py has the same models of the same sizes.
#include <cstdio>
#include <cstring>
#include <iostream>

#include "model_cases.hpp"

namespace {

using namespace bench;

class Runner {
 public:
  Runner(int count, char** arguments) : arguments_(arguments), count_(count) {}

  // `outputs(model, inputs)` is the forward pass, `loss(outputs, inputs)` what is trained.
  template <class M, class Outputs, class Loss>
  void operator()(const char* name, M (*make)(), const Inputs& inputs, Outputs, Loss) {
    if (!is_wanted(name, count_ == 1)) return;
    M model = make();
    eval_all(model);
    const CompileOptions how = options();
    if (!std::strcmp(arguments_[2], "forward")) {
      forward(model, inputs, Outputs(), how);
    } else {
      optim::AdamW optimizer(model, {.lr = 1e-4});
      eval_all(optimizer);
      auto run = compile(
          [](M& m, optim::AdamW& o, const Inputs& in) {
            auto [loss, gradients] = value_and_grad([&](M& m) { return Loss()(Outputs()(m, in), in); }, m);
            o.update(m, gradients);
            return loss;
          },
          how);
      if (profiled()) return print(profile(run, model, optimizer, inputs));
      take_turns([&] {
        run(model, optimizer, inputs).eval();
        eval_all(model);
        eval_all(optimizer);
      });
    }
  }

  // A model of full size.
  template <class M, class Outputs>
  void full(const char* name, M (*make)(), Inputs (*inputs)(), Outputs outputs) {
    if (!is_wanted(name, count_ == 2 && !std::strcmp(arguments_[1], "full"))) return;
    M model = make();
    eval_all(model);
    forward(model, inputs(), outputs, options());
  }

 private:
  // Prints the name where it is to be listed.
  bool is_wanted(const char* name, bool listed) const {
    if (listed) std::puts(name);
    return count_ == 4 && !std::strcmp(arguments_[1], name);
  }
  CompileOptions options() const {
    const auto is = [this](const char* variant) { return !std::strcmp(arguments_[3], variant); };
    const bool forward = !std::strcmp(arguments_[2], "forward");
    return {.backend = is("eager") ? Backend::eager : Backend::compiled,
            .constant_parameters = is("frozen") || (forward && is("profile"))};
  }
  template <class M, class Outputs>
  void forward(M& model, const Inputs& inputs, Outputs, const CompileOptions& how) {
    nn::eval(model);
    auto run = compile([](M& m, const Inputs& in) { return Outputs()(m, in); }, how);
    if (profiled()) return print(profile(run, model, inputs));
    take_turns([&] { run(model, inputs).eval(); });
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

}  // namespace

int main(int count, char** arguments) {
  Runner run(count, arguments);
  each_model(run);
  constexpr auto one_image = [] { return Inputs{random_normal({1, 3, 224, 224}, 1)}; };
  constexpr auto resnet50 = [] { return models::resnet50(); };
  run.full("resnet50-b1", +resnet50, +one_image, of_image);
  run.full(
      "resnet50-b8", +resnet50,
      +[] {
        return Inputs{random_normal({8, 3, 224, 224}, 1)};
      },
      of_image);
  run.full(
      "efficientnet-b0-b1", +[] { return models::EfficientNet({.dropout = 0, .skip = 0}); }, +one_image, of_image);
  constexpr auto bert_base = [] { return models::Bert({.dropout = 0}); };
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
      "minilm-b32", +[] { return models::Bert({.width = 384, .hidden = 1536, .layers = 6, .dropout = 0}); },
      +[] {
        return Inputs{tokens(32, 64, 1, 30522), ones({32, 64}, {DType::i64}).eval()};
      },
      of_sentences);
  run.full(
      "gpt2-b1", +[] { return models::Gpt2({.dropout = 0}); }, +[] { return Inputs{tokens(1, 64, 1, 50257)}; },
      of_text);
}
