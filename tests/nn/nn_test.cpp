// Layers, losses, and what is done to whole models.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/fail.hpp"
#include "ir/node.hpp"
#include "tests/record/refused.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

namespace weft {
namespace {

std::vector<double> values(const Tensor& tensor) {
  Tensor reals = cast(tensor, DType::f64);
  View<const double> view = reals.data<double>();
  return {view.begin(), view.end()};
}
TEST_CASE("Linear is x W^T + b over the last axis") {
  nn::Linear linear(3, 2);
  linear.weight = from_list<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  linear.bias = from_list<float>({10, 20});
  Tensor x = from_list<float>({1, 0, -1, 2, 2, 2}, {2, 3});
  CHECK(values(linear(x)) == std::vector<double>{8, 18, 22, 50});
  CHECK(linear(ones({3})).shape().same(Shape::of(2)));
  CHECK(linear(ones({4, 5, 3})).shape().same(Shape::of(4, 5, 2)));
  CHECK(values(linear(reshape(x, {1, 2, 3}))) == values(linear(x)));
  CHECK(linear(ones({0, 5, 3})).shape().same(Shape::of(0, 5, 2)));
  test::refused([&] { linear(ones({2, 4})); }, "[linear] takes 3 features, the input is f32[2,4]");
  test::refused([&] { nn::Linear(0, 2); }, "sizes must be positive");
}

TEST_CASE("Linear without a bias has nothing to train there") {
  nn::Linear linear(3, 2, {.bias = false});
  CHECK(linear(ones({1, 3})).shape().same(Shape::of(1, 2)));
  nn::Linear gradients = grad([](const nn::Linear& l) { return sum(l(ones({1, 3}))); }, linear);
  CHECK(values(gradients.weight) == std::vector<double>(6, 1));
  CHECK(!gradients.bias.tensor().defined());
  nn::freeze(linear);
  nn::freeze(linear, false);
  CHECK(linear.bias.frozen);
}

TEST_CASE("initial values: PyTorch's bounds for Linear, deviations for the others") {
  seed(1);
  nn::Linear linear(400, 300);
  auto deviation = [](const Tensor& x) { return std::sqrt(var(x, {}, 0).item()); };
  auto largest = [](const Tensor& x) { return max(abs(x)).item(); };
  CHECK(largest(linear.weight) <= 1 / 20.0);
  CHECK(largest(linear.weight) > 0.9 / 20.0);
  CHECK(largest(linear.bias) <= 1 / 20.0);
  CHECK(deviation(linear.weight) == doctest::Approx(1 / 20.0 / std::sqrt(3)).epsilon(0.02));
  CHECK(deviation(nn::kaiming_uniform({300, 400})) == doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.02));
  CHECK(deviation(nn::kaiming_normal({300, 400})) == doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.02));
  CHECK(deviation(nn::xavier_uniform({300, 400})) == doctest::Approx(std::sqrt(2.0 / 700)).epsilon(0.02));
  CHECK(deviation(nn::xavier_normal({300, 400})) == doctest::Approx(std::sqrt(2.0 / 700)).epsilon(0.02));
  CHECK(deviation(nn::kaiming_normal({30, 40, 10})) == doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.03));
  test::refused([] { nn::kaiming_normal({3}); }, "needs sizes [out, in, ...]");
  CHECK(values(nn::kaiming_uniform({4, 0})).empty());
  CHECK(values(nn::xavier_normal({0, 0})).empty());
}

TEST_CASE("layer normalization: values worked out in float64, of 16 bits rounded once, and what is refused") {
  const Tensor x = from_list<double>({1, 2, 4, 0, 0, 3}, {2, 3}), w = from_list<double>({1, 2, -1}),
               b = from_list<double>({0, 0.5, 1});
  const double expected[] = {-1.0690415314502977, -0.03452076572514906, -0.3363019143128718,
                             -0.7071050134262237, -0.9142100268524473,  -0.41421002685244734};
  const std::vector<double> found = values(nn::layer_norm(x, w, b));
  for (std::size_t i = 0; i < 6; ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-13));
  const auto narrow = [](const Tensor& t) { return cast(t, DType::bf16); };
  const auto wide = [](const Tensor& t) { return cast(t, DType::f32); };
  const Tensor y = nn::layer_norm(narrow(x), narrow(w), narrow(b));
  CHECK(y.dtype() == DType::bf16);
  CHECK(all(y == narrow(nn::layer_norm(wide(narrow(x)), wide(narrow(w)), wide(narrow(b))))).item<bool>());
  CHECK(values(nn::layer_norm(reshape(x, {1, 2, 3}), w, b)) == found);
  test::refused([&] { nn::layer_norm(x, w, ones({2})); },
                "takes a floating tensor [..., n], and a weight and a bias [n]");
  test::refused([&] { nn::layer_norm(ones({}), w, b); }, "f32[] x f64[3] x f64[3]");
}

TEST_CASE("cross entropy: values and gradients, worked out in float64") {
  Tensor logits = from_list<double>({1, 2, 0.5, -1, 0, 3}, {2, 3}), labels = from_list<std::int64_t>({2, 0});
  auto [loss, gradient] = value_and_grad([&](const Tensor& z) { return nn::cross_entropy(z, labels); }, logits);
  CHECK(loss.rank() == 0);
  CHECK(loss.item() == doctest::Approx(3.0151263439326872).epsilon(1e-14));
  const double expected[] = {0.11561194881107453,  0.31426585960588121,  -0.42987780841695578,
                             -0.49142608722723979, 0.023306311288986949, 0.46811977593825288};
  std::vector<double> found = values(gradient);
  for (std::size_t i = 0; i < 6; ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-13));
  // Of any rank, of other label types, and one row alone.
  CHECK(nn::cross_entropy(reshape(logits, {1, 2, 3}), reshape(labels, {1, 2})).item() == doctest::Approx(loss.item()));
  CHECK(nn::cross_entropy(logits, cast(labels, DType::u8)).item() == doctest::Approx(loss.item()));
  CHECK(nn::cross_entropy(from_list<double>({0, 0}), select(arange(2), 0, 1)).item() == doctest::Approx(std::log(2)));
}

TEST_CASE("cross entropy of large and of impossible logits") {
  Tensor labels = from_list<std::int64_t>({0});
  CHECK(nn::cross_entropy(from_list<float>({1000, -1000}, {1, 2}), labels).item() == 0);
  CHECK(nn::cross_entropy(from_list<float>({-1000, 1000}, {1, 2}), labels).item() == 2000);
  double infinity = std::numeric_limits<double>::infinity();
  Tensor masked = from_list<double>({1, -infinity, 1}, {1, 3});
  auto [loss, gradient] = value_and_grad([&](const Tensor& z) { return nn::cross_entropy(z, labels); }, masked);
  CHECK(loss.item() == doctest::Approx(std::log(2)));
  CHECK(values(gradient) == std::vector<double>{-0.5, 0, 0.5});
}

TEST_CASE("losses refuse what does not fit") {
  Tensor logits = ones({2, 3});
  auto labels = [](std::int64_t a, std::int64_t b) { return from_list<std::int64_t>({a, b}); };
  test::refused([&] { nn::cross_entropy(logits, labels(0, 3)).item(); },
                "[cross_entropy] an index is out of range [0, 3)");
  test::refused([&] { nn::cross_entropy(logits, labels(-1, 0)).item(); }, "out of range [0, 3)");
  test::refused([&] { nn::cross_entropy(logits, ones({2})); }, "integer labels [...]: f32[2,3] x f32[2]");
  test::refused([&] { nn::cross_entropy(logits, arange(3)); }, "f32[2,3] x i64[3]");
  test::refused([&] { nn::mse_loss(logits, ones({3})); }, "shapes differ: f32[2,3] x f32[3]");
  CHECK(nn::cross_entropy(logits, labels(0, 2)).item() == doctest::Approx(std::log(3)));  // and the next call works
  CHECK(nn::mse_loss(logits, logits * 3).item() == 4);
}

struct Block {
  nn::Linear first{4, 4}, second{4, 4};
};
struct Network {
  std::vector<Block> blocks = std::vector<Block>(2);
  std::optional<nn::Linear> head;
  std::array<Param, 2> scales;
  Buffer count;
};

TEST_CASE("parameters have the names of their places") {
  Network network;
  network.head = nn::Linear(4, 2, {.bias = false});
  network.scales[1] = ones({2});
  std::vector<nn::NamedParameter<>> found = nn::parameters(network);
  std::vector<std::string> names;
  for (const auto& parameter : found) names.push_back(parameter.name);
  // scales.0 and the head's bias are not there.
  CHECK(names == std::vector<std::string>{"blocks.0.first.weight", "blocks.0.first.bias", "blocks.0.second.weight",
                                          "blocks.0.second.bias", "blocks.1.first.weight", "blocks.1.first.bias",
                                          "blocks.1.second.weight", "blocks.1.second.bias", "head.weight", "scales.1"});
}

TEST_CASE("a layer keeps the options of its convolution") {
  struct Convolution {
    Param weight = ones({8, 3, 3, 3});
    Conv2dOptions options = {.stride = 2, .padding = 1};
    PerAxis<2> kernel = {3, 3};
    Tensor operator()(const Tensor& x) const { return conv2d(x, weight, options); }
  } layer;
  CHECK(nn::parameters(layer).size() == 1);
  auto f = compile([](const Convolution& layer, const Tensor& x) { return layer(x); });
  const Tensor x = ones({2, 3, 8, 8});
  CHECK(f(layer, x).shape() == Shape::of(2, 8, 4, 4));
  layer.options.stride = 1;
  CHECK(f(layer, x).shape() == Shape::of(2, 8, 8, 8));
  CHECK(amax(f(layer, x)).item() == 27);
  CHECK(specialization_count(f) == 2);
}

TEST_CASE("parameters are the model's own") {
  Network network;
  network.scales[1] = ones({2});
  for (auto& parameter : nn::parameters(network)) parameter.value -= parameter.value;
  CHECK(values(network.scales[1]) == std::vector<double>{0, 0});
  CHECK(values(network.blocks[1].second.bias) == std::vector<double>(4, 0));
  nn::parameters(network).back().value.frozen = true;
  CHECK(network.scales[1].frozen);
  const Network& constant = network;
  static_assert(std::is_same_v<decltype(nn::parameters(constant)), std::vector<nn::NamedParameter<const Param>>>);
  CHECK(&nn::parameters(constant).back().value == &network.scales[1]);
}

TEST_CASE("freezing a part") {
  Network network;
  nn::freeze(network.blocks[0]);
  CHECK(network.blocks[0].second.bias.frozen);
  CHECK(!network.blocks[1].second.bias.frozen);
  nn::freeze(network.blocks[0], false);
  CHECK(!network.blocks[0].second.bias.frozen);
}

struct Reordered {
  nn::Linear other{7, 7};
  std::vector<Block> blocks = std::vector<Block>(2);
};
TEST_CASE("initialize draws by name: independent of the order of construction and of other parts") {
  Network a, b;
  Reordered c;
  Generator first(9), second(9), third(9), another(10);
  nn::initialize(a, first);
  nn::initialize(b, another);
  nn::initialize(c, third);
  std::vector<double> weight = values(a.blocks[1].first.weight);
  CHECK(weight == values(c.blocks[1].first.weight));
  CHECK(weight != values(b.blocks[1].first.weight));
  CHECK(weight != values(a.blocks[0].first.weight));
  CHECK(weight != values(a.blocks[1].second.weight));
  nn::initialize(b, second);
  CHECK(weight == values(b.blocks[1].first.weight));
  nn::initialize(b, second);  // a second time: other numbers
  CHECK(weight != values(b.blocks[1].first.weight));
}

TEST_CASE("a layer's operations have the line of its user") {
  nn::Linear linear(3, 2);
  Tensor y = linear(ones({1, 3}));
  CHECK(to_string(y.node()->loc).rfind("nn_test.cpp:", 0) == 0);
}

}  // namespace
}  // namespace weft
