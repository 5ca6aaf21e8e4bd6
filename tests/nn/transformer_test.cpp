// Transformers, containers and gates against PyTorch's; modes; what is refused.
#include "weft/nn/transformer.hpp"

#include <cmath>

#include "tests/nn/golden.hpp"
#include "weft/nn/activation.hpp"
#include "weft/nn/containers.hpp"

using namespace weft;
using namespace nn_test;
using weft::test::refused;

namespace {

constexpr Options f64{DType::f64};
constexpr auto one = [](auto& m, const Values& x) { return Values{m(x[0])}; };
constexpr auto two = [](auto& m, const Values& x) { return Values{m(x[0], x[1])}; };

Tensor unseen(int size) { return reshape(arange(size), {size, 1}) < arange(size); }
Tensor padding() { return arange(3) >= reshape(2 - arange(2), {2, 1}); }

nn::TransformerOptions small() { return {.dim_feedforward = 6, .dropout = 0, .options = f64}; }
nn::TransformerOptions first() {
  nn::TransformerOptions options = small();
  options.activation = nn::Activation::gelu, options.norm_first = options.batch_first = true;
  return options;
}
nn::TransformerOptions bare() {
  nn::TransformerOptions options = small();
  options.bias = false;
  return options;
}

}  // namespace

TEST_CASE("TransformerEncoderLayer and TransformerEncoder give PyTorch's results and gradients") {
  check_golden("encoder_layer 1", {{3, 2, 4}}, one, nn::TransformerEncoderLayer(4, 2, small()), 1);
  check_golden(
      "encoder_layer 2", {{2, 3, 4}},
      [](auto& m, const Values& x) { return Values{m(x[0], {.key_padding_mask = padding(), .attn_mask = unseen(3)})}; },
      nn::TransformerEncoderLayer(4, 2, first()), -1);
  nn::TransformerOptions options = bare();
  options.layer_norm_eps = 1e-3;
  check_golden("encoder_layer 3", {{3, 4}}, one, nn::TransformerEncoderLayer(4, 1, options));
  options = small();
  options.batch_first = true;
  check_golden("encoder 1", {{2, 3, 4}}, one, nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, options), 2), 1);
}

TEST_CASE("TransformerDecoderLayer and TransformerDecoder give PyTorch's results and gradients") {
  check_golden("decoder_layer 1", {{3, 2, 4}, {5, 2, 4}}, two, nn::TransformerDecoderLayer(4, 2, small()), 1);
  check_golden(
      "decoder_layer 2", {{2, 3, 4}, {2, 3, 4}},
      [](auto& m, const Values& x) {
        return Values{m(x[0], x[1], {.self = {.attn_mask = unseen(3)}, .memory = {.key_padding_mask = padding()}})};
      },
      nn::TransformerDecoderLayer(4, 2, first()), -1);
  check_golden("decoder_layer 3", {{3, 4}, {5, 4}}, two, nn::TransformerDecoderLayer(4, 1, bare()));
  check_golden(
      "decoder 1", {{3, 2, 4}, {5, 2, 4}}, two,
      nn::TransformerDecoder(nn::TransformerDecoderLayer(4, 2, small()), 2, nn::LayerNorm(4, {.options = f64})), 1);
}

TEST_CASE("Transformer gives PyTorch's results and gradients") {
  const auto causal = [](auto& m, const Values& x) { return Values{m(x[0], x[1], {.target = {.is_causal = true}})}; };
  nn::TransformerOptions second = small(), third = bare();
  second.batch_first = second.norm_first = true;
  third.activation = nn::Activation::gelu;
  check_golden("transformer 1", {{5, 5, 4}, {5, 5, 4}}, causal, nn::Transformer(4, 2, 1, 2, small()));
  check_golden("transformer 2", {{5, 5, 4}, {5, 5, 4}}, causal, nn::Transformer(4, 2, 1, 2, second));
  check_golden("transformer 3", {{5, 5, 4}, {5, 5, 4}}, causal, nn::Transformer(4, 2, 1, 2, third));
}

TEST_CASE("Bilinear, GLU and Sequential give PyTorch's results and gradients") {
  check_golden("bilinear 1", {{3, 4}, {3, 2}}, two, nn::Bilinear(4, 2, 3, {.options = f64}));
  check_golden("bilinear 2", {{2, 3, 2}, {2, 3, 4}}, two, nn::Bilinear(2, 4, 2, {.bias = false, .options = f64}), 1);
  check_golden("bilinear 3", {{4}, {2}}, two, nn::Bilinear(4, 2, 3, {.options = f64}), -1);
  check_golden("glu 1", {{3, 4}}, one, nn::GLU());
  check_golden("glu 2", {{4, 3}}, one, nn::GLU{.axis = 0}, 1);
  check_golden("glu 3", {{2, 6, 2}}, one, nn::GLU{.axis = 1});
  check_golden("sequential 1", {{3, 4}}, one,
               nn::Sequential(nn::Linear(4, 6, {.options = f64}), nn::PReLU(1, 0.25, f64), nn::Unflatten(1, {2, 3}),
                              nn::Flatten(), nn::Linear(6, 2, {.options = f64}), nn::Softmax()));
}

namespace {
template <class Layer>
Tensor apply(Layer& layer, const Tensor& x) {
  return layer(x);
}
}  // namespace

TEST_CASE("modes reach the parts of a transformer and of Sequential; layers of activations are their functions") {
  const Tensor x = cast(wave({3, 2, 4}, 1), DType::f32);
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 8, .dropout = 0.5}), 2);
  auto run = compile(apply<nn::TransformerEncoder>);
  CHECK(max(abs(run(encoder, x) - run(encoder, x))).item() > 0);
  nn::eval(encoder);
  CHECK(max(abs(run(encoder, x) - run(encoder, x))).item() == 0);
  CHECK(max(abs(run(encoder, x) - encoder(x))).item() < 1e-5);
  CHECK(specialization_count(run) == 2);

  nn::Sequential model(nn::Linear(4, 4), nn::BatchNorm1d(4), nn::ReLU(), nn::Dropout(0.5));
  CHECK(nn::parameters(model)[0].name == std::string("0.weight"));
  CHECK(nn::parameters(model)[3].name == std::string("1.bias"));
  auto step = compile(apply<decltype(model)>);
  const Tensor rows = flatten(x, 0, 1);
  (void)step(model, rows).eval();
  CHECK(get<1>(model).num_batches_tracked->item<int>() == 1);
  nn::eval(model);
  CHECK(max(abs(step(model, rows) - std::as_const(model)(rows))).item() < 1e-6);
  CHECK(get<1>(model).num_batches_tracked->item<int>() == 1);

  const auto same = [](const Tensor& a, const Tensor& b) { CHECK(all(a == b).item<bool>()); };
  same(nn::Identity()(x), x);
  same(nn::GELU{.form = Gelu::tanh}(x), gelu(x, Gelu::tanh));
  same(nn::LeakyReLU{.negative_slope = 0.2}(x), leaky_relu(x, 0.2));
  same(nn::Softmin()(x), softmax(-x));
  same(nn::Hardtanh{.max_val = 0.3}(x), hardtanh(x, -1, 0.3));
  nn::SwiGLU feed(4, 6);
  same(feed(x), feed.down(silu(feed.gate(x)) * feed.up(x)));
}

TEST_CASE("transformers and containers: what is refused") {
  refused([] { nn::TransformerEncoderLayer(6, 4); }, "6 features");
  refused([] { nn::TransformerEncoderLayer(6, 2, {.layer_norm_eps = NAN}); },
          "layer_norm_eps must be finite, it is nan");
  refused([] { nn::glu(ones({2, 3})); }, "axis -1 does not have two halves: f32[2,3]");
  refused([] { nn::Unflatten(1, {2, 2})(ones({2, 3})); }, "axis 1 is not of these sizes: f32[2,3]");
  for (const int size : {1, 2}) {  // integers keep their dtype, as in PyTorch
    const Tensor row = ones({3, size}, {DType::i32});
    const Tensor twice = nn::bilinear(row, row, ones({2, size, size}, {DType::i32}), ones({2}, {DType::i32}));
    CHECK(twice.dtype() == DType::i32);
    CHECK(all(twice == size * size + 1).item<bool>());
  }
  refused([] { nn::Bilinear(2, 3, 4)(ones({5, 2}), ones({5, 2})); }, "takes [..., in1], [..., in2]");
  refused([] { nn::PReLU(0); }, "the number of parameters must be positive");
}
