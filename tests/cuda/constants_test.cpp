// CompileOptions::constant_parameters on a device: what kernels make of parameters is kept there, and other values are
// seen. Skipped without a GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/options.hpp"
#include "tests/cuda/support.hpp"
#include "weft/cuda.hpp"
#include "weft/grad.hpp"
#include "weft/optim.hpp"
#include "weft/weft.hpp"

using namespace weft;
using cuda_test::a_device;
using cuda_test::sample;

namespace {

const CompileOptions constants{.on_compile_error = OnFailure::raise, .constant_parameters = true};
const CompileOptions plain{.on_compile_error = OnFailure::raise};

std::vector<float> numbers_of(const Tensor& value) {
  const Tensor host = cast(to(value, Device::cpu()), DType::f32).eval();
  const View<const float> view = host.data<float>();
  return {view.begin(), view.end()};
}
bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<float> one = numbers_of(a), other = numbers_of(b);
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}
// The norm of the difference, as a share of the second one's.
double apart(const Tensor& a, const Tensor& b) {
  const std::vector<float> one = numbers_of(a), other = numbers_of(b);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference += std::pow(double(one[i]) - other[i], 2), size += std::pow(double(other[i]), 2);
  return std::sqrt(difference / size);
}

// Convolutions whose weights are put in another order, without a norm after them.
struct Network {
  nn::Conv2d in{8, 64, 3, {.padding = 1}}, between{64, 128, 3, {.padding = 1}}, out{128, 64, 1};
  nn::Linear last{64, 16};
  Tensor operator()(const Tensor& x) { return last(mean(relu(out(relu(between(relu(in(x)))))), {2, 3})); }
};
constexpr std::int64_t kept_least = 2 * 128 * 64 * 9;  // bytes of the largest weights in their new order

// Blocks as those of a ResNet, with statistics that are not of a fresh network.
struct Block {
  nn::Conv2d a{32, 64, 3, {.padding = 1, .bias = false}}, b{64, 64, 3, {.padding = 1, .bias = false}},
      side{32, 64, 1, {.bias = false}};
  nn::BatchNorm2d norm_a{64}, norm_b{64}, norm_side{64};
  Tensor operator()(const Tensor& x) { return relu(norm_b(b(relu(norm_a(a(x))))) + norm_side(side(x))); }
};
Block trained(std::uint64_t seed) {
  Block block;
  Generator rng(seed);
  for (nn::BatchNorm2d* norm : {&block.norm_a, &block.norm_b, &block.norm_side}) {
    norm->running_mean = Buffer(normal({64}, 0, 0.3, rng));
    norm->running_var = Buffer(exp(normal({64}, 0, 0.5, rng)));
    norm->weight = Param(normal({64}, 1, 0.3, rng)), norm->bias = Param(normal({64}, 0, 0.3, rng));
  }
  return block;
}

template <class M>
M on_device(M model, DType dtype = DType::bf16) {
  nn::eval(model);
  nn::to(model, dtype);
  nn::to(model, Device::cuda());
  return model;
}
Tensor image(const Sizes& sizes, std::uint64_t seed, DType dtype = DType::bf16) {
  return to(cast(sample(sizes, seed), dtype), Device::cuda()).eval();
}

constexpr auto run_network = [](Network& model, const Tensor& x) { return model(x); };
constexpr auto run_block = [](Block& block, const Tensor& x) { return block(x); };

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("constant parameters change no bit of a network without norms, and what is made of them is kept") {
  Network model = on_device(Network());
  const auto f = compile(run_network, plain), g = compile(run_network, constants);
  const Tensor x = image({4, 8, 16, 16}, 1);
  const auto kept_by = [&](const auto& each) {
    each(model, x).eval();
    cuda::synchronize();
    const std::int64_t before = cuda::memory_stats().in_use;
    for (int i = 0; i < 3; ++i) each(model, x).eval();
    return cuda::memory_stats().in_use - before;
  };
  for (int i = 0; i < 4; ++i) f(model, x).eval();  // libraries take workspaces of their own
  CHECK(kept_by(compile(run_network, plain)) < kept_least);
  CHECK(kept_by(g) >= kept_least);
  for (const std::uint64_t seed : {2, 3}) {
    const Tensor other = image({4, 8, 16, 16}, seed);
    for (int i = 0; i < 6; ++i) CHECK(same_bits(g(model, other), f(model, other)));  // run, then replayed
  }
}

TEST_CASE("on a device a parameter that was replaced is seen by the next call, also by one that is replayed") {
  Network model = on_device(Network());
  const auto f = compile(run_network, plain), g = compile(run_network, constants);
  const Tensor x = image({4, 8, 16, 16}, 1);
  for (int i = 0; i < 8; ++i) CHECK(same_bits(g(model, x), f(model, x)));
  for (int round = 0; round < 4; ++round) {
    const Tensor before = f(model, x).eval();
    const Network other = on_device(Network());
    if (round == 0) model.in.weight = other.in.weight;
    if (round == 1) model.between.weight = other.between.weight;
    if (round == 2) model.between.weight = Param(model.between.weight.tensor() * 2.0);  // not computed yet
    if (round == 3) model.last.bias = other.last.bias;
    for (int i = 0; i < 2 * round + 1; ++i) {
      const Tensor found = g(model, x);
      CHECK(same_bits(found, f(model, x)));
      CHECK_FALSE(same_bits(found, before));
    }
  }
}

TEST_CASE("on a device steps that train between calls are seen") {
  Network model;
  nn::to(model, Device::cuda());
  const Tensor x = image({4, 8, 16, 16}, 1, DType::f32), y = image({4, 16}, 2, DType::f32);
  optim::SGD optimizer(model, {.lr = 1e-2});
  const CompileOptions low{.on_compile_error = OnFailure::raise, .autocast = DType::bf16};
  CompileOptions low_constants = low;
  low_constants.constant_parameters = true;
  const auto f = compile(run_network, low), g = compile(run_network, low_constants);
  const auto step = compile([](Network& model, optim::SGD& optimizer, const Tensor& x, const Tensor& y) {
    const auto [loss, gradients] = value_and_grad([&](Network& m) { return nn::mse_loss(m(x), y); }, model);
    optimizer.update(model, gradients);
    return loss;
  });
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < round; ++i) CHECK(same_bits(g(model, x), f(model, x)));
    const Tensor before = f(model, x).eval();
    step(model, optimizer, x, y);
    CHECK(same_bits(g(model, x), f(model, x)));
    CHECK_FALSE(same_bits(g(model, x), before));
  }
}

TEST_CASE("on a device two models and one function") {
  Network models[] = {on_device(Network()), on_device(Network())};
  const auto f = compile(run_network, plain), g = compile(run_network, constants);
  const Tensor x = image({4, 8, 16, 16}, 1);
  for (int i = 0; i < 12; ++i) CHECK(same_bits(g(models[i % 2], x), f(models[i % 2], x)));
  for (int i = 0; i < 24; ++i) CHECK(same_bits(g(models[i / 8 % 2], x), f(models[i / 8 % 2], x)));
}

TEST_CASE("norms in the weights of 16-bit convolutions have the numbers of the host, and follow what becomes of them") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(info(dtype).name);
    Block block = on_device(trained(1), dtype);
    const auto f = compile(run_block, plain), g = compile(run_block, constants);
    const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const auto check = [&](const Tensor& x) {
      Block exact = block;
      nn::to(exact, Device::cpu());
      nn::to(exact, DType::f32);
      const Tensor expected = exact(cast(to(x, Device::cpu()), DType::f32)).eval();
      const double folded = apart(g(block, x), expected), apart_before = apart(f(block, x), expected);
      CAPTURE(folded);
      CAPTURE(apart_before);
      CHECK(folded <= 2 * rounding);
      CHECK(folded <= 1.5 * apart_before);  // no less accurate than a norm of rounded sums
    };
    const Tensor x = image({4, 32, 14, 14}, 3, dtype);
    for (int i = 0; i < 6; ++i) check(x);
    const Tensor first = compile(run_block, constants)(block, x).eval();  // without what is kept
    for (int i = 0; i < 3; ++i) CHECK(same_bits(g(block, x), first));
    for (int round = 0; round < 4; ++round) {
      const Block other = on_device(trained(7), dtype);
      if (round == 0) block.a.weight = other.a.weight;
      if (round == 1) block.norm_a.running_var = other.norm_a.running_var;
      if (round == 2) block.norm_b.bias = other.norm_b.bias;
      if (round == 3) block.norm_side.weight = other.norm_side.weight;
      for (int i = 0; i < 4; ++i) check(x);
    }
  }
}

TEST_SUITE_END();
