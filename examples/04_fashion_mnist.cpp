// Train a network on Fashion-MNIST: forward, backward and Adam's update are one compiled step. Ends with the accuracy
// on images that it has not seen, and what compiling bought.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <weft/weft.hpp>

using namespace weft;

struct Mlp {  // a plain struct is a module
  nn::Linear in{784, 256}, mid{256, 128}, out{128, 10};
  Tensor operator()(const Tensor& x) const { return out(relu(mid(relu(in(x))))); }
};

Tensor train_step(Mlp& model, optim::Adam& opt, const Tensor& x, const Tensor& y) {
  auto [loss, grads] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, model);
  opt.update(model, grads);
  return loss;
}

Tensor accuracy(const Mlp& model, const Tensor& x, const Tensor& y) {
  return mean(cast(argmax(model(x)) == y, DType::f32));
}

struct Settings {
  int epochs = 0;
  std::int64_t images = 60000;
  Device device;
  std::string folder;  // empty: where Debian's package puts the data

  Settings(int count, char** arguments) {
    for (int i = 1; i < count; ++i) {
      std::string option = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
      if (option == "--quick") {
        images = 1280;
        continue;
      }
      if (option == "--epochs" && std::atoi(value.c_str()) > 0)
        epochs = std::atoi(value.c_str());
      else if (option == "--device" && value == "cpu")
        device = Device::cpu();
      else if (option == "--device" && value == "cuda")
        device = Device::cuda();
      else if (option == "--data" && !value.empty())
        folder = value;
      else {
        std::fprintf(stderr, "usage: 04_fashion_mnist [--epochs N] [--device cpu|cuda] [--data FOLDER] [--quick]\n");
        std::exit(2);
      }
      ++i;
    }
    if (epochs == 0) epochs = images < 60000 ? 1 : 6;
  }
};

template <class F>
double milliseconds(F f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

template <class F>
double median_milliseconds(F f) {
  double times[51];
  for (double& time : times) time = milliseconds(f);
  std::nth_element(times, times + 25, times + 51);
  return times[25];
}

int main(int count, char** arguments) try {
  Settings settings(count, arguments);
  const char* folder = settings.folder.empty() ? nullptr : settings.folder.c_str();
  auto train = data::fashion_mnist(data::Split::train, folder) | data::take(settings.images) | data::shuffle() |
               data::batch(64, {.drop_last = true}) | data::to(settings.device) | data::prefetch(2);
  auto [test_images, test_labels] = data::fashion_mnist(data::Split::test, folder);

  seed(1);
  Mlp model;
  nn::to(model, settings.device);
  optim::Adam opt(model, {.lr = 1e-3});
  auto step = compile(train_step);

  Tensor x, y, loss;
  double first_call = 0;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    auto batches = progress(train, ("epoch " + std::to_string(epoch)).c_str());
    for (auto batch : batches) {
      x = batch.x, y = batch.y;
      double time = milliseconds([&] { loss = step(model, opt, x, y); });
      if (first_call == 0) first_call = time;
      batches.show(loss);
    }
    opt.lr = opt.lr * 0.7;  // a Scalar: nothing is compiled again
  }
  Tensor right = compile(accuracy)(model, to(test_images, settings.device), to(test_labels, settings.device));
  std::printf("\ntest accuracy     %.2f %%\n", right.item() * 100);

  double compiled = median_milliseconds([&] { step(model, opt, x, y).item(); });
  double eager = median_milliseconds([&] { train_step(model, opt, x, y).item(); });
  Explanation what = explain(step, model, opt, x, y);
  std::printf("first call        %.0f ms\n", first_call);
  std::printf("step, eager       %.3f ms\n", eager);
  std::printf("step, compiled    %.3f ms\n", compiled);
  std::printf("kernels per step  %zu\n", what.kernels.size());
  std::printf("generated source  %s\n", what.source_path.c_str());
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
