// CompileOptions::constant_parameters: the bits are those without it where no norm is folded into weights, and the same
// in every call, whatever becomes of parameters between calls; and what is kept is kept.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/options.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/runtime/support.hpp"
#include "trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/memory.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

using namespace weft;
using namespace trace_test;
using weft::test::a_compiler;
using weft::test::KeepOptions;
using weft::test::needs;

namespace {

struct Model {
  nn::Conv2d convolution{4, 32, 3, {.padding = 1}};
  nn::BatchNorm2d norm{32};
  nn::Linear in{32 * 6 * 6, 96}, out{96, 40};
  Tensor operator()(const Tensor& x) {
    const Tensor image = norm(relu(convolution(x)));  // a norm that is not folded
    return out(relu(in(reshape(image, {x.size(0), 32 * 6 * 6}))));
  }
};
bool same_bits(const Tensor& a, const Tensor& b) {
  const Numbers one = numbers_of(a), other = numbers_of(b);
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}
Tensor forward(Model& model, const Tensor& x) { return model(x); }
const CompileOptions constants{.constant_parameters = true};
constexpr std::int64_t matrices = 4 * (96 * 32 * 6 * 6 + 40 * 96);

Model evaluated() {
  Model model;
  nn::eval(model);
  return model;
}

// What three more calls leave in memory.
template <class F>
std::int64_t kept_by(const F& f, Model& model, const Tensor& x) {
  f(model, x);
  const MemoryMeter meter;
  for (int i = 0; i < 3; ++i) f(model, x);
  return meter.in_use();
}

}  // namespace

TEST_CASE("constant parameters do not change a bit, and what kernels make of them is kept" * needs(a_compiler)) {
  Model model = evaluated();
  const Tensor x = normal({16, 4, 6, 6});
  const auto plain = compile(forward), f = compile(forward, constants);
  CHECK(kept_by(plain, model, x) < matrices);
  CHECK(kept_by(f, model, x) >= matrices);
  for (const std::int64_t rows : {16, 3, 2, 5, 16}) {
    const Tensor some = normal({rows, 4, 6, 6});
    for (int i = 0; i < 3; ++i) CHECK(same_bits(f(model, some), plain(model, some)));
  }
}

TEST_CASE("a parameter that was replaced is seen by the next call" * needs(a_compiler)) {
  Model model = evaluated();
  const Tensor x = normal({4, 4, 6, 6});
  const auto plain = compile(forward), f = compile(forward, constants);
  for (int i = 0; i < 3; ++i) CHECK(same_bits(f(model, x), plain(model, x)));
  for (int round = 0; round < 4; ++round) {
    const Model other = evaluated();
    if (round == 0) model.in.weight = other.in.weight;
    if (round == 1) model.convolution.weight = other.convolution.weight;
    if (round == 2) model.out.bias = other.out.bias;
    if (round == 3) model.in.weight = Param(model.in.weight.tensor() * 2.0);  // not computed yet
    for (int i = 0; i < round + 1; ++i) CHECK(same_bits(f(model, x), plain(model, x)));
  }
}

TEST_CASE("a step that trains between calls: its updates are seen" * needs(a_compiler)) {
  Model model = evaluated();
  const Tensor x = normal({4, 4, 6, 6}), y = normal({4, 40});
  optim::Adam adam(model, {.lr = 1e-2});
  const auto plain = compile(forward), f = compile(forward, constants);
  const auto step = compile([](Model& model, optim::Adam& adam, const Tensor& x, const Tensor& y) {
    const auto [loss, gradients] = value_and_grad([&](Model& m) { return nn::mse_loss(m(x), y); }, model);
    adam.update(model, gradients);
    return loss;
  });
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < round; ++i) CHECK(same_bits(f(model, x), plain(model, x)));
    const Tensor before = plain(model, x).eval();
    step(model, adam, x, y);
    CHECK(same_bits(f(model, x), plain(model, x)));
    CHECK_FALSE(same_bits(f(model, x), before));
  }
}

TEST_CASE("what the function changes is no constant" * needs(a_compiler)) {
  Model one, other = one;
  const Tensor x = normal({4, 4, 6, 6});
  const auto plain = compile(forward), f = compile(forward, constants);
  for (int i = 0; i < 4; ++i) CHECK(same_bits(f(one, x), plain(other, x)));  // moving averages in training
  CHECK(same_bits(one.norm.running_mean.tensor(), other.norm.running_mean.tensor()));
  // A whole training step under the option.
  const auto train = [](Model& model, const Tensor& x) {
    const auto [loss, gradients] = value_and_grad([&](Model& m) { return sum(m(x)); }, model);
    optim::SGD(model, {.lr = 1e-4}).update(model, gradients);
    return loss;
  };
  const auto without = compile(train), with = compile(train, constants);
  for (int i = 0; i < 4; ++i) CHECK(same_bits(with(one, x), without(other, x)));
  CHECK(same_bits(one.in.weight.tensor(), other.in.weight.tensor()));
}

TEST_CASE("two models and one function, also at once" * needs(a_compiler)) {
  Model models[] = {evaluated(), evaluated()};
  const Tensor x = normal({4, 4, 6, 6});
  const auto plain = compile(forward), f = compile(forward, constants);
  const Tensor results[] = {plain(models[0], x).eval(), plain(models[1], x).eval()};
  for (int i = 0; i < 8; ++i) CHECK(same_bits(f(models[i % 2], x), results[i % 2]));
  for (int i = 0; i < 8; ++i) CHECK(same_bits(f(models[i / 4], x), results[i / 4]));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Model own = models[t % 2];
      for (int i = 0; i < 40; ++i) wrong += !same_bits(f(own, x), results[t % 2]);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("derivatives of a function with constant parameters" * needs(a_compiler)) {
  Model model = evaluated();
  const Tensor x = normal({4, 4, 6, 6});
  const auto plain = compile(forward), f = compile(forward, constants);
  for (int i = 0; i < 3; ++i) {
    const Model with = grad([&](Model&m) { return sum(square(f(m, x))); }, model),
                without = grad([&](Model&m) { return sum(square(plain(m, x))); }, model);
    CHECK(same_bits(with.in.weight.tensor(), without.in.weight.tensor()));
  }
}

TEST_CASE("a norm after a convolution is folded into its weights; other parameters are seen" * needs(a_compiler)) {
  struct Block {
    nn::Conv2d convolution{8, 32, 3, {.padding = 1, .bias = true}};
    nn::BatchNorm2d norm{32};
    nn::Linear linear{32, 24};
    nn::BatchNorm1d features{24};
    Tensor operator()(const Tensor& x) { return features(linear(mean(relu(norm(convolution(x))), {2, 3}))); }
  };
  const auto made = [] {
    Block block;
    const auto vary = [](auto& norm, std::int64_t channels) {
      norm.running_mean = Buffer(normal({channels}));
      norm.running_var = Buffer(exp(normal({channels})));
      norm.weight = Param(normal({channels})), norm.bias = Param(normal({channels}));
    };
    vary(block.norm, 32), vary(block.features, 24);
    nn::eval(block);
    return block;
  };
  Block block = made();
  const auto run = [](Block& block, const Tensor& x) { return block(x); };
  const auto plain = compile(run), f = compile(run, constants);
  const auto is_near = [&](const Tensor& x) {
    const Numbers exact = numbers_of(plain(block, x)), found = numbers_of(f(block, x));
    double most = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i)
      most = std::max(most, std::fabs(double(found[i]) - exact[i])), size = std::max(size, std::fabs(double(exact[i])));
    return most <= 1e-5 * size;
  };
  for (const std::int64_t count : {2, 2, 2, 5, 1}) CHECK(is_near(normal({count, 8, 7, 5})));
  const Tensor x = normal({3, 8, 7, 5});
  const Tensor first = compile(run, constants)(block, x).eval();  // without what is kept
  for (int i = 0; i < 3; ++i) CHECK(same_bits(f(block, x), first));
  for (int round = 0; round < 4; ++round) {
    const Block other = made();
    if (round == 0) block.convolution.weight = other.convolution.weight;
    if (round == 1) block.norm.running_var = other.norm.running_var;
    if (round == 2) block.norm.weight = other.norm.weight;
    if (round == 3) block.features.bias = other.features.bias;
    for (int i = 0; i < 3; ++i) CHECK(is_near(x));
  }
}

TEST_CASE("a plan that was found on disk keeps what a new one keeps" * needs(a_compiler)) {
  const KeepOptions keep;
  const test::Folder folder;
  options().stored_plans = true;
  options().nvrtc_check = false;  // which keeps plans from the disk
  options().cache_directory = folder.path();
  Model model = evaluated();
  const Tensor x = normal({16, 4, 6, 6});
  const auto plain = compile(forward);
  for (int i = 0; i < 2; ++i) {
    const auto f = compile(forward, constants);
    CHECK(kept_by(f, model, x) >= matrices);
    CHECK(explain(f, model, x).cache[0] ==
          (i == 0 ? "plan: not on disk: none of this graph is there" : "plan: found on disk"));
    CHECK(same_bits(f(model, x), plain(model, x)));
  }
}
