// Composites of 16-bit floats round once: their values are those of float64, rounded, to one unit in the last place.
// Operands are such that what is added nearly cancels what came before, so that a rounding in between shows.
#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/nn.hpp"

using namespace weft;

namespace {

using Inputs = std::vector<Tensor>;
using Shapes = std::vector<Shape>;

std::vector<double> numbers_of(const Tensor& value) {
  const Tensor wide = cast(value, DType::f64);
  std::vector<double> numbers;
  for (const double each : wide.data<double>()) numbers.push_back(each);
  return numbers;
}
Tensor tensor_of(const std::vector<double>& numbers, const Sizes& sizes, DType dtype) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return cast(reshape(from_span(std::span<const double>(numbers), {count}), sizes), dtype).eval();
}

double unit_of(DType dtype, double value) {
  const int digits = dtype == DType::f16 ? 10 : 7, least = dtype == DType::f16 ? -24 : -133;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1, std::max(exponent - 1 - digits, least));
}

// Numbers of the dtype about 1, of both signs.
Inputs operands_of(const Shapes& shapes, DType dtype) {
  Generator generator(7);
  Inputs inputs;
  for (const Shape& shape : shapes) inputs.push_back(cast(normal(shape, 0.1, 1, generator), dtype).eval());
  return inputs;
}

// `factors`: as many units of 1 are added to the bound, where a product takes rounded factors.
template <class F>
void check(const char* name, const Shapes& shapes, F f, double factors = 0) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Inputs inputs = operands_of(shapes, dtype);
    Inputs exact;
    for (const Tensor& each : inputs) exact.push_back(cast(each, DType::f64).eval());
    const std::vector<double> wanted = numbers_of(f(exact));
    double size = 0;
    for (const double each : wanted) size = std::max(size, std::fabs(each));
    const auto compare = [&](const char* how, const Tensor& found) {
      CAPTURE(std::string(name));
      CAPTURE(std::string(how));
      CAPTURE(std::string(info(dtype).name));
      CHECK(found.dtype() == dtype);
      const std::vector<double> values = numbers_of(found);
      REQUIRE(values.size() == wanted.size());
      double worst = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        // f32 in between, of sums about as large as the results or a few times larger.
        const double bound = unit_of(dtype, wanted[i]) + 0x1p-20 * size + factors * unit_of(dtype, 1);
        worst = std::max(worst, std::fabs(values[i] - wanted[i]) / bound);
      }
      CHECK(worst <= 1);
    };
    compare("at once", f(inputs));
    for (const Backend backend : {Backend::compiled, Backend::eager, Backend::reference})
      compare(backend == Backend::compiled ? "compiled" : "other backends", compile(f, {.backend = backend})(inputs));
  }
}

}  // namespace

TEST_CASE("functions of elements of 16-bit floats round once") {
  const Shape shape = Shape::of(64, 33);
  const Shapes two{shape, shape}, three{shape, shape, shape};
  check("lerp", three, [](const Inputs& x) { return lerp(x[0], x[1], x[2]); });
  check("lerp by a number", two, [](const Inputs& x) { return lerp(x[0], x[1], 0.3); });
  check("addcmul", three, [](const Inputs& x) { return addcmul(x[0], x[1], x[2]); });
  check("addcmul, -1/3", three, [](const Inputs& x) { return addcmul(x[0], x[1], x[2], -1.0 / 3); });
  check("addcdiv", three, [](const Inputs& x) { return addcdiv(x[0], x[1], x[2], 0.7); });
  check("hypot", two, [](const Inputs& x) { return hypot(x[0], x[1]); });
  check("logaddexp", two, [](const Inputs& x) { return logaddexp(x[0], x[1]); });
  check("xlogy", two, [](const Inputs& x) { return xlogy(x[0], abs(x[1])); });
  check("gelu", {shape}, [](const Inputs& x) { return gelu(x[0]); });
  check("gelu by tanh", {shape}, [](const Inputs& x) { return gelu(x[0], Gelu::tanh); });
  check("silu", {shape}, [](const Inputs& x) { return silu(x[0]); });
  check("elu", {shape}, [](const Inputs& x) { return elu(x[0], 0.7); });
  check("selu", {shape}, [](const Inputs& x) { return selu(x[0]); });
  check("softplus", {shape}, [](const Inputs& x) { return softplus(x[0]); });
  check("mish", {shape}, [](const Inputs& x) { return mish(x[0]); });
  check("hardswish", {shape}, [](const Inputs& x) { return hardswish(x[0]); });
  check("glu", {Shape::of(64, 32)}, [](const Inputs& x) { return nn::glu(x[0], -1); });
}

TEST_CASE("reductions, norms and losses of 16-bit floats round once") {
  const Shape shape = Shape::of(16, 65), channels = Shape::of(4, 6, 5, 3), six = Shape::of(6);
  const Shapes two{shape, shape};
  check("mean", {shape}, [](const Inputs& x) { return mean(x[0], 1); });
  check("var", {shape}, [](const Inputs& x) { return var(x[0], 1); });
  check("std", {shape}, [](const Inputs& x) { return weft::std(x[0], 0); });
  check("norm", {shape}, [](const Inputs& x) { return norm(x[0], 1); });
  check("logsumexp", {shape}, [](const Inputs& x) { return logsumexp(x[0], 1); });
  check("softmax", {shape}, [](const Inputs& x) { return softmax(x[0], 1); });
  check("log_softmax", {shape}, [](const Inputs& x) { return log_softmax(x[0], 1); });
  check("quantile", {shape}, [](const Inputs& x) { return quantile(x[0], 0.3, 1); });
  check("trapezoid", {shape}, [](const Inputs& x) { return trapezoid(x[0], 0.3); });
  check("cov", {Shape::of(5, 65)}, [](const Inputs& x) { return cov(x[0]); });
  check("corrcoef", {Shape::of(5, 65)}, [](const Inputs& x) { return corrcoef(x[0]); });
  check("layer_norm", {shape, Shape::of(65), Shape::of(65)},
        [](const Inputs& x) { return nn::layer_norm(x[0], x[1], x[2]); });
  check("rms_norm", {shape, Shape::of(65)}, [](const Inputs& x) { return nn::rms_norm(x[0], x[1], 1e-5); });
  check("group_norm", {channels, six, six}, [](const Inputs& x) { return nn::group_norm(x[0], 3, x[1], x[2]); });
  check("instance_norm", {channels, six, six}, [](const Inputs& x) { return nn::instance_norm(x[0], x[1], x[2]); });
  check("batch_norm", {channels, six, six, six, six}, [](const Inputs& x) {
    Tensor mean = x[3], variance = abs(x[4]);
    return nn::batch_norm(x[0], mean, variance, x[1], x[2], false);
  });
  check("batch_norm in training", {channels, six, six}, [](const Inputs& x) {
    Tensor mean, variance;
    return nn::batch_norm(x[0], mean, variance, x[1], x[2], true);
  });
  check("local_response_norm", {channels}, [](const Inputs& x) { return nn::local_response_norm(x[0], 3); });
  check("normalize", {shape}, [](const Inputs& x) { return nn::normalize(x[0]); });
  check("cosine_similarity", two, [](const Inputs& x) { return nn::cosine_similarity(x[0], x[1]); });
  check("pairwise_distance", two, [](const Inputs& x) { return nn::pairwise_distance(x[0], x[1]); });
  check("mse_loss", two, [](const Inputs& x) { return nn::mse_loss(x[0], x[1]); });
  check("smooth_l1_loss", two, [](const Inputs& x) { return nn::smooth_l1_loss(x[0], x[1]); });
  check("huber_loss", two, [](const Inputs& x) { return nn::huber_loss(x[0], x[1]); });
  check("cross_entropy", {shape}, [](const Inputs& x) { return nn::cross_entropy(x[0], arange(16) * 3); });
  check("avg_pool2d", {channels}, [](const Inputs& x) { return avg_pool2d(x[0], 2, {.padding = 1}); });
  check("interpolate", {channels}, [](const Inputs& x) {
    return nn::interpolate(x[0], {.scale_factor = {1.7}, .mode = nn::Interpolation::bilinear});
  });
}

TEST_CASE("what is added to a product of 16-bit floats is added before it is rounded") {
  const auto layer = [](const Inputs& x) { return nn::linear(x[0], x[1], x[2]); };
  check("linear", {Shape::of(48, 40), Shape::of(33, 40), Shape::of(33)}, layer);
  check("linear of a large product", {Shape::of(160, 128), Shape::of(96, 128), Shape::of(96)}, layer);
  check("linear of three axes", {Shape::of(4, 7, 40), Shape::of(33, 40), Shape::of(33)}, layer);
  check("linear of a vector", {Shape::of(40), Shape::of(33, 40), Shape::of(33)}, layer);
  check("linear without a bias", {Shape::of(48, 40), Shape::of(33, 40)},
        [](const Inputs& x) { return nn::linear(x[0], x[1]); });
  check("bilinear", {Shape::of(9, 13), Shape::of(9, 11), Shape::of(5, 13, 11), Shape::of(5)},
        [](const Inputs& x) { return nn::bilinear(x[0], x[1], x[2], x[3]); });
  const Shape weights = Shape::of(6, 4, 3), eight = Shape::of(6);
  check("conv1d", {Shape::of(3, 4, 20), weights, eight}, [](const Inputs& x) { return conv1d(x[0], x[1], x[2]); });
  check("conv2d, strided", {Shape::of(2, 8, 12, 11), Shape::of(16, 8, 3, 3), Shape::of(16)},
        [](const Inputs& x) { return conv2d(x[0], x[1], x[2], {.stride = 2, .padding = 1}); });
  check("conv2d of a large image", {Shape::of(2, 32, 24, 24), Shape::of(32, 32, 3, 3), Shape::of(32)},
        [](const Inputs& x) { return conv2d(x[0], x[1], x[2], {.padding = same_padding}); });
  check("conv2d of channels", {Shape::of(2, 8, 12, 11), Shape::of(8, 1, 3, 3), Shape::of(8)},
        [](const Inputs& x) { return conv2d(x[0], x[1], x[2], {.groups = 8}); });
  check("conv2d of one element", {Shape::of(2, 8, 12, 11), Shape::of(16, 8, 1, 1), Shape::of(16)},
        [](const Inputs& x) { return conv2d(x[0], x[1], x[2]); });
  check("conv3d", {Shape::of(1, 4, 5, 6, 7), Shape::of(4, 2, 2, 3, 2), Shape::of(4)},
        [](const Inputs& x) { return conv3d(x[0], x[1], x[2], {.groups = 2}); });
  check("conv_transpose2d", {Shape::of(2, 8, 7, 6), Shape::of(8, 4, 3, 3), Shape::of(4)},
        [](const Inputs& x) { return conv_transpose2d(x[0], x[1], x[2], {.stride = 2, .output_padding = 1}); });
}

TEST_CASE("a step of a recurrent layer of 16-bit floats rounds its state once") {
  static constexpr auto set = [](auto layer, const Inputs& x) {
    nn::RecurrentWeights& own = layer.layers.weights[0];
    own.weight_ih.tensor() = x[1], own.weight_hh.tensor() = x[2];
    own.bias_ih.tensor() = x[3], own.bias_hh.tensor() = x[4];
    return layer;
  };
  const auto operands = [](std::int64_t gates) {
    return Shapes{Shape::of(1, 5, 12),  Shape::of(gates * 8, 12), Shape::of(gates * 8, 8), Shape::of(gates * 8),
                  Shape::of(gates * 8), Shape::of(1, 5, 8),       Shape::of(1, 5, 8)};
  };
  check("RNN", operands(1), [](const Inputs& x) { return set(nn::RNN(12, 8), x)(x[0], x[5]).output; });
  check("GRU", operands(3), [](const Inputs& x) { return set(nn::GRU(12, 8), x)(x[0], x[5]).output; });
  check("LSTM", operands(4), [](const Inputs& x) { return set(nn::LSTM(12, 8), x)(x[0], x[5], x[6]).c_n; });
}

TEST_CASE("a bias that cancels a product leaves what f32 leaves") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = cast(full({1, 2}, 16), dtype), weight = tensor_of({16, 0.0625, 16, 0.125}, {2, 2}, dtype);
    const Tensor bias = tensor_of({-256, -256}, {2}, dtype);
    const auto layer = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return cast(nn::linear(x, weight, bias), DType::f32);
    };
    const std::vector<double> wanted{1, 2};
    CHECK(numbers_of(layer(x, weight, bias)) == wanted);
    CHECK(numbers_of(compile(layer)(x, weight, bias)) == wanted);
    const auto image = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return cast(conv1d(unsqueeze(x, -1), unsqueeze(weight, -1), bias), DType::f32);
    };
    CHECK(numbers_of(image(x, weight, bias)) == wanted);
    CHECK(numbers_of(compile(image)(x, weight, bias)) == wanted);
  }
}

TEST_CASE("scores of 16-bit queries and keys are not rounded before their softmax") {
  const Tensor q = tensor_of({1, 0.5}, {1, 2}, DType::bf16), k = tensor_of({256, 1, 256, 0}, {2, 2}, DType::bf16),
               v = tensor_of({1, 0}, {2, 1}, DType::bf16);
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return cast(nn::scaled_dot_product_attention(q, k, v, {.scale = 1}), DType::f32);
  };
  CHECK(attend(q, k, v).item<float>() == 0.62109375f);
  CHECK(compile(attend)(q, k, v).item<float>() == 0.62109375f);
  const Shape shape = Shape::of(2, 4, 24, 16);
  const Shapes operands{shape, Shape::of(2, 4, 40, 16), Shape::of(2, 4, 40, 16)};
  // The weights are rounded, as the product takes 16-bit factors: half a unit of each times its value.
  const double of_weights = 1.5;
  check(
      "attention", operands, [](const Inputs& x) { return nn::scaled_dot_product_attention(x[0], x[1], x[2]); },
      of_weights);
  check(
      "attention that looks back", operands,
      [](const Inputs& x) { return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true}); },
      of_weights);
}

TEST_CASE("gradients of layers of 16-bit floats are those of f32, rounded") {
  const auto compare = []<class F>(const char* name, const Shapes& shapes, F f) {
    CAPTURE(std::string(name));
    const auto gradients = [](const Inputs& inputs, const F& f) {
      // A factor that both dtypes hold.
      return grad([&](const Inputs& x) { return sum(cast(f(x), DType::f32) * 0.5); }, inputs);
    };
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const Inputs inputs = operands_of(shapes, dtype);
      Inputs exact;
      for (const Tensor& each : inputs) exact.push_back(cast(each, DType::f64).eval());
      const Inputs wanted = gradients(exact, f);
      for (const Inputs& found : {gradients(inputs, f), compile(gradients)(inputs, f)})
        for (std::size_t i = 0; i < found.size(); ++i) {
          CHECK(found[i].dtype() == dtype);
          const std::vector<double> got = numbers_of(found[i]), right = numbers_of(wanted[i]);
          REQUIRE(got.size() == right.size());
          double worst = 0;
          for (std::size_t j = 0; j < got.size(); ++j)
            worst = std::max(worst, std::fabs(got[j] - right[j]) / (unit_of(dtype, right[j]) + 0x1p-16));
          CHECK(worst <= 1);
        }
    }
  };
  compare("linear", {Shape::of(24, 20), Shape::of(12, 20), Shape::of(12)},
          [](const Inputs& x) { return nn::linear(x[0], x[1], x[2]); });
  compare("conv2d", {Shape::of(2, 4, 7, 6), Shape::of(6, 4, 3, 3), Shape::of(6)},
          [](const Inputs& x) { return conv2d(x[0], x[1], x[2], {.padding = 1}); });
  compare("conv_transpose2d", {Shape::of(2, 4, 7, 6), Shape::of(4, 6, 3, 3), Shape::of(6)},
          [](const Inputs& x) { return conv_transpose2d(x[0], x[1], x[2], {.stride = 2}); });
  compare("bilinear", {Shape::of(5, 4), Shape::of(5, 6), Shape::of(3, 4, 6), Shape::of(3)},
          [](const Inputs& x) { return nn::bilinear(x[0], x[1], x[2], x[3]); });
}
