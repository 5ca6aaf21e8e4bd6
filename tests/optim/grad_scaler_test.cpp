// GradScaler: PyTorch's numbers, skipped steps, no decision in a compiled step, bad input.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <weft/weft.hpp>

#include "tests/needs_compiler.hpp"

namespace weft {
namespace {

using test::a_compiler;
using test::needs;

struct Model {
  Param w, b;
};
Tensor wave(double (*f)(double), double offset, Sizes sizes) {
  std::vector<float> numbers;
  const std::int64_t count = static_cast<std::int64_t>(sizes.shape().element_count());
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(f(offset + static_cast<double>(i))));
  return from_span(std::span<const float>(numbers), sizes);
}
Model start() { return {wave(std::sin, 1, {4, 3}) / 2, wave(std::sin, 13, {4}) / 2}; }
std::vector<double> values(const Model& model) {
  std::vector<double> result;
  for (const Param* each : {&model.w, &model.b}) {
    const Tensor wide = cast(*each, DType::f64);
    for (const double x : wide.data<double>()) result.push_back(x);
  }
  return result;
}
bool same_bits(const Tensor& a, const Tensor& b) { return all((a == b) | (isnan(a) & isnan(b))).item<bool>(); }

template <class Optimizer>
Tensor step(Model& model, Optimizer& opt, GradScaler& scaler, const Tensor& x, const Tensor& y, const Tensor& factor) {
  auto [loss, gradients] = value_and_grad(
      [&](const Model& m) {
        const Autocast scope(DType::f16);
        const Tensor out = tanh(nn::linear(x, m.w, m.b));
        return scaler.scale(nn::mse_loss(out, y) * factor);
      },
      model);
  scaler.step(opt, model, gradients = scaler.unscale(gradients));
  scaler.update();
  return loss;
}

using Rows = std::vector<std::vector<double>>;
const std::vector<Rows>& golden() {
  static const std::vector<Rows> all = {
#include "grad_scaler_golden.inc"
  };
  return all;
}

template <class Optimizer, class Step>
void follow(const Rows& rows, Optimizer opt, Step run) {
  Model model = start();
  GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  for (int t = 0; t < 8; ++t) {
    const Tensor x = wave(std::sin, t, {5, 3}), y = wave(std::cos, t, {5, 4});
    run(model, opt, scaler, x, y, full({}, t == 2 || t == 5 ? std::numeric_limits<double>::infinity() : 1.0));
    const std::vector<double>& expected = rows[static_cast<std::size_t>(t)];
    CHECK(scaler.current_scale().item<double>() == expected[0]);
    CHECK(scaler.growth_tracker().item<double>() == expected[1]);
    const std::vector<double> found = values(model);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i + 2]) < 4e-3);
  }
}

}  // namespace

TEST_CASE("steps of f16 under a GradScaler are PyTorch's") {
  follow(golden()[0], optim::SGD(start(), {.lr = 0.5, .momentum = 0.9}), step<optim::SGD>);
  follow(golden()[1], optim::AdamW(start(), {.lr = 0.05}), step<optim::AdamW>);
}

TEST_CASE("a compiled step with a GradScaler decides nothing, and is compiled once" * needs(a_compiler)) {
  auto fast = compile(step<optim::AdamW>, {.recompile_limit = 0, .fullgraph = true});
  follow(golden()[1], optim::AdamW(start(), {.lr = 0.05}), fast);
  Model model = start();
  optim::AdamW opt(model);
  GradScaler scaler;
  CHECK(explain(fast, model, opt, scaler, ones({5, 3}), ones({5, 4}), ones({})).specializations == 1);
}

TEST_CASE("a gradient that is not finite leaves parameters and moments, and halves the scale") {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Model model = start();
    const Model before = model;
    optim::AdamW opt(model);
    GradScaler scaler;
    Model gradients{full({4, 3}, 1.0), ones({4})};
    opt.update(model, gradients);
    const Model once = model;
    const optim::AdamW opt_once = opt;
    gradients.b = concat({ones({3}), full({1}, bad)}, 0);
    scaler.step(opt, model, scaler.unscale(gradients));
    CHECK(scaler.found_inf().item<bool>());
    scaler.update();
    CHECK(!scaler.found_inf().item<bool>());
    CHECK(same_bits(model.w, once.w));
    CHECK(same_bits(model.b, once.b));
    CHECK(opt.steps.item() == 1);
    CHECK(scaler.current_scale().item<double>() == 32768);
    // The next good step is the second.
    optim::AdamW other = opt_once;
    Model expected = once;
    gradients.b = ones({4});
    scaler.step(opt, model, gradients = scaler.unscale(Model{gradients.w * 32768, gradients.b * 32768}));
    other.update(expected, Model{full({4, 3}, 1.0), ones({4})});
    CHECK(same_bits(model.w, expected.w));
    CHECK(same_bits(model.b, expected.b));
    CHECK(!same_bits(model.b, before.b));
  }
}

TEST_CASE("the scale grows after good steps, but not beyond f32; disabled nothing is scaled") {
  Model model = start();
  optim::SGD opt(model);
  GradScaler scaler({.init_scale = 0x1p126, .growth_interval = 3});
  for (int i = 0; i < 12; ++i) {
    scaler.step(opt, model, scaler.unscale(Model{ones({4, 3}), ones({4})}));
    scaler.update();
    CHECK(scaler.current_scale().item<double>() == (i < 2 ? 0x1p126 : 0x1p127));
  }
  GradScaler off({.enabled = false});
  CHECK(off.scale(full({}, 3.0)).item<double>() == 3);
  const Model given{full({4, 3}, HUGE_VAL), ones({4})};
  CHECK(same_bits(off.unscale(given).w, given.w));
}

TEST_CASE("a GradScaler is saved and read back") {
  const std::string path = (std::filesystem::temp_directory_path() / "weft_grad_scaler_test.safetensors").string();
  GradScaler scaler({.init_scale = 8, .growth_interval = 5}), read;
  Model model = start();
  optim::SGD opt(model);
  scaler.step(opt, model, scaler.unscale(model));
  scaler.update();
  io::save(path, scaler);
  io::load(path, read);
  std::filesystem::remove(path);
  CHECK(read.current_scale().item<double>() == 8);
  CHECK(read.growth_tracker().item<double>() == 1);
  CHECK(read.growth_interval.item() == 5);
}

TEST_CASE("what a GradScaler refuses") {
  Model model = start();
  optim::SGD opt(model);
  GradScaler scaler;
  CHECK_THROWS_WITH_AS(scaler.step(opt, model, model), doctest::Contains("no gradients were unscaled since"), Error);
  CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("[update] no gradients were unscaled since"), Error);
  CHECK_THROWS_AS(GradScaler({.init_scale = 0}), Error);
  for (const double scale : {1e300, 1e-60}) CHECK_THROWS_AS(GradScaler({.init_scale = scale}), Error);
  CHECK_THROWS_AS(GradScaler({.growth_factor = 1}), Error);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 1}), Error);
  CHECK_THROWS_AS(GradScaler({.growth_interval = 0}), Error);
}

}  // namespace weft
