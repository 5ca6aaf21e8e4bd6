// offload() on a CUDA device: the same bits as without, from plans that are run step by step and replayed, by several
// threads, at sizes that change; in less memory. Skipped without a GPU.
#include "weft/offload.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "base/options.hpp"
#include "schedule/offload.hpp"
#include "tests/cuda/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct Block {
  nn::Linear in{256, 1024}, out{1024, 256};
  nn::LayerNorm norm{256};
  Tensor operator()(const Tensor& x) const { return x + out(gelu(in(norm(x)))); }
};
struct Stack {
  std::vector<Block> blocks = std::vector<Block>(10);
};

auto train(const Stack& m, const Tensor& x, bool offloads) {
  return value_and_grad(
      [&](const Stack& m) {
        Tensor y = x;
        for (const Block& block : m.blocks) y = offloads ? offload(block)(y) : block(y);
        return mean(square(y));
      },
      m);
}

Stack model_there() {
  seed(3);
  Stack model;
  nn::to(model, Device::cuda());
  return model;
}

// All gradients, there.
std::vector<Tensor> gradients_of(const auto& found) {
  std::vector<Tensor> all{found.value};
  Stack gradients = found.gradients;
  for (const auto& each : nn::parameters(gradients)) all.push_back(each.value);
  return all;
}
void check_same(const std::vector<Tensor>& made, const std::vector<Tensor>& expected) {
  REQUIRE(made.size() == expected.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    CHECK(max(abs(to(made[i], Device::cpu()) - to(expected[i], Device::cpu()))).item() == 0);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: a step whose values wait in the host's memory gives the same bits, replayed or not, in less memory") {
  const test::KeepOptions keep;
  const Stack model = model_there();
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    options().cuda_graphs = graphs;
    const auto plain = compile(train), offloads = compile(train);
    for (int call = 0; call < 8; ++call) {
      const Tensor x = to(sample({4096, 256}, static_cast<std::uint64_t>(call)), Device::cuda());
      check_same(gradients_of(offloads(model, x, true)), gradients_of(plain(model, x, false)));
    }
    const Tensor x = to(sample({4096, 256}, 1), Device::cuda());
    const std::vector<Tensor> expected = gradients_of(plain(model, x, false));
    for (int call = 0; call < 8; ++call)  // everything is where it was
      check_same(gradients_of(offloads(model, x, true)), expected);
    const Explanation kept = explain(plain, model, x, false), gone = explain(offloads, model, x, true);
    CHECK(std::ranges::count(kept.memory.steps, "offload") == 0);
    CHECK(std::ranges::count(gone.memory.steps, "offload") >= 2 * 9);
    CHECK(gone.arena_bytes * 10 < kept.arena_bytes * 6);
  }
}

TEST_CASE("cuda: several threads call a step whose values wait in the host's memory") {
  const test::KeepOptions keep;
  const Stack model = model_there();
  const auto plain = compile(train), offloads = compile(train);
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> expected;
  for (std::uint64_t i = 0; i < 3; ++i) {
    inputs.push_back(to(sample({2048, 256}, i), Device::cuda()).eval());
    expected.push_back(gradients_of(plain(model, inputs.back(), false)));
  }
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    options().cuda_graphs = graphs;
    for (const bool is_offloaded : {false, true}) {  // where both fail it is not the copies
      CAPTURE(is_offloaded);
      std::vector<std::vector<Tensor>> made(inputs.size());
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < made.size(); ++i)
        threads.emplace_back([&, i] {
          for (int call = 0; call < 10; ++call)
            made[i] = gradients_of((is_offloaded ? offloads : plain)(model, inputs[i], is_offloaded));
        });
      for (std::thread& thread : threads) thread.join();
      for (std::size_t i = 0; i < made.size(); ++i) check_same(made[i], expected[i]);
    }
  }
}

TEST_CASE("cuda: what waits in the host's memory follows sizes that change") {
  const test::KeepOptions keep;
  const Stack model = model_there();
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    options().cuda_graphs = graphs;
    const auto plain = compile(train), offloads = compile(train);
    for (const int rows : {1024, 1536, 4096, 512, 2048}) {
      CAPTURE(rows);
      const Tensor x = to(sample({rows, 256}, 1), Device::cuda());
      for (int call = 0; call < 4; ++call)
        check_same(gradients_of(offloads(model, x, true)), gradients_of(plain(model, x, false)));
    }
  }
}

TEST_CASE("cuda: after a call that has failed the next one is right") {
  const Stack model = model_there();
  const Tensor table = to(sample({512, 256}, 4), Device::cuda()).eval();
  const auto of_rows = [](const Stack& m, const Tensor& table, const Tensor& rows, bool offloads) {
    return train(m, gather(table, rows), offloads);
  };
  const auto plain = compile(of_rows), offloads = compile(of_rows);
  const auto rows = [](std::int64_t last) {
    return to(concat({zeros({2047}, {DType::i64}), full({1}, static_cast<double>(last), {DType::i64})}, 0),
              Device::cuda());
  };
  for (int call = 0; call < 4; ++call) {
    CHECK_THROWS_AS(to(offloads(model, table, rows(512), true).value, Device::cpu()).item(), Error);
    check_same(gradients_of(offloads(model, table, rows(call), true)),
               gradients_of(plain(model, table, rows(call), false)));
  }
}

TEST_CASE("cuda: eagerly and in a split step an offloaded function is the function") {
  const Stack model = model_there();
  const Tensor x = to(sample({512, 256}, 1), Device::cuda());
  check_same(gradients_of(train(model, x, true)), gradients_of(train(model, x, false)));
}
TEST_SUITE_END();
