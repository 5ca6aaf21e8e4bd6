// Kernels that are launched while the one in front of them ends: the same bits as one after the other, each in chains
// where a read that came too early would find what an earlier run has left.
#include <doctest/doctest.h>

#include "base/options.hpp"
#include "tests/cuda/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct State {
  Tensor x;
  WEFT_MEMBERS(x)
};
struct Weights {
  Tensor first, second;
  WEFT_MEMBERS(first, second)
};

// Kernels of a few blocks and of many in turn, with products of a library and branches between them.
Tensor chain(const Tensor& start, const Tensor& weight) {
  Tensor x = start;
  for (int i = 0; i < 12; ++i) {
    const Tensor rows = softmax(x, -1), columns = sum(x * rows, 0), product = matmul(rows, weight);
    x = sin(x + columns / (1 + max(abs(columns)))) + product - mean(product, 0, true);
    x = transpose(x) * (1 + 0.01 * cast(argmax(x, -1), DType::f32) / 512);
  }
  return x;
}

int count_different(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  int different = 0;
  for (std::size_t i = 0; i < found.size(); ++i) different += !all(found[i] == expected[i]).item<bool>();
  return different;
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: kernels launched while the one in front of them ends give the bits of kernels in turn") {
  const test::KeepOptions keep;
  const Tensor weight = to(sample({512, 512}, 1), Device::cuda());
  std::vector<Tensor> starts;
  for (std::uint64_t i = 0; i < 3; ++i) starts.push_back(to(sample({512, 512}, 2 + i), Device::cuda()));
  const auto run = [&](bool dependent, bool graphs) {
    options().cuda_dependent_launch = dependent;
    options().cuda_graphs = graphs;
    auto step = compile(chain);
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < 60; ++i) all.push_back(to(step(starts[i % 3], weight), Device::cpu()));
    return all;
  };
  const std::vector<Tensor> expected = run(false, false);
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    CHECK(count_different(run(true, graphs), expected) == 0);
  }
}

TEST_CASE("cuda: state that each step updates where it lies is read after it is written") {
  const test::KeepOptions keep;
  const auto run = [](bool dependent) {
    options().cuda_dependent_launch = dependent;
    State state{to(sample({1 << 20}, 5), Device::cuda())};
    auto step = compile([](State& s) {
      s.x = s.x * 0.999 + 0.001 * sin(sum(s.x));
      s.x = s.x - 0.5 * mean(s.x);
    });
    for (int i = 0; i < 500; ++i) step(state);
    return to(state.x, Device::cpu());
  };
  CHECK(all(run(true) == run(false)).item<bool>());
}

TEST_CASE("cuda: products that read weights early read those that the call before has written") {
  const test::KeepOptions keep;
  const Tensor x = to(cast(sample({2048}, 7), DType::bf16), Device::cuda());
  const auto run = [&](bool dependent, bool graphs) {
    options().cuda_dependent_launch = dependent;
    options().cuda_graphs = graphs;
    const auto weights = [](std::uint64_t seed) {
      return to(cast(sample({2048, 2048}, seed) * 0.05, DType::bf16), Device::cuda());
    };
    Weights model{weights(8), weights(9)};
    auto step = compile([](Weights& w, const Tensor& input) {
      Tensor h = tanh(input);
      for (int i = 0; i < 4; ++i) h = tanh(matmul(w.second, tanh(matmul(w.first, h))));
      w.first = w.first * 0.98 + 0.02 * reshape(h, {1, 2048});
      w.second = w.second * 0.98 - 0.02 * reshape(h, {2048, 1});
      return h;
    });
    std::vector<Tensor> all;
    for (int i = 0; i < 200; ++i) all.push_back(step(model, x));
    for (Tensor& each : all) each = to(each, Device::cpu());
    return all;
  };
  const std::vector<Tensor> expected = run(false, false);
  REQUIRE(!all(expected[0] == expected[199]).item<bool>());
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    CHECK(count_different(run(true, graphs), expected) == 0);
  }
}

TEST_SUITE_END();
