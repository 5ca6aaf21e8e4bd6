// The optimizers against PyTorch's: three steps on two numbers, worked out in float64 from its documented formulas.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "base/fail.hpp"
#include "ir/node.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/io.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

struct Model {
  Param p;
};
Tensor vector(std::initializer_list<double> numbers) {
  return from_list<double>(numbers, {static_cast<std::int64_t>(numbers.size())});
}

// Where three steps with these gradients lead from {1, -2}.
template <class Optimizer>
std::vector<double> three_steps(Optimizer make) {
  Model model{vector({1, -2})};
  auto optimizer = make(model);
  for (const Tensor& gradient : {vector({0.5, -0.25}), vector({0.1, 0.3}), vector({-0.2, 0.05})})
    optimizer.update(model, Model{gradient});
  View<const double> view = model.p.tensor().data<double>();
  return {view.begin(), view.end()};
}

void check(const std::vector<double>& found, double first, double second) {
  CHECK(found[0] == doctest::Approx(first).epsilon(1e-12));
  CHECK(found[1] == doctest::Approx(second).epsilon(1e-12));
}

TEST_CASE("options may be {}, the defaults") {
  nn::Linear model(2, 3);
  CHECK(optim::Adam(model, {}).lr.item() == doctest::Approx(optim::Adam(model).lr.item()));
  CHECK(optim::AdamW(model, {}, {{"*", {.lr = 0.5}}}).groups[0].lr.item() == doctest::Approx(0.5));
  optim::SGD(model, {}), optim::RMSprop(model, {}), optim::Adagrad(model, {}), optim::Adadelta(model, {});
  optim::Adafactor(model, {}), optim::NAdam(model, {}), optim::RAdam(model, {}), optim::Lion(model, {});
  optim::LAMB(model, {}), optim::Shampoo(model, {}), optim::Muon(model, {}), optim::Rprop(model, {});
  optim::ASGD(model, {}), optim::LBFGS(model, {});
}

TEST_CASE("options that no optimizer can have are refused") {
  nn::Linear model(2, 3);
  using weft::test::refused;
  refused([&] { optim::Adam(model, {.lr = -1}); }, "[Adam] lr must not be negative, it is -1");
  refused([&] { optim::AdamW(model, {.lr = NAN}); }, "[AdamW] lr must be finite, it is nan");
  refused([&] { optim::Adam(model, {.beta1 = 1.5}); }, "[Adam] beta1 must be from 0 to below 1, it is 1.5");
  refused([&] { optim::SGD(model, {.momentum = -0.5}); }, "[SGD] momentum must not be negative");
  refused([&] { optim::LAMB(model, {.beta2 = 1}); }, "[LAMB] beta2 must be from 0");
  refused([&] { optim::Lion(model, {.beta2 = 1}); }, "[Lion] beta2 must be from 0");
  refused([&] { optim::RMSprop(model, {.alpha = -0.9}); }, "[RMSprop] alpha must not be negative");
  refused([&] { optim::Adagrad(model, {.lr_decay = -1}); }, "[Adagrad] lr_decay must not be negative");
  refused([&] { optim::Adagrad(model, {.initial_accumulator_value = -1}); }, "[Adagrad] initial_accumulator_value");
  refused([&] { optim::Adafactor(model, {.lr = -1}); }, "[Adafactor] lr must not be negative");
  refused([&] { optim::Adafactor(model, {.beta2_decay = 0.8}); }, "[Adafactor] beta2_decay must not be positive");
  refused([&] { optim::Adafactor(model, {.eps2 = NAN}); }, "[Adafactor] eps2 must be finite, it is nan");
  refused([&] { optim::Adafactor(model, {.d = 0.5}); }, "[Adafactor] d must not be below 1, it is 0.5");
  refused([&] { optim::NAdam(model, {.momentum_decay = -1}); }, "[NAdam] momentum_decay must not be negative");
  refused([&] { optim::NAdam(model, {.beta2 = 1}); }, "[NAdam] beta2 must be from 0");
  refused([&] { optim::RAdam(model, {.lr = NAN}); }, "[RAdam] lr must be finite, it is nan");
  refused([&] { optim::Adadelta(model, {.rho = 1.5}); }, "[Adadelta] rho must be from 0 to 1, it is 1.5");
  refused([&] { optim::Rprop(model, {.eta_minus = 1}); }, "[Rprop] eta_minus must be between 0 and 1, it is 1");
  refused([&] { optim::Rprop(model, {.eta_plus = 1}); }, "[Rprop] eta_plus must be above 1, it is 1");
  refused([&] { optim::Rprop(model, {.eta_plus = INFINITY}); }, "[Rprop] eta_plus must be finite");
  refused([&] { optim::Rprop(model, {}, {{"*", {.weight_decay = 0.1}}}); }, "a group of Rprop has no weight decay");
  refused([&] { optim::ASGD(model, {.lambd = -1}); }, "[ASGD] lambd must not be negative");
  refused([&] { optim::ASGD(model, {.t0 = NAN}); }, "[ASGD] t0 must be finite");
  refused([&] { optim::Shampoo(model, {.eps = 0}); }, "[Shampoo] eps must be positive, it is 0");
  refused([&] { optim::Shampoo(model, {.update_freq = 0}); }, "[Shampoo] update_freq must be positive, it is 0");
  refused([&] { optim::Muon(model, {.momentum = -1}); }, "[Muon] momentum must not be negative");
  refused([&] { optim::Muon(model, {.ns_steps = -1}); }, "[Muon] ns_steps must not be negative");
  refused([&] { optim::Muon(model, {.others = {.lr = -1}}); }, "[AdamW] lr must not be negative");
  refused([&] { optim::SGD(model, {}, {{"*", {.lr = NAN}}}); }, "lr of the group * must be finite, it is nan");
  for (const double wrong : {-1.0, -2.0}) {
    refused([&] { optim::SGD(model, {}, {{"*", {.lr = wrong}}}); }, "lr of the group * must not be negative");
    refused([&] { optim::SGD(model, {}, {{"*", {.weight_decay = wrong}}}); }, "weight_decay of the group *");
  }
  optim::SGD(model, {.lr = 0});
}

TEST_CASE("amounts that are not finite are refused by every optimizer") {
  nn::Linear model(2, 3);
  using weft::test::refused;
  refused([&] { optim::SGD(model, {.momentum = .9, .dampening = NAN}); }, "[SGD] dampening must be finite, it is nan");
  refused([&] { optim::SGD(model, {.lr = INFINITY}); }, "[SGD] lr must be finite, it is inf");
  refused([&] { optim::Adam(model, {.lr = INFINITY}); }, "[Adam] lr must be finite, it is inf");
  refused([&] { optim::AdamW(model, {.weight_decay = INFINITY}); }, "[AdamW] weight_decay must be finite");
  refused([&] { optim::Adam(model, {.beta1 = NAN}); }, "[Adam] beta1 must be from 0 to below 1, it is nan");
  refused([&] { optim::RMSprop(model, {.lr = INFINITY}); }, "[RMSprop] lr must be finite");
  refused([&] { optim::Adagrad(model, {.lr = INFINITY}); }, "[Adagrad] lr must be finite");
  refused([&] { optim::Lion(model, {.lr = INFINITY}); }, "[Lion] lr must be finite");
  refused([&] { optim::LAMB(model, {.lr = INFINITY}); }, "[LAMB] lr must be finite");
  refused([&] { optim::Adafactor(model, {.lr = INFINITY}); }, "[Adafactor] lr must be finite");
  refused([&] { optim::Adafactor(model, {.beta2_decay = NAN}); }, "[Adafactor] beta2_decay must be finite");
  refused([&] { optim::Muon(model, {.lr = INFINITY}); }, "[Muon] lr must be finite");
  refused([&] { optim::LBFGS(model, {.lr = INFINITY}); }, "[LBFGS] lr must be finite");
  refused([&] { optim::LBFGS(model, {.tolerance_change = NAN}); }, "[LBFGS] tolerance_change must be finite");
  refused([&] { optim::SGD(model, {}, {{"*", {.lr = INFINITY}}}); }, "lr of the group * must be finite, it is inf");
}

TEST_CASE("as in PyTorch") {
  using namespace optim;
  check(three_steps([](Model& m) { return AdamW(m, {.lr = 0.1, .weight_decay = 0.01}); }), 0.78254373492710627,
        -1.9275647228722064);
  check(three_steps([](Model& m) { return Adam(m, {.lr = 0.1}); }), 0.78526053183548894, -1.9333731193527501);
  check(three_steps([](Model& m) { return Adam(m, {.lr = 0.1, .weight_decay = 0.05}); }), 0.77111071079538684,
        -1.8574042029281106);
  check(three_steps([](Model& m) { return SGD(m, {.lr = 0.1}); }), 0.96, -2.01);
  check(three_steps([](Model& m) { return SGD(m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}); }),
        0.86009474899999994, -1.9831045730000001);
  check(three_steps(
            [](Model& m) { return SGD(m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}); }),
        0.83146555819099999, -1.988903780807);
}

TEST_CASE("defaults are PyTorch's") {
  Model model{vector({1})};
  optim::AdamW adamw(model);
  CHECK(adamw.lr.item() == 1e-3);
  CHECK(adamw.beta1.item() == 0.9);
  CHECK(adamw.beta2.item() == 0.999);
  CHECK(adamw.eps.item() == 1e-8);
  CHECK(adamw.weight_decay.item() == 1e-2);
  CHECK(optim::Adam(model).weight_decay.item() == 0);
  CHECK(optim::SGD(model).momentum.item() == 0);
}

TEST_CASE("hyperparameters may change between steps, and the counter counts") {
  Model model{vector({1})};
  optim::AdamW optimizer(model, {.lr = 0.1, .weight_decay = 0});
  optimizer.update(model, Model{vector({1})});
  CHECK(model.p.tensor().item() == doctest::Approx(0.9));
  optimizer.lr = 0;
  optimizer.update(model, Model{vector({1})});
  CHECK(model.p.tensor().item() == doctest::Approx(0.9));
  CHECK(optimizer.steps.item() == 2);
}

struct Mixed {
  Param trained, frozen, absent;
  Buffer buffer;
};
TEST_CASE("frozen parameters, absent ones and buffers are left alone") {
  Mixed model{vector({1}), vector({2}), {}, vector({3})};
  model.frozen.frozen = true;
  model.absent.frozen = true;
  optim::AdamW optimizer(model);
  Tensor frozen = model.frozen, buffer = model.buffer;
  auto [loss, gradients] = value_and_grad([](const Mixed& m) { return sum(m.trained * m.frozen * m.buffer); }, model);
  optimizer.update(model, gradients);
  CHECK(model.frozen.tensor().same(frozen));
  CHECK(model.buffer.tensor().same(buffer));
  CHECK(model.trained.tensor().item() < 1);
  CHECK(loss.item() == 6);
}

TEST_CASE(
    "a parameter that the loss does not reach: its gradient is 0, and weight decay acts on it unless it is frozen") {
  std::vector<Param> model{vector({1}), vector({2}), vector({3})};
  model[2].frozen = true;
  optim::SGD optimizer(model, {.lr = 0.5, .weight_decay = 0.25});
  const auto gradients = grad([](const std::vector<Param>& m) { return sum(m[0] * m[2]); }, model);
  CHECK(gradients[1].tensor().item() == 0);
  CHECK(!gradients[2].tensor().defined());
  optimizer.update(model, gradients);
  CHECK(model[1].tensor().item() == 2 - 0.5 * 0.25 * 2);
  CHECK(model[2].tensor().item() == 3);
}

// The model is cast to another dtype after its optimizer was made, and back.
template <class Optimizer>
void check_dtypes(Optimizer made) {
  Model model{ones({3, 3})};
  Optimizer optimizer = made;
  optimizer.update(model, Model{ones({3, 3})});
  CHECK(model.p->dtype() == DType::f32);
  for (const DType dtype : {DType::bf16, DType::f64, DType::f32}) {
    nn::to(model, dtype);
    optimizer.update(model, Model{full({3, 3}, 2, {dtype})});
    CHECK(model.p->dtype() == dtype);
  }
  auto step = compile([](Model& model, Optimizer& optimizer, const Tensor& x) {
    optimizer.update(model, grad([&](const Model& m) { return sum(cast(m.p.tensor(), DType::f32) * x); }, model));
  });
  nn::to(model, DType::bf16);
  for (int i = 0; i < 3; ++i) step(model, optimizer, ones({3, 3}));
  CHECK(model.p->dtype() == DType::bf16);
  CHECK(specialization_count(step) == 1);
}
TEST_CASE("parameters keep their dtype, and an optimizer's state keeps its own") {
  const Model model{ones({3, 3})};
  check_dtypes(optim::SGD(model, {.lr = 0.1}));
  check_dtypes(optim::SGD(model, {.lr = 0.1, .momentum = 0.9, .dampening = 0.1}));
  check_dtypes(optim::Adam(model));
  check_dtypes(optim::AdamW(model));
  check_dtypes(optim::RMSprop(model, {.momentum = 0.5, .centered = true}));
  check_dtypes(optim::Adagrad(model));
  check_dtypes(optim::Lion(model));
  check_dtypes(optim::LAMB(model));
  check_dtypes(optim::Adafactor(model));
  check_dtypes(optim::Muon(model));
  check_dtypes(optim::NAdam(model));
  check_dtypes(optim::RAdam(model));
  check_dtypes(optim::Adadelta(model));
  check_dtypes(optim::Rprop(model));
  check_dtypes(optim::ASGD(model));
  check_dtypes(optim::Shampoo(model, {.momentum = 0.5, .update_freq = 2}));
}

// The first step of f32, rounded: state and eps are 0 in f16 where a gradient is 0 or small.
template <class Make>
void check_halves(Make make) {
  using Optimizer = decltype(make(std::declval<const Model&>()));
  auto step = compile([](Model& model, Optimizer& optimizer, const Tensor& g) { optimizer.update(model, Model{g}); });
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CAPTURE(std::string(info(dtype).name));
    const Tensor start = cast(from_list<float>({1, -2, 3, 0.5F, -1, 2}, {2, 3}), dtype),
                 slope = cast(from_list<float>({0, 1e-4F, 0.25F, 0, -3e-5F, -2}, {2, 3}), dtype);
    Model wide{cast(start, DType::f32)}, half{start}, compiled{start};
    auto of_wide = make(wide), of_half = make(half), of_compiled = make(compiled);
    of_wide.update(wide, Model{cast(slope, DType::f32)});
    of_half.update(half, Model{slope});
    step(compiled, of_compiled, slope);
    const auto same = [&](const Tensor& found) {
      CHECK(found.dtype() == dtype);
      CHECK(all(cast(wide.p.tensor(), dtype) == found).item<bool>());
    };
    same(half.p);
    same(compiled.p);
  }
}
TEST_CASE("a step of 16-bit floats is computed in f32 and rounded once, where gradients are 0 and small, too") {
  check_halves([](const Model& m) { return optim::SGD(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::SGD(m, {.lr = 0.1, .momentum = 0.9, .nesterov = true}); });
  check_halves([](const Model& m) { return optim::Adam(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::AdamW(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::RMSprop(m, {.lr = 0.1, .momentum = 0.5}); });
  check_halves([](const Model& m) { return optim::RMSprop(m, {.lr = 0.1, .centered = true}); });
  check_halves([](const Model& m) { return optim::Adagrad(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::Lion(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::LAMB(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::NAdam(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::RAdam(m, {.lr = 0.1}); });
  check_halves([](const Model& m) { return optim::Adadelta(m); });
  check_halves([](const Model& m) { return optim::Rprop(m); });
  check_halves([](const Model& m) { return optim::ASGD(m); });
  check_halves([](const Model& m) { return optim::Adafactor(m, {.lr = 0.1, .eps1 = 1e-7}); });
}

TEST_CASE("training outside compile leaves nothing pending and gets there") {
  struct Line {
    Param slope, offset;
  };
  Line line{ones({}), ones({})};
  optim::SGD optimizer(line, {.lr = 0.1, .momentum = 0.5});
  Tensor x = from_list<float>({-1, 0, 1, 2}), y = x * 3 - 2;
  double last = 0;
  for (int i = 0; i < 100; ++i) {
    auto [loss, gradients] =
        value_and_grad([&](const Line& l) { return mean(square(l.slope * x + l.offset - y)); }, line);
    optimizer.update(line, gradients);
    CHECK(line.slope.tensor().node()->operand_count == 0);
    last = loss.item();
  }
  CHECK(last < 1e-6);
  CHECK(line.slope.tensor().item() == doctest::Approx(3).epsilon(1e-3));
  CHECK(line.offset.tensor().item() == doctest::Approx(-2).epsilon(1e-3));
}

TEST_CASE("groups: the first that fits, its own numbers or the optimizer's, which may change") {
  std::vector<Param> model{vector({1}), vector({1}), vector({1})}, ones{vector({1}), vector({1}), vector({1})};
  optim::SGD optimizer(model, {.lr = 0.5, .weight_decay = 0.25}, {{"1", {.weight_decay = 0}}, {"*", {.lr = 0.1}}});
  optimizer.update(model, ones);
  CHECK(model[0].tensor().item() == 1 - 0.1 * 1.25);
  CHECK(model[1].tensor().item() == 0.5);
  optimizer.groups[1].lr = 0;
  optimizer.lr = 0.25;
  optimizer.update(model, ones);
  CHECK(model[0].tensor().item() == 1 - 0.1 * 1.25);
  CHECK(model[1].tensor().item() == 0.25);
  auto step = compile([](std::vector<Param>& model, optim::SGD& optimizer, const std::vector<Param>& gradients) {
    optimizer.update(model, gradients);
  });
  step(model, optimizer, ones);
  CHECK(model[1].tensor().item() == 0);
  optimizer.groups[0].lr = 5;  // not in use: the group has none of its own
  step(model, optimizer, ones);
  CHECK(model[1].tensor().item() == -0.25);
  CHECK(specialization_count(step) == 1);
}

// Every optimizer, made for a model with options of its kind.
template <class M, class F>
void with_each_optimizer(const M& model, F f) {
  f("SGD", optim::SGD(model, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5}));
  f("Adam", optim::Adam(model));
  f("AdamW", optim::AdamW(model));
  f("RMSprop", optim::RMSprop(model, {.centered = true}));
  f("Adagrad", optim::Adagrad(model, {.lr_decay = 0.1}));
  f("Lion", optim::Lion(model));
  f("LAMB", optim::LAMB(model));
  f("Adafactor", optim::Adafactor(model));
  f("NAdam", optim::NAdam(model));
  f("RAdam", optim::RAdam(model));
  f("Adadelta", optim::Adadelta(model));
  f("Rprop", optim::Rprop(model));
  f("ASGD", optim::ASGD(model, {.t0 = 2}));
  f("Shampoo", optim::Shampoo(model, {.momentum = 0.5, .update_freq = 2}));
  f("Muon", optim::Muon(model));
}
struct Pair {
  Param weight, bias;
};
Pair pair(double w, double b) { return {vector({w, 2 * w}), vector({b})}; }
double difference(const Pair& a, const Pair& b) {
  return std::max(max(abs(a.weight - b.weight)).item(), max(abs(a.bias - b.bias)).item());
}

TEST_CASE("maximize goes the way that minimizing the negative goes") {
  const Pair begin = pair(1, -2), slopes = pair(0.5, -0.25), against = pair(-0.5, 0.25);
  with_each_optimizer(begin, [&](const char* name, auto down) {
    CAPTURE(std::string(name));
    auto up = down;
    up.maximize = true;
    Pair a = begin, b = begin;
    for (int i = 0; i < 3; ++i) up.update(a, slopes), down.update(b, against);
    CHECK(difference(a, b) == 0);
    CHECK(difference(a, begin) > 0);
  });
}

TEST_CASE("an optimizer is saved and resumed between steps in which a parameter takes no part") {
  Pair begin = pair(1, -2), slopes = pair(0.5, -0.25), half = slopes;
  begin.bias.frozen = true;  // so that there are counts of missed steps from the start, which a file has
  half.bias.tensor() = {};
  const std::string path = (std::filesystem::temp_directory_path() / "weft_optim_test.safetensors").string();
  with_each_optimizer(begin, [&](const char* name, auto optimizer) {
    CAPTURE(std::string(name));
    using Optimizer = decltype(optimizer);
    Pair model = begin;
    Optimizer resumed = optimizer;
    optimizer.update(model, half);
    model.bias.frozen = false;
    optimizer.update(model, slopes);
    optimizer.update(model, half);
    io::save(path, {{"optimizer", optimizer}});
    Pair other = model;
    io::load(path, {{"optimizer", resumed}});
    optimizer.update(model, slopes);
    resumed.update(other, slopes);
    CHECK(difference(model, other) == 0);
  });
}

TEST_CASE("a gradient that is NaN makes its element NaN, but where signs alone are used") {
  // torch.sign(nan) is 0: Rprop and Lion leave the element.
  for (const bool compiled : {false, true})
    with_each_optimizer(pair(1, -2), [&](const char* name, auto optimizer) {
      CAPTURE(std::string(name));
      using Optimizer = decltype(optimizer);
      Pair model = pair(1, -2);
      const Pair slopes{vector({NAN, 0.5}), vector({0.5})};
      const auto update = [](Pair& model, Optimizer& optimizer, const Pair& slopes) {
        optimizer.update(model, slopes);
      };
      auto step = compile(update);
      for (int i = 0; i < 2; ++i) compiled ? step(model, optimizer, slopes) : update(model, optimizer, slopes);
      const bool stays = std::string(name) == "Rprop" || std::string(name) == "Lion";
      CHECK(std::isnan(model.weight.tensor()[0].item()) != stays);
      CHECK(std::isfinite(model.bias.tensor()[0].item()));
    });
}

// What the documentation of weft/optim.hpp shows.
template <class M>
struct Momentum {
  explicit Momentum(const M& model) : velocity(nn::zeros_like(model)) {}
  void update(M& model, const M& gradients) {
    tree::for_each(model, gradients, velocity, [&](Param& p, const Param& g, Param& v) {
      v = v * 0.9 + g;
      p -= lr * v;
    });
  }
  Scalar lr = 0.1;
  M velocity;
  WEFT_MEMBERS(lr, velocity)
};
TEST_CASE("an optimizer of one's own, in ten lines, does what SGD does") {
  struct Two {
    Param a = vector({1, -2}), frozen = vector({3});
  } first, second;
  first.frozen.frozen = second.frozen.frozen = true;
  optim::SGD sgd(first, {.lr = 0.1, .momentum = 0.9});
  Momentum own(second);
  auto loss = [](const Two& m) { return sum(square(m.a) * m.frozen); };
  auto step = compile([](Two& model, Momentum<Two>& own) {
    own.update(model, grad([](const Two& m) { return sum(square(m.a) * m.frozen); }, model));
  });
  for (int i = 0; i < 4; ++i) {
    sgd.update(first, grad(loss, first));
    step(second, own);
  }
  for (int i = 0; i < 2; ++i)
    CHECK(select(first.a, 0, i).item() == doctest::Approx(select(second.a, 0, i).item()).epsilon(1e-13));
  CHECK(select(first.a, 0, 0).item() != 1);
}

TEST_CASE("what does not fit is refused, with the user's line") {
  std::vector<Param> two = {vector({1}), vector({2})}, three = {vector({1}), vector({2}), vector({3})};
  const auto refuses_three = [&](auto made) {
    test::refused([&] { made.update(three, three); }, "made for a model of 2 parameters, this one has 3");
  };
  const optim::Groups groups = {{"1", {.weight_decay = 0}}};
  refuses_three(optim::SGD(two, {}, groups));
  refuses_three(optim::SGD(two, {.momentum = 0.5}));
  refuses_three(optim::Adam(two));
  refuses_three(optim::AdamW(two, {}, groups));
  refuses_three(optim::RMSprop(two, {}, groups));
  refuses_three(optim::Adagrad(two, {}, groups));
  refuses_three(optim::Lion(two, {}, groups));
  refuses_three(optim::LAMB(two, {}, groups));
  refuses_three(optim::Adafactor(two, {}, groups));
  refuses_three(optim::Muon(two, {}, groups));
  refuses_three(optim::NAdam(two));
  refuses_three(optim::RAdam(two));
  refuses_three(optim::Adadelta(two));
  refuses_three(optim::Rprop(two));
  refuses_three(optim::ASGD(two));
  refuses_three(optim::Shampoo(two));
  optim::AdamW optimizer(two);
  test::refused([&] { optimizer.update(two, three); }, "gradients are of another model");
  Pair small{zeros({2, 2}), zeros({2})}, large{zeros({3, 3}), zeros({2})};
  const auto refuses_large = [&](auto made) {
    test::refused([&] { made.update(large, large); },
                  "the optimizer was made for another model: parameter 0 (weight) was [2,2], is [3,3]");
  };
  refuses_large(optim::SGD(small, {.momentum = 0.5}));
  refuses_large(optim::Adam(small));
  refuses_large(optim::AdamW(small));
  refuses_large(optim::RMSprop(small));
  refuses_large(optim::Adagrad(small));
  refuses_large(optim::Lion(small));
  refuses_large(optim::LAMB(small));
  refuses_large(optim::Adafactor(small));
  refuses_large(optim::Muon(small));
  refuses_large(optim::NAdam(small));
  refuses_large(optim::RAdam(small));
  refuses_large(optim::Adadelta(small));
  refuses_large(optim::Rprop(small));
  refuses_large(optim::ASGD(small));
  refuses_large(optim::Shampoo(small));
  std::vector<Param> longer = {vector({1, 2}), vector({2})};
  test::refused([&] { optimizer.update(two, longer); }, "parameter 0 (0) is f64[1], its gradient f64[2]");
  test::refused([&] { optim::SGD(two, {.nesterov = true}); }, "nesterov needs a momentum");
  test::refused([&] { optim::SGD(two, {.momentum = 0.5, .nesterov = true, .dampening = 0.5}); },
                "nesterov has no dampening");
  const optim::Groups biases = {{"*.bias", {.lr = 1}}};
  test::refused([&] { optim::LAMB(two, {}, biases); }, "no parameter is named *.bias: they are 0 and 1");
  test::refused([&] { optim::cosine_annealing_lr(1, 0, 0); }, "t_max must be positive, it is 0");
  optim::SGD plain(two);
  plain.momentum = 0.9;
  test::refused([&] { plain.update(two, two); }, "[SGD] the optimizer was made without a momentum");
}

TEST_CASE("errors of an optimizer have the name of its class") {
  const Pair small = pair(1, 2);
  Pair large{zeros({3, 3}), zeros({1})};
  const auto refused = [](const std::string& words, auto f) {
    const std::string text = test::message_of(f);
    CAPTURE(text);
    CHECK(text.starts_with(words));
    CHECK(text.find(", at optim_test.cpp:") != std::string::npos);
    CHECK(text.find(". ") == std::string::npos);
  };
  with_each_optimizer(small, [&](const std::string& name, auto made) {
    refused("[" + name + "] the optimizer was made for another model: parameter 0 (weight) was [2], is [3,3]",
            [&] { made.update(large, large); });
    using Made = decltype(made);
    refused("[" + name + "] no parameter is named bas: they are ", [&] { Made(small, {}, {{"bas", {.lr = 1}}}); });
    refused("[" + name + "] lr of the group bias must not be negative, it is -1", [&] {
      Made(small, {}, {{"bias", {.lr = -1}}});
    });
  });
  refused("[ASGD] the optimizer was made for another model", [&] { (void)optim::ASGD(small).averaged(large); });
}

// Of an optimizer that was made without a momentum: eagerly, and in a call that does not trace again.
template <class Optimizer>
void refuses_late_momentum(const char* name) {
  CAPTURE(name);
  std::vector<Param> model{vector({1, 2})}, slopes{vector({0.5, -0.5})};
  Optimizer optimizer(model);
  auto step = compile([](std::vector<Param>& model, Optimizer& optimizer, const std::vector<Param>& slopes) {
    optimizer.update(model, slopes);
  });
  step(model, optimizer, slopes);
  const double before = sum(model[0]).item();
  const std::string words = concat_text(
      "[", name, "] the optimizer was made without a momentum and has no velocities: give one from the start");
  optimizer.momentum = 0.9;
  test::refused([&] { optimizer.update(model, slopes); }, words);
  const std::string message = test::message_of([&] { step(model, optimizer, slopes); });
  CAPTURE(message);
  CHECK(message.find(words + ", at optim_test.cpp:") != std::string::npos);
  CHECK(sum(model[0]).item() == before);
  optimizer.momentum = 0;
  step(model, optimizer, slopes);
  optimizer.momentum = Scalar(1) - 1;  // 0, which no guard knows
  step(model, optimizer, slopes);
  optimizer.update(model, slopes);
  CHECK(specialization_count(step) == 2);

  // A file says whether there is one, as it did when momentums were plain Scalars.
  const auto state = (std::filesystem::temp_directory_path() / concat_text("weft_momentum_", name)).string();
  const auto loaded = [&](double momentum) {
    optimizer.momentum = momentum;
    io::save(state, optimizer);
    Optimizer other(model);
    io::load(state, other);
    std::filesystem::remove(state);
    return other;
  };
  Optimizer none = loaded(0), late = loaded(0.9);
  step(model, none, slopes);
  test::refused([&] { late.update(model, slopes); }, words);
  CHECK(test::message_of([&] { step(model, late, slopes); }).starts_with(words));
  CHECK(specialization_count(step) == 2);

  // One that was there from the start may become 0, and compiles nothing anew.
  Optimizer moved(model, {.momentum = 0.9});
  for (const double momentum : {0.9, 0.0, 0.5}) {
    moved.momentum = momentum;
    step(model, moved, slopes);
  }
  CHECK(specialization_count(step) == 3);
}
TEST_CASE("a compiled step without a momentum has no check of it") {
  std::vector<Param> model{vector({1, 2})}, slopes{vector({0.5, -0.5})};
  const auto checks = [&]<class Optimizer>(Optimizer optimizer) {
    auto step = compile([](std::vector<Param>& model, Optimizer& optimizer, const std::vector<Param>& slopes) {
      optimizer.update(model, slopes);
    });
    return explain(step, model, optimizer, slopes).graph.find("check") != std::string::npos;
  };
  CHECK_FALSE(checks(optim::SGD(model)));
  CHECK_FALSE(checks(optim::RMSprop(model)));
  CHECK_FALSE(checks(optim::Shampoo(model)));
}
TEST_CASE("a momentum that comes later is refused, eagerly and in a step that is compiled") {
  refuses_late_momentum<optim::SGD>("SGD");
  refuses_late_momentum<optim::RMSprop>("RMSprop");
  refuses_late_momentum<optim::Shampoo>("Shampoo");
}

TEST_CASE("a dampening that comes later counts from that step on, eagerly and in a step that is compiled") {
  for (const bool nesterov : {false, true}) {
    std::vector<Param> eager{vector({1})}, compiled{vector({1})}, slopes{vector({0.5})};
    optim::SGD optimizer(eager, {.lr = 0.1, .momentum = 0.5, .nesterov = nesterov}), other = optimizer;
    auto step = compile([](std::vector<Param>& model, optim::SGD& optimizer, const std::vector<Param>& slopes) {
      optimizer.update(model, slopes);
    });
    double expected = 1, velocity = 0;
    for (int t = 0; t < 4; ++t) {
      const double dampening = t < 2 ? 0 : 0.25;
      optimizer.dampening = other.dampening = dampening;
      optimizer.update(eager, slopes);
      step(compiled, other, slopes);
      velocity = 0.5 * velocity + (1 - dampening) * 0.5;
      expected -= 0.1 * (nesterov ? 0.5 + 0.5 * velocity : velocity);
      CHECK(eager[0].tensor().item() == doctest::Approx(expected).epsilon(1e-12));
      CHECK(compiled[0].tensor().item() == doctest::Approx(expected).epsilon(1e-12));
    }
    CHECK(specialization_count(step) == 1);
  }
}

}  // namespace
}  // namespace weft
