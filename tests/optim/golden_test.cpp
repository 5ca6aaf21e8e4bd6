// Steps of each optimizer, and schedules, against PyTorch (golden.py says what is computed), eagerly and compiled.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

struct Row {
  const char* name;
  int configuration;
  std::vector<double> numbers;
};
const std::vector<double>& golden(const std::string& name, int configuration) {
  static const std::vector<Row> rows = {
#include "golden.inc"
  };
  for (const Row& row : rows)
    if (row.name == name && row.configuration == configuration) return row.numbers;
  FAIL("no row " << name);
  return rows[0].numbers;
}

struct Model {
  Param w, b;
};
template <class F>
Model model_of(F number, Options options = {DType::f64}) {
  std::vector<double> numbers;
  for (int i = 0; i < 15; ++i) numbers.push_back(number(i));
  const std::span<const double> all(numbers);
  return {cast(from_span(all.first(12), {4, 3}), options.dtype), cast(from_span(all.last(3), {3}), options.dtype)};
}
Model start(Options options = {DType::f64}) {
  return model_of([](int i) { return std::sin(i + 1); }, options);
}
Model gradients(int t, Options options = {DType::f64}) {
  return model_of([t](int i) { return std::cos(3 * t + i) * (1 + t / 10.0); }, options);
}
template <class M>
std::vector<double> values(const M& model) {
  std::vector<double> result;
  tree::for_each(model, [&](const Param& p) {
    Tensor wide = cast(p, DType::f64);
    for (const double x : wide.data<double>()) result.push_back(x);
  });
  return result;
}
void check_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) <= tolerance);
}

template <class Make>
void leads(const char* name, int configuration, Make make) {
  CAPTURE(std::string(name));
  CAPTURE(configuration);
  const std::vector<double> expected = golden(name, configuration);
  Model eager = start();
  auto optimizer = make(eager);
  for (int t = 0; t < 5; ++t) optimizer.update(eager, gradients(t));
  check_close(values(eager), expected, 1e-12);

  using Optimizer = decltype(optimizer);
  Model compiled = start();
  auto other = make(compiled);
  auto step =
      compile([](Model& model, Optimizer& optimizer, const Model& gradients) { optimizer.update(model, gradients); });
  for (int t = 0; t < 5; ++t) step(compiled, other, gradients(t));
  check_close(values(compiled), expected, 1e-11);
  CHECK(specialization_count(step) == 1);

  // Of f32 the state and the parameters stay f32.
  Model narrow = start({DType::f32});
  auto third = make(narrow);
  for (int t = 0; t < 5; ++t) third.update(narrow, gradients(t, {DType::f32}));
  CHECK(narrow.w->dtype() == DType::f32);
  CHECK(narrow.b->dtype() == DType::f32);
  check_close(values(narrow), expected, 1e-4);
}

#define WEFT_LEADS(name, configuration, Optimizer, ...) \
  leads(name, configuration, [](const Model& m) { return optim::Optimizer(m __VA_OPT__(, ) __VA_ARGS__); })

TEST_CASE("SGD") {
  WEFT_LEADS("sgd", 0, SGD, {.lr = 0.1});
  WEFT_LEADS("sgd", 1, SGD, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  WEFT_LEADS("sgd", 2, SGD, {.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1, .dampening = 0.3});
}
TEST_CASE("Adam and AdamW") {
  WEFT_LEADS("adam", 0, Adam);
  WEFT_LEADS("adam", 1, Adam, {.lr = 0.1, .weight_decay = 0.05});
  WEFT_LEADS("adam", 2, Adam, {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3});
  WEFT_LEADS("adamw", 0, AdamW);
  WEFT_LEADS("adamw", 1, AdamW, {.lr = 0.1, .weight_decay = 0.5});
  WEFT_LEADS("adamw", 2, AdamW, {.lr = 0.1}, {{"b", {.lr = 0.3, .weight_decay = 0}}});
}
TEST_CASE("RMSprop") {
  WEFT_LEADS("rmsprop", 0, RMSprop);
  WEFT_LEADS("rmsprop", 1, RMSprop, {.lr = 0.05, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.8});
  WEFT_LEADS("rmsprop", 2, RMSprop, {.lr = 0.02, .eps = 1e-3, .centered = true});
}
TEST_CASE("Adagrad") {
  WEFT_LEADS("adagrad", 0, Adagrad);
  WEFT_LEADS("adagrad", 1, Adagrad, {.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.2});
  WEFT_LEADS("adagrad", 2, Adagrad, {.lr = 0.05, .initial_accumulator_value = 0.5, .eps = 1e-2});
}
TEST_CASE("Lion") {
  WEFT_LEADS("lion", 0, Lion);
  WEFT_LEADS("lion", 1, Lion, {.lr = 0.05, .weight_decay = 0.3});
  WEFT_LEADS("lion", 2, Lion, {.lr = 0.01, .beta1 = 0.5, .beta2 = 0.8});
}
TEST_CASE("LAMB") {
  WEFT_LEADS("lamb", 0, LAMB);
  WEFT_LEADS("lamb", 1, LAMB, {.lr = 0.1, .weight_decay = 0});
  WEFT_LEADS("lamb", 2, LAMB, {.lr = 0.05, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-2});
}
TEST_CASE("Adafactor") {
  WEFT_LEADS("adafactor", 0, Adafactor);
  WEFT_LEADS("adafactor", 1, Adafactor, {.lr = 0.5, .weight_decay = 0.1});
  WEFT_LEADS("adafactor", 2, Adafactor, {.lr = 0.1, .beta2_decay = -0.5, .eps2 = 0.9, .d = 1.5, .eps1 = 1e-3});
}
TEST_CASE("Muon, in float64") {
  WEFT_LEADS("muon", 0, Muon);
  WEFT_LEADS("muon", 1, Muon, {.lr = 0.1, .weight_decay = 0, .momentum = 0.8, .nesterov = false, .ns_steps = 3});
  WEFT_LEADS("muon", 2, Muon, {.lr = 0.05, .scale = optim::MuonScale::match_rms_adamw});
}

// Twelve steps of a larger model, in which b has no gradient in some (golden.py: long_lead).
struct Long {
  Param w, b, s, c, e;
};
template <class F>
Long long_of(F number, Options options = {DType::f64}) {
  std::vector<double> numbers;
  for (int i = 0; i < 28; ++i) numbers.push_back(number(i));
  std::size_t begin = 0;
  const auto next = [&](const Sizes& sizes, std::size_t count) {
    const std::span<const double> own = std::span<const double>(numbers).subspan(begin, count);
    begin += count;
    return Param(cast(from_span(own, sizes), options.dtype));
  };
  Long model;
  model.w = next({4, 3}, 12), model.b = next({3}, 3), model.s = next({}, 1), model.c = next({2, 3, 2}, 12);
  model.e = next({0, 2}, 0);
  return model;
}
Long long_gradients(int t, Options options = {DType::f64}) {
  Long result = long_of([t](int i) { return std::cos(3 * t + i) * (1 + t / 10.0); }, options);
  if (t == 0 || t == 4 || t == 5) result.b.tensor() = {};
  return result;
}
template <class Make, class Result>
void leads_long(const char* name, int configuration, Make make, Result result) {
  CAPTURE(std::string(name));
  CAPTURE(configuration);
  const std::vector<double> expected = golden(std::string("long ") + name, configuration);
  const auto begin = [](Options options) { return long_of([](int i) { return std::sin(i + 1); }, options); };
  Long eager = begin({DType::f64}), compiled = eager, narrow = begin({DType::f32}), frozen = eager;
  auto optimizer = make(eager), other = make(compiled), third = make(narrow), last = make(frozen);
  using Optimizer = decltype(optimizer);
  auto step =
      compile([](Long& model, Optimizer& optimizer, const Long& gradients) { optimizer.update(model, gradients); });
  for (int t = 0; t < 12; ++t) {
    const Long gradients = long_gradients(t);
    optimizer.update(eager, gradients);
    step(compiled, other, gradients);
    third.update(narrow, long_gradients(t, {DType::f32}));
    // A frozen parameter takes no part, whatever its gradient is.
    Long all = gradients;
    frozen.b.frozen = !gradients.b.tensor().defined();
    if (frozen.b.frozen) all.b = full({3}, NAN, {DType::f64});
    last.update(frozen, all);
  }
  check_close(values(result(optimizer, eager)), expected, 1e-11);
  check_close(values(result(other, compiled)), expected, 1e-10);
  check_close(values(result(third, narrow)), expected, 1e-3);
  check_close(values(result(last, frozen)), expected, 1e-11);
  CHECK(narrow.c->dtype() == DType::f32);
  // With and without b, and once more where counts begin to differ.
  CHECK(specialization_count(step) <= 3);
}
#define WEFT_LEADS_LONG(name, configuration, Optimizer, ...)                                             \
  leads_long(                                                                                            \
      name, configuration, [](const Long& m) { return optim::Optimizer(m __VA_OPT__(, ) __VA_ARGS__); }, \
      [](const auto&, const Long& m) { return m; })

TEST_CASE("steps are counted for each parameter: twelve steps, some without a gradient of one") {
  WEFT_LEADS_LONG("sgd", 0, SGD,
                  {.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1, .dampening = 0.3, .maximize = true});
  WEFT_LEADS_LONG("adam", 0, Adam, {.lr = 0.02, .weight_decay = 0.1});
  WEFT_LEADS_LONG("adam", 1, Adam, {.lr = 0.02, .weight_decay = 0.1, .maximize = true});
  WEFT_LEADS_LONG("adamw", 0, AdamW, {.lr = 0.1}, {{"b", {.lr = 0.3, .weight_decay = 0}}});
  WEFT_LEADS_LONG("rmsprop", 0, RMSprop,
                  {.lr = 0.02, .weight_decay = 0.1, .momentum = 0.5, .centered = true, .maximize = true});
  WEFT_LEADS_LONG("adagrad", 0, Adagrad, {.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1, .maximize = true});
  WEFT_LEADS_LONG("lion", 0, Lion, {.lr = 0.01, .weight_decay = 0.3});
  WEFT_LEADS_LONG("lamb", 0, LAMB, {.lr = 0.05});
  WEFT_LEADS_LONG("adafactor", 0, Adafactor, {.lr = 0.1, .weight_decay = 0.1, .maximize = true});
  WEFT_LEADS_LONG("muon", 0, Muon, {.lr = 0.05});
}
TEST_CASE("NAdam") {
  WEFT_LEADS_LONG("nadam", 0, NAdam);
  WEFT_LEADS_LONG("nadam", 1, NAdam,
                  {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1, .momentum_decay = 0.1});
  WEFT_LEADS_LONG("nadam", 2, NAdam,
                  {.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true, .maximize = true});
}
TEST_CASE("RAdam") {
  WEFT_LEADS_LONG("radam", 0, RAdam);
  WEFT_LEADS_LONG("radam", 1, RAdam, {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1});
  WEFT_LEADS_LONG("radam", 2, RAdam,
                  {.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true, .maximize = true});
}
TEST_CASE("Adadelta") {
  WEFT_LEADS_LONG("adadelta", 0, Adadelta);
  WEFT_LEADS_LONG("adadelta", 1, Adadelta, {.lr = 0.5, .rho = 0.6, .eps = 1e-3, .weight_decay = 0.1, .maximize = true});
}
TEST_CASE("Rprop") {
  WEFT_LEADS_LONG("rprop", 0, Rprop);
  WEFT_LEADS_LONG(
      "rprop", 1, Rprop,
      {.lr = 0.1, .eta_minus = 0.4, .eta_plus = 1.5, .least_step = 0.05, .most_step = 0.2, .maximize = true});
}
TEST_CASE("ASGD, and its averages") {
  WEFT_LEADS_LONG("asgd", 0, ASGD);
  WEFT_LEADS_LONG("asgd", 1, ASGD,
                  {.lr = 0.1, .lambd = 0.1, .alpha = 0.5, .t0 = 3, .weight_decay = 0.1, .maximize = true});
  leads_long(
      "asgd averages", 0,
      [](const Long& m) { return optim::ASGD(m, {.lr = 0.1, .lambd = 0.1, .alpha = 0.5, .t0 = 3}); },
      [](const optim::ASGD& optimizer, const Long& m) { return optimizer.averaged(m); });
}
TEST_CASE("Shampoo") {
  WEFT_LEADS_LONG("shampoo", 0, Shampoo);
  WEFT_LEADS_LONG("shampoo", 1, Shampoo, {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .update_freq = 4});
}

// Five steps on the rows of a table, eagerly and compiled (golden.py: sparse_lead).
template <class Make>
void leads_rows(const char* name, int configuration, Make make) {
  CAPTURE(std::string(name));
  const std::vector<double> expected = golden(name, configuration);
  std::vector<double> numbers;
  for (int i = 0; i < 48; ++i) numbers.push_back(std::sin(i + 1));
  const Tensor begin = from_span(std::span<const double>(numbers), {16, 3});
  nn::Embedding plain(16, 3, {.sparse = true, .options = {DType::f64}}), compiled = plain;
  plain.weight = compiled.weight = begin;
  auto optimizer = make(plain), other = make(compiled);
  const auto f = [](nn::Embedding& table, decltype(optimizer)& optimizer, const Tensor& index, const Tensor& rows) {
    optimizer.update(table, grad([&](const nn::Embedding& table) { return sum(table(index) * rows); }, table));
  };
  auto step = compile(f);
  for (int t = 0; t < 5; ++t) {
    std::vector<std::int64_t> index;
    for (int k = 0; k < 6; ++k) index.push_back(k * (k - 1) / 2 + t);
    std::vector<double> slopes;
    for (int i = 0; i < 18; ++i) slopes.push_back(std::cos(3 * t + i) * (1 + t / 10.0));
    const Tensor at = from_span(std::span<const std::int64_t>(index), {6}),
                 rows = from_span(std::span<const double>(slopes), {6, 3});
    f(plain, optimizer, at, rows);
    step(compiled, other, at, rows);
  }
  for (const nn::Embedding& table : {plain, compiled}) {
    std::vector<double> found(48);
    table.weight->copy_to(found);
    check_close(found, expected, 1e-12);
  }
  CHECK(specialization_count(step) == 1);
}
TEST_CASE("gradients that stay rows: SGD, SparseAdam, Adagrad") {
  leads_rows("sparse sgd", 0, [](const auto& m) { return optim::SGD(m, {.lr = 0.1}); });
  leads_rows("sparse adam", 0, [](const auto& m) { return optim::Adam(m, {.lr = 0.1, .eps = 1e-100}); });
  leads_rows("sparse adam", 1, [](const auto& m) {
    return optim::AdamW(m, {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-100, .weight_decay = 0});
  });
  leads_rows("sparse adagrad", 0, [](const auto& m) { return optim::Adagrad(m, {.lr = 0.1, .lr_decay = 0.1}); });
}

TEST_CASE("Muon: what is named as one of the others is AdamW's") {
  const Model g = gradients(0);
  Model a = start(), b = start();
  optim::Muon muon(a, {.others = {.lr = 0.1}, .others_named = {"w"}});
  optim::AdamW adamw(b, {.lr = 0.1});
  muon.update(a, g);
  adamw.update(b, g);
  CHECK(values(a) == values(b));
}

TEST_CASE("learning rates, from the counter of a compiled step too") {
  const auto follows = [](const char* name, auto rate) {
    CAPTURE(std::string(name));
    const std::vector<double> expected = golden(name, 0);
    auto compiled = compile(rate);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Scalar step = static_cast<double>(i);
      CHECK(rate(step).item() == doctest::Approx(expected[i]).epsilon(1e-12));
      CHECK(compiled(step).item() == doctest::Approx(expected[i]).epsilon(1e-12));
    }
    CHECK(specialization_count(compiled) == 1);
  };
  follows("cosine", [](const Scalar& s) { return optim::cosine_annealing_lr(0.5, s, 8, 0.01); });
  follows("linear", [](const Scalar& s) { return optim::linear_lr(0.5, s, 0.25, 0.75, 4); });
  follows("multi_step", [](const Scalar& s) { return optim::multi_step_lr(0.5, s, {2, 5}, 0.5); });
  follows("step", [](const Scalar& s) { return optim::step_lr(0.5, s, 3, 0.5); });
  follows("exponential", [](const Scalar& s) { return optim::exponential_lr(0.5, s, 0.9); });
  follows("one cycle", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 12); });
  follows("one cycle of 1", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 1); });
  follows("one cycle of 2", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 2); });
  follows("one cycle of 3", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 3); });
  follows("one cycle of 4", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 4); });
  follows("one cycle of 5", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 5); });
  follows("one cycle down", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 4, {.pct_start = 0}); });
  follows("one cycle up", [](const Scalar& s) { return optim::one_cycle_lr(0.5, s, 4, {.pct_start = 1}); });
}

TEST_CASE("a cycle whose way up would begin and end at the first step, and one of no step, are refused") {
  using weft::test::refused;
  refused([] { optim::one_cycle_lr(0.5, 0, 2, {.pct_start = 0.5}); },
          "[one_cycle_lr] pct_start must not be the share of a single step: the way up would begin and end at step 0. "
          "It is 0.5 of 2 steps");
  refused([] { optim::one_cycle_lr(0.5, 0, 1, {.pct_start = 1}); }, "It is 1 of 1 step");
  refused([] { optim::one_cycle_lr(0.5, 0, 0); }, "total_steps must be at least 1, it is 0");
  refused([] { optim::one_cycle_lr(0.5, 0, 9, {.pct_start = 1.5}); }, "pct_start must be from 0 to 1, it is 1.5");
  refused([] { optim::one_cycle_lr(0.5, 0, 9, {.pct_start = 2}); }, "pct_start must be from 0 to 1, it is 2");
}

TEST_CASE("schedules refuse numbers that are not finite, and counts that are not positive") {
  using weft::test::refused;
  for (const double wrong : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    const std::string it_is = concat_text(" must be finite, it is ", wrong);
    refused([&] { optim::exponential_lr(1, 0, wrong); }, "[exponential_lr] gamma" + it_is);
    refused([&] { optim::cosine_annealing_lr(1, 0, wrong); }, "t_max" + it_is);
    refused([&] { optim::cosine_annealing_lr(1, 0, 9, wrong); }, "eta_min" + it_is);
    refused([&] { optim::linear_lr(1, 0, wrong); }, "start_factor" + it_is);
    refused([&] { optim::linear_lr(1, 0, 1, wrong); }, "end_factor" + it_is);
    refused([&] { optim::linear_lr(1, 0, 1, 1, wrong); }, "total_iters" + it_is);
    refused([&] { optim::step_lr(1, 0, wrong); }, "step_size" + it_is);
    refused([&] { optim::step_lr(1, 0, 2, wrong); }, "gamma" + it_is);
    refused([&] { optim::multi_step_lr(1, 0, {2, wrong}); }, "a milestone" + it_is);
    refused([&] { optim::multi_step_lr(1, 0, {2}, wrong); }, "gamma" + it_is);
    refused([&] { optim::one_cycle_lr(1, 0, wrong); }, "total_steps" + it_is);
    refused([&] { optim::one_cycle_lr(1, 0, 9, {.div_factor = wrong}); }, "div_factor" + it_is);
    refused([&] { optim::one_cycle_lr(1, 0, 9, {.final_div_factor = wrong}); }, "final_div_factor" + it_is);
  }
  refused([] { optim::one_cycle_lr(1, 0, 9, {.pct_start = NAN}); }, "pct_start must be from 0 to 1, it is nan");
  refused([] { optim::step_lr(1, 0, 0); }, "step_size must be positive, it is 0");
  refused([] { optim::one_cycle_lr(1, 0, 9, {.div_factor = 0}); }, "div_factor must be positive, it is 0");
}

}  // namespace
}  // namespace weft
