// The training steps that bench/gpu*.cpp measure: each makes a model on the device and gives a call of its step.
#pragma once
#include "examples/models/resnet.hpp"
#include "functions.hpp"
#include "gpu.hpp"
#include "mlp.hpp"

namespace bench {

// With the counter of steps on the device nothing comes back to the host between steps.
template <class Optimizer>
void to_device(Optimizer& optimizer) {
  optimizer.steps = weft::Scalar(to(optimizer.steps.tensor(), device));
}

inline Call mlp_step(std::int64_t batch) {
  struct State {
    Mlp model;
    weft::optim::Adam optimizer{model, {.lr = 1e-3}};
  };
  auto state = std::make_shared<State>();
  weft::nn::to(state->model, device);
  state->optimizer = weft::optim::Adam(state->model, {.lr = 1e-3});
  to_device(state->optimizer);
  return
      [state, x = to(random_normal({batch, 784}, 1), device).eval(), y = to(random_labels(batch, 10, 2), device).eval(),
       step = weft::compile(train, unchecked)] { step(state->model, state->optimizer, x, y).eval(); };
}

// The parameters are f32; inside a step they are cast to `by_hand`, or autocast casts what it casts.
template <DType by_hand>
Call gpt_step(const Gpt::Sizes& sizes, std::int64_t batch, std::int64_t time, std::optional<DType> autocast = {}) {
  struct State {
    Gpt model;
    weft::optim::AdamW optimizer{model, {.lr = 1e-4}};
  };
  auto state = std::make_shared<State>(State{Gpt(sizes, f32())});
  to_device(state->optimizer);
  eval_all(state->model);
  weft::CompileOptions how = unchecked;
  how.autocast = autocast;
  auto step = weft::compile(
      [](Gpt& m, weft::optim::AdamW& o, const Tensor& x, const Tensor& y) { return train_gpt(m, o, x, y, by_hand); },
      how);
  return [=, x = labels({batch, time}, sizes.vocabulary, 8), y = labels({batch, time}, sizes.vocabulary, 9)] {
    step(state->model, state->optimizer, x, y).eval();
  };
}
inline Gpt::Sizes gpt2_sizes() {
  return tiny ? Gpt::Sizes{32, 32, 32, 2, 4, true} : Gpt::Sizes{.vocabulary = 50304, .fused = true};
}
inline Call gpt2_step() { return gpt_step<DType::bf16>(gpt2_sizes(), 16, 1024); }
inline Call gpt2_autocast_step() { return gpt_step<DType::f32>(gpt2_sizes(), 16, 1024, DType::bf16); }
inline Call char_gpt_step() { return gpt_step<DType::f32>({65, 64, 128, 4, 4}, 8, 64); }

inline models::ResNet<models::Bottleneck> resnet50() {
  return tiny ? models::ResNet<models::Bottleneck>({1, 1, 1, 1}, 32, 8) : models::resnet50();
}
// With momentum; the parameters are f32, autocast gives bf16.
inline Call resnet50_step(std::int64_t batch) {
  struct State {
    models::ResNet<models::Bottleneck> model = resnet50();
    std::optional<weft::optim::SGD> optimizer;
  };
  auto state = std::make_shared<State>();
  weft::nn::to(state->model, device);
  state->optimizer.emplace(state->model, weft::optim::SgdOptions{.lr = 1e-3, .momentum = 0.9});
  eval_all(state->model);
  weft::CompileOptions how = unchecked;
  how.autocast = DType::bf16;
  auto step = weft::compile(
      [](models::ResNet<models::Bottleneck>& m, weft::optim::SGD& o, const Tensor& x, const Tensor& y) {
        auto [loss, gradients] = weft::value_and_grad([&](auto& m) { return weft::nn::cross_entropy(m(x), y); }, m);
        o.update(m, gradients);
        return loss;
      },
      how);
  return [=, x = sample({batch, 3, 224, 224}, 1), y = labels({batch}, 1000, 2)] {
    step(state->model, *state->optimizer, x, y).eval();
    eval_all(state->model);
  };
}

}  // namespace bench
