// What is done to whole models and their gradients: clipping, sums, averages, counts, freezing, devices and dtypes.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "base/fail.hpp"
#include "tests/on_the_host.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

namespace weft {
namespace {

Tensor vector(std::initializer_list<double> numbers) { return from_list<double>(numbers); }
std::vector<double> values(const Tensor& tensor) {
  Tensor reals = cast(tensor, DType::f64);
  View<const double> view = reals.data<double>();
  return {view.begin(), view.end()};
}
Param absent() {
  Param result;
  result.frozen = true;
  return result;
}
struct Layer {
  Param weight, bias = absent();
};
struct Model {
  std::map<std::string, Layer> encoder = {{"first", {vector({3, 4}), vector({0})}}};
  std::unique_ptr<Layer> head = std::make_unique<Layer>(Layer{vector({12}), absent()});
  Buffer running = vector({5});
  Index count = 2;
  std::int64_t steps = 7;
};

TEST_CASE("clip_grad_norm: the norm of all elements, and gradients scaled as PyTorch scales them") {
  Model gradients;
  gradients.running = {};
  CHECK(nn::clip_grad_norm(gradients, 100).item() == 13);
  CHECK(values(gradients.head->weight) == std::vector<double>{12});  // not enlarged
  CHECK(nn::clip_grad_norm(gradients, 1).item() == 13);
  CHECK(values(gradients.head->weight)[0] == doctest::Approx(12 / (13 + 1e-6)).epsilon(1e-14));
  CHECK(values(gradients.encoder.at("first").weight)[1] == doctest::Approx(4 / (13 + 1e-6)).epsilon(1e-14));
  Model one, greatest;
  one.running = greatest.running = {};
  CHECK(nn::clip_grad_norm(one, 1, 1).item() == 19);
  CHECK(nn::clip_grad_norm(greatest, 6, std::numeric_limits<double>::infinity()).item() == 12);
  CHECK(values(greatest.encoder.at("first").weight)[0] == doctest::Approx(1.5));
  Layer none;
  CHECK(nn::clip_grad_norm(none, 1).item() == 0);
  // 16 bits are squared in f32: 300^2 is beyond f16.
  Layer half{cast(vector({300, 400}), DType::f16), {}};
  CHECK(nn::clip_grad_norm(half, 5).item() == 500);
  CHECK(half.weight->dtype() == DType::f16);
  CHECK(values(half.weight)[0] == doctest::Approx(3).epsilon(1e-3));
}

TEST_CASE("clip_grad_norm refuses a norm that is none, with the user's line") {
  Layer gradients{vector({1}), {}};
  try {
    nn::clip_grad_norm(gradients, 1, 0);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("the norm's type must be positive, it is 0, at models_test.cpp:") !=
          std::string::npos);
  }
}

TEST_CASE("clipping refuses a limit that is negative or NaN, and changes nothing") {
  Layer gradients{vector({3, 4}), {}};
  const auto refused = [&](auto clip, const std::string& sentence) {
    try {
      clip();
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(sentence + ", at models_test.cpp:") != std::string::npos);
    }
    CHECK(values(gradients.weight) == std::vector<double>{3, 4});
  };
  refused([&] { nn::clip_grad_norm(gradients, -1); }, "[clip_grad_norm] max_norm must be 0 or more, it is -1");
  refused([&] { nn::clip_grad_norm(gradients, NAN); }, "[clip_grad_norm] max_norm must be 0 or more, it is nan");
  refused([&] { nn::clip_grad_value(gradients, -0.5); }, "[clip_grad_value] clip_value must be 0 or more, it is -0.5");
  nn::clip_grad_norm(gradients, HUGE_VAL);
  CHECK(values(gradients.weight) == std::vector<double>{3, 4});
  nn::clip_grad_norm(gradients, 0);
  CHECK(values(gradients.weight) == std::vector<double>{0, 0});
}

TEST_CASE("clip_grad_value") {
  Model gradients;
  nn::clip_grad_value(gradients, 3.5);
  CHECK(values(gradients.encoder.at("first").weight) == std::vector<double>{3, 3.5});
  Layer negative{vector({-9, 1}), {}};
  nn::clip_grad_value(negative, Scalar(2));
  CHECK(values(negative.weight) == std::vector<double>{-2, 1});
}

TEST_CASE("zeros_like, add_into, lerp_into") {
  Model model;
  model.head->weight.frozen = true;
  Model sum = nn::zeros_like(model);
  CHECK(values(sum.encoder.at("first").weight) == std::vector<double>{0, 0});
  CHECK(!sum.head->bias.tensor().defined());
  CHECK(sum.count.item() == 0);
  CHECK(sum.steps == 7);
  nn::add_into(sum, model);
  nn::add_into(sum, model);
  CHECK(values(sum.encoder.at("first").weight) == std::vector<double>{6, 8});
  CHECK(sum.count.item() == 4);
  nn::lerp_into(sum, model, 0.25);
  CHECK(values(sum.encoder.at("first").weight) == std::vector<double>{5.25, 7});
  CHECK(values(sum.running) == std::vector<double>{5});  // a buffer becomes the model's
  CHECK(sum.count.item() == 2);
}

TEST_CASE("summary: a line for each parameter and buffer, and how many numbers there are") {
  struct Net {
    nn::Linear in{3, 4}, out{4, 2, {.bias = false}};
    nn::BatchNorm1d norm{4};
  } net;
  nn::freeze(net, "in.*");
  CHECK(test::without_device(nn::summary(net)) ==
        "in.weight                 f32[4,3]  frozen\n"
        "in.bias                   f32[4]    frozen\n"
        "out.weight                f32[2,4]\n"
        "norm.weight               f32[4]\n"
        "norm.bias                 f32[4]\n"
        "norm.running_mean         f32[4]    buffer\n"
        "norm.running_var          f32[4]    buffer\n"
        "norm.num_batches_tracked  i64[]     buffer\n"
        "32 numbers in parameters, 16 of them frozen\n");
}

TEST_CASE("num_parameters, and freezing by a pattern") {
  Model model;
  CHECK(nn::num_parameters(model) == 4);
  nn::freeze(model, "encoder.*");
  CHECK(model.encoder.at("first").weight.frozen);
  CHECK(!model.head->weight.frozen);
  CHECK(nn::num_parameters(model, true) == 1);
  nn::freeze(model, "*.weight", false);
  CHECK(!model.encoder.at("first").weight.frozen);
  CHECK(model.encoder.at("first").bias.frozen);
  try {
    nn::freeze(model, "encodr.*");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with("[freeze] no parameter is named encodr.*: they are "));
    CHECK(std::string(error.what()).find("encoder.first.weight") != std::string::npos);
  }
}

TEST_CASE("to a dtype: floating parameters, buffers and tensors; numbers stay") {
  struct Mixed {
    Param p = ones({2});
    Buffer count = arange(3);
    Scalar lr = 0.1;
    Tensor t = ones({1}, {DType::f64});
  } model;
  model.p.frozen = true;
  nn::to(model, DType::bf16);
  CHECK(model.p->dtype() == DType::bf16);
  CHECK(model.p.frozen);
  CHECK(model.t.dtype() == DType::bf16);
  CHECK(model.count->dtype() == DType::i64);
  CHECK(model.lr.item() == 0.1);
  CHECK_THROWS_WITH_AS(nn::to(model, DType::i64), doctest::Contains("must be floating"), Error);
  nn::to(model, Device::cpu());
  CHECK(model.p->device() == Device::cpu());
}

TEST_CASE("a compiled step that clips, accumulates and averages gives what it gives outside") {
  struct State {
    Model model, average, sum;
  };
  auto step = [](State& state, const Tensor& x) {
    auto gradients = grad(
        [&](const Model& m) {
          return sum(square(m.encoder.at("first").weight * x)) + sum(m.encoder.at("first").bias * m.head->weight * x);
        },
        state.model);
    Tensor norm = nn::clip_grad_norm(gradients, 0.5);
    nn::add_into(state.sum, gradients);
    nn::clip_grad_value(gradients, 0.1);
    tree::for_each(state.model, gradients, [](Param& p, const Param& g) { p -= g; });
    nn::lerp_into(state.average, state.model, 0.1);
    Model halves = nn::zeros_like(gradients);
    nn::add_into(halves, gradients);
    nn::to(halves, DType::f32);
    nn::to(halves, default_device);
    nn::freeze(halves, "encoder.*");
    state.average.running = halves.encoder.at("first").weight.tensor() * nn::num_parameters(halves, true);
    return norm;
  };
  auto compiled = compile(step);
  State a, b;
  a.sum = nn::zeros_like(a.model);
  b.sum = nn::zeros_like(b.model);
  a.average.running = b.average.running = zeros({2});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = vector({1.0 + i, 2});
    CHECK(step(a, x).item() == doctest::Approx(compiled(b, x).item()).epsilon(1e-12));
  }
  CHECK(specialization_count(compiled) == 1);
  const auto same = [](const Tensor& x, const Tensor& y) {
    const std::vector<double> first = values(x), second = values(y);
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(first[i] == doctest::Approx(second[i]).epsilon(1e-12));
  };
  tree::for_each(a, b, [&](const Tensor& x, const Tensor& y) { same(x, y); });
  CHECK(values(a.model.encoder.at("first").weight)[0] != 3);
}

}  // namespace
}  // namespace weft
