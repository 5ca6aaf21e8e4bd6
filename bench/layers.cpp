// layers NAME compiled | eager: forward and backward of a layer or a loss at a usual size, taking turns (support.hpp).
// Without arguments the names.
#include <cstdio>
#include <cstring>

#include "support.hpp"

namespace {

using namespace weft;

template <class Layer>
struct Trial {
  Layer layer;
  Param x;
  WEFT_MEMBERS(layer, x)
};
struct NoLayer {};

// Gradients of the parameters and of x, of f(layer, x), whose gradient is `upstream`.
template <class F>
constexpr auto forward_backward = [](auto& trial, const Tensor& upstream, const Tensor& more) {
  auto [loss, gradients] =
      value_and_grad([&](auto& trial) { return sum(F()(trial.layer, trial.x, more) * upstream); }, trial);
  return gradients;
};

class Runner {
 public:
  Runner(const char* name, bool compiled) : name_(name), compiled_(compiled) {}

  template <class Layer, class F>
  void operator()(const char* name, Layer (*make)(), Sizes sizes, F f, const Tensor& more = {}) {
    if (!*name_) return void(std::puts(name));
    if (std::strcmp(name_, name)) return;
    Trial<Layer> trial{make(), bench::random_normal(sizes, 1)};
    Tensor result = f(trial.layer, trial.x, more);
    const Tensor upstream = bench::random_normal(result.shape(), 2);
    auto step = compile(forward_backward<F>, {.backend = compiled_ ? Backend::compiled : Backend::eager});
    bench::take_turns([&] {
      auto gradients = step(trial, upstream, more);
      bench::eval_all(gradients);
    });
  }

 private:
  const char* name_;
  bool compiled_;
};

constexpr auto call = [](auto& layer, const Tensor& x, const Tensor&) { return layer(x); };
NoLayer none() { return {}; }

}  // namespace

int main(int count, char** arguments) {
  Runner run(count > 1 ? arguments[1] : "", count > 2 && !std::strcmp(arguments[2], "compiled"));
  run(
      "linear", +[] { return nn::Linear(512, 512); }, {1024, 512}, call);
  run(
      "conv1d", +[] { return nn::Conv1d(64, 64, 3, {.padding = 1}); }, {16, 64, 256}, call);
  run(
      "conv2d", +[] { return nn::Conv2d(64, 64, 3, {.padding = 1}); }, {8, 64, 56, 56}, call);
  run(
      "conv3d", +[] { return nn::Conv3d(16, 16, 3, {.padding = 1}); }, {2, 16, 16, 32, 32}, call);
  run(
      "conv-transpose2d", +[] { return nn::ConvTranspose2d(64, 32, 2, {.stride = 2}); }, {8, 64, 28, 28}, call);
  run(
      "max-pool2d", +[] { return nn::MaxPool2d(3, {.stride = 2, .padding = 1}); }, {16, 64, 56, 56}, call);
  run(
      "avg-pool2d", +[] { return nn::AvgPool2d(2); }, {16, 64, 56, 56}, call);
  run(
      "adaptive-avg-pool2d", +[] { return nn::AdaptiveAvgPool2d(7); }, {16, 64, 56, 56}, call);
  run(
      "batch-norm2d", +[] { return nn::BatchNorm2d(64); }, {16, 64, 56, 56}, call);
  run(
      "group-norm", +[] { return nn::GroupNorm(8, 64); }, {16, 64, 56, 56}, call);
  run(
      "instance-norm2d", +[] { return nn::InstanceNorm2d(64); }, {16, 64, 56, 56}, call);
  run(
      "layer-norm", +[] { return nn::LayerNorm(512); }, {2048, 512}, call);
  run(
      "rms-norm", +[] { return nn::RMSNorm(512); }, {2048, 512}, call);
  run(
      "dropout", +[] { return nn::Dropout{}; }, {2048, 512}, call);
  run("gelu", none, {2048, 1024}, [](auto&, const Tensor& x, const Tensor&) { return gelu(x); });
  run("silu", none, {2048, 1024}, [](auto&, const Tensor& x, const Tensor&) { return silu(x); });
  run("softmax", none, {2048, 1024}, [](auto&, const Tensor& x, const Tensor&) { return softmax(x, -1); });
  const auto embed = [](auto& layer, const Tensor& x, const Tensor& labels) { return layer(labels) * x; };
  run(
      "embedding", +[] { return nn::Embedding(10000, 256); }, {64 * 128, 256}, embed,
      bench::random_labels(64 * 128, 10000, 3));
  run(
      "embedding-bag", +[] { return nn::EmbeddingBag(10000, 256); }, {1024, 256}, embed,
      reshape(bench::random_labels(1024 * 16, 10000, 3), {1024, 16}));
  run("attention", none, {8, 8, 128, 64}, [](auto&, const Tensor& x, const Tensor&) {
    return nn::scaled_dot_product_attention(x, x, x, {.is_causal = true});
  });
  run(
      "multihead-attention", +[] { return nn::MultiheadAttention(256, 8, {.batch_first = true}); }, {8, 128, 256},
      [](auto& layer, const Tensor& x, const Tensor&) { return layer(x, x, x).output; });
  run(
      "transformer-encoder-layer",
      +[] { return nn::TransformerEncoderLayer(256, 8, {.dim_feedforward = 1024, .dropout = 0, .batch_first = true}); },
      {8, 128, 256}, call);
  run(
      "transformer-decoder-layer",
      +[] { return nn::TransformerDecoderLayer(256, 8, {.dim_feedforward = 1024, .dropout = 0, .batch_first = true}); },
      {8, 128, 256}, [](auto& layer, const Tensor& x, const Tensor&) { return layer(x, x); });
  run(
      "rnn", +[] { return nn::RNN(128, 128); }, {50, 32, 128},
      [](auto& layer, const Tensor& x, const Tensor&) { return layer(x).output; });
  run(
      "lstm", +[] { return nn::LSTM(128, 128); }, {50, 32, 128},
      [](auto& layer, const Tensor& x, const Tensor&) { return layer(x).output; });
  run(
      "gru", +[] { return nn::GRU(128, 128); }, {50, 32, 128},
      [](auto& layer, const Tensor& x, const Tensor&) { return layer(x).output; });
  const Tensor labels = bench::random_labels(1024, 1000, 3);
  run(
      "cross-entropy", none, {1024, 1000},
      [](auto&, const Tensor& x, const Tensor& labels) { return nn::cross_entropy(x, labels); }, labels);
  run(
      "cross-entropy-smoothed", none, {1024, 1000},
      [](auto&, const Tensor& x, const Tensor& labels) {
        return nn::cross_entropy(x, labels, {.ignore_index = -100, .label_smoothing = 0.1});
      },
      labels);
  const Tensor target = sigmoid(bench::random_normal({1024, 1000}, 4));
  target.eval();
  run(
      "bce-with-logits", none, {1024, 1000},
      [](auto&, const Tensor& x, const Tensor& y) { return nn::binary_cross_entropy_with_logits(x, y); }, target);
  run(
      "smooth-l1", none, {1024, 1000}, [](auto&, const Tensor& x, const Tensor& y) { return nn::smooth_l1_loss(x, y); },
      target);
  run(
      "kl-div", none, {1024, 1000}, [](auto&, const Tensor& x, const Tensor& y) { return nn::kl_div(x, y); }, target);
  run(
      "cosine-embedding", none, {1024, 512},
      [](auto&, const Tensor& x, const Tensor& y) { return nn::cosine_embedding_loss(x, y, ones({1024})); },
      bench::random_normal({1024, 512}, 5));
  run(
      "triplet", none, {1024, 512},
      [](auto&, const Tensor& x, const Tensor& y) { return nn::triplet_margin_loss(x, y, y + 0.1); },
      bench::random_normal({1024, 512}, 5));
  run(
      "ctc", none, {100, 16, 32},
      [](auto&, const Tensor& x, const Tensor& texts) {
        return nn::ctc_loss(log_softmax(x, -1), texts, full({16}, 100, {DType::i64}), full({16}, 20, {DType::i64}));
      },
      reshape(bench::random_labels(16 * 20, 31, 3) + 1, {16, 20}));
}
