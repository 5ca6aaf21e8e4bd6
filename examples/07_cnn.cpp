// Train a convolutional network on Fashion-MNIST: nine images of ten that it has not seen are told right after three
// epochs.
#include "examples/support/run.hpp"

using namespace weft;

using Layers = nn::Sequential<nn::Conv2d, nn::BatchNorm2d, nn::ReLU, nn::MaxPool2d, nn::Conv2d, nn::BatchNorm2d,
                              nn::ReLU, nn::MaxPool2d, nn::Flatten, nn::Linear, nn::ReLU, nn::Dropout, nn::Linear>;
Layers make_model() {
  return Layers(nn::Conv2d(1, 32, 3, {.padding = 1}), nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2, {.stride = 2}),
                nn::Conv2d(32, 64, 3, {.padding = 1}), nn::BatchNorm2d(64), nn::ReLU(), nn::MaxPool2d(2, {.stride = 2}),
                nn::Flatten(), nn::Linear(7 * 7 * 64, 128), nn::ReLU(), nn::Dropout(0.3), nn::Linear(128, 10));
}

struct State {  // all that a checkpoint holds
  explicit State(Device device) : model(make_model()), optimizer((nn::to(model, device), model)) {}
  Layers model;
  optim::AdamW optimizer;
  std::int64_t step = 0;
  WEFT_MEMBERS(model, optimizer, step)
};

Tensor train_step(Layers& model, optim::AdamW& optimizer, const Tensor& x, const Tensor& y, double steps, DType dtype) {
  auto [loss, gradients] = value_and_grad(
      [&](Layers& m) {
        return support::in_dtype(m, dtype, [&](auto& m) { return nn::cross_entropy(m(cast(x, dtype)), y); });
      },
      model);
  optimizer.lr = optim::one_cycle_lr(3e-3, optimizer.steps, steps);
  optimizer.update(model, gradients);
  return loss;
}
Tensor count_right(const Layers& model, const Tensor& x, const Tensor& y) { return sum(argmax(model(x)) == y); }

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::Training run;
    std::string folder;
    std::int64_t epochs = 3, images = 60000;
    constexpr std::int64_t batch = 128;
    const support::Given given =
        support::parse(count, arguments, run,
                       {{"--data", folder, "FOLDER: with Fashion-MNIST's four files"}, {"--epochs", epochs, "N"}});
    if (run.quick) given.set_unless_given<std::int64_t>("--epochs", epochs, 1), images = 20 * batch;
    const char* where = folder.empty() ? nullptr : folder.c_str();
    const auto dataset = data::fashion_mnist(data::Split::train, where);
    // A batch is a row of a permutation, which the seed and the epoch alone say: so a resumed run sees the same ones.
    const Tensor x = to(reshape(dataset.x, {-1, 1, 28, 28}), run.device()), y = to(dataset.y, run.device());
    const std::int64_t in_epoch = images / batch;
    State state(run.device());
    auto step = compile(train_step);
    Tensor order;
    std::int64_t ordered = -1;
    support::train(run, state, epochs * in_epoch, [&] {
      if (const std::int64_t epoch = state.step / in_epoch; epoch != ordered) {
        Generator shuffle(static_cast<std::uint64_t>(run.seed * 1000 + (ordered = epoch)));
        order = to(from_span(permutation(60000, shuffle), {60000}), run.device());
      }
      const std::int64_t at = state.step % in_epoch * batch;
      const Tensor rows = slice(order, 0, at, at + batch);
      return step(state.model, state.optimizer, gather(x, rows), gather(y, rows),
                  static_cast<double>(epochs * in_epoch), run.dtype());
    });
    nn::eval(state.model);
    const auto test = data::fashion_mnist(data::Split::test, where);
    auto right = compile(count_right);
    double sum = 0;
    for (std::int64_t at = 0; at < 10000; at += 1000)
      sum += right(state.model, to(reshape(slice(test.x, 0, at, at + 1000), {-1, 1, 28, 28}), run.device()),
                   to(slice(test.y, 0, at, at + 1000), run.device()))
                 .item();
    std::printf("test accuracy: %.2f %%\n", sum / 100);
  });
}
