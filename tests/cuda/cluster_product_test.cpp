// Products of 17 to 64 rows by clusters: odd sizes, parts of matrices, a bias, GELU, and weights that are read before
// the kernel in front has ended. Skipped without a Hopper GPU.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

constexpr const char* by = "in clusters";

Tensor weights(std::int64_t n, std::int64_t k, std::uint64_t seed, DType dtype) {
  return (there({n, k}, seed, dtype) * 0.05).eval();
}

struct Weights {
  Tensor first, second;
  WEFT_MEMBERS(first, second)
};

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_hopper_device));

TEST_CASE("cuda: products by clusters, of odd sizes") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] : {std::tuple(64, 2304, 768), std::tuple(64, 768, 768), std::tuple(64, 3072, 768),
                                  std::tuple(64, 768, 3072), std::tuple(17, 64, 128), std::tuple(33, 1000, 1000),
                                  std::tuple(63, 136, 3584), std::tuple(50, 4096, 1032), std::tuple(18, 3000, 264)}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      const Tensor x = there({m, k}, 1, dtype), w = weights(n, k, 2, dtype), bias = there({n}, 3, dtype);
      check_product([](const Operands& x) { return matmul(x[0], transpose(x[1])); }, {x, w}, by);
      check_product([](const Operands& x) { return nn::linear(x[0], x[1], x[2]); }, {x, w, bias}, by);
    }
}

TEST_CASE("cuda: products by clusters, of each number of rows") {
  for (std::int64_t m = 17; m <= 64; m += m % 8 == 1 ? 3 : 4) {
    CAPTURE(m);
    check_product([](const Operands& x) { return nn::linear(x[0], x[1], x[2]); },
                  {there({m, 328}, 1, DType::bf16), weights(200, 328, 2, DType::bf16), there({200}, 3, DType::bf16)},
                  by);
  }
}

// What the library does: fewer and more rows, columns that are no multiple of 8, k that no cluster has room for.
TEST_CASE("cuda: products that are not by clusters") {
  for (const auto& [m, n, k] : {std::tuple(16, 768, 768), std::tuple(65, 768, 768), std::tuple(40, 772, 768),
                                std::tuple(40, 768, 772), std::tuple(40, 768, 4096)}) {
    CAPTURE(m);
    const auto compiled = compile([](const Operands& x) { return matmul(x[0], transpose(x[1])); });
    const Operands operands{there({m, k}, 1, DType::bf16), weights(n, k, 2, DType::bf16)};
    CHECK(explain(compiled, operands).schedule.find(by) == std::string::npos);
  }
}

TEST_CASE("cuda: a product by clusters of a matrix that was just written, with itself") {
  check_product(
      [](const Operands& x) {
        const Tensor twice = x[0] * 2;
        return matmul(twice, transpose(twice));
      },
      {there({64, 776}, 4, DType::bf16)}, by);
}

TEST_CASE("cuda: products by clusters of parts of matrices") {
  const Tensor x = there({40, 1040}, 4, DType::bf16), w = weights(500, 1040, 5, DType::bf16);
  check_product(
      [](const Operands& x) {
        return matmul(slice(x[0], 1, 8, 1032), transpose(slice(slice(x[1], 1, 16, 1040), 0, 4, 500)));
      },
      {x, w}, by);
}

// The product is rounded, and GELU of that once more. Against the two as kernels of their own, bit by bit where the
// library's product has the same bits; so within the roundings of both.
TEST_CASE("cuda: GELU by tanh is the end of a product by clusters") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] : {std::tuple(64, 3072, 768), std::tuple(21, 1000, 520)}) {
      CAPTURE(n);
      const Operands operands{there({m, k}, 1, dtype), weights(n, k, 2, dtype), there({n}, 3, dtype)};
      const auto f = [](const Operands& x) { return gelu(nn::linear(x[0], x[1], x[2]), Gelu::tanh); };
      check_product(f, operands, "in clusters");
      const auto compiled = compile(f);
      CHECK(explain(compiled, operands).schedule.find("and GELU by") != std::string::npos);
      // Where the product is a result too, GELU is a kernel of its own, and gives the same bits.
      const auto both = compile([](const Operands& x) {
        const Tensor product = nn::linear(x[0], x[1], x[2]);
        return std::vector<Tensor>{product, gelu(product, Gelu::tanh)};
      });
      const std::vector<Tensor> apart = both(operands);
      CHECK(explain(both, operands).schedule.find("and GELU by") == std::string::npos);
      const Tensor wide = cast(apart[1], DType::f32);
      CHECK(amax(abs(cast(compiled(operands), DType::f32) - wide)).item() <= unit_of(dtype) * amax(abs(wide)).item());
    }
}

TEST_CASE("cuda: products by clusters read weights early that the call before has written") {
  const test::KeepOptions keep;
  const Tensor x = there({40, 1024}, 7, DType::bf16);
  const auto run = [&](bool dependent, bool graphs) {
    options().cuda_dependent_launch = dependent;
    options().cuda_graphs = graphs;
    Weights model{weights(1024, 1024, 8, DType::bf16), weights(1024, 1024, 9, DType::bf16)};
    auto step = compile([](Weights& w, const Tensor& input) {
      Tensor h = tanh(input);
      for (int i = 0; i < 4; ++i) h = tanh(matmul(tanh(matmul(h, transpose(w.first))), transpose(w.second)));
      w.first = w.first * 0.98 + 0.02 * slice(h, 0, 0, 1);
      w.second = w.second * 0.98 - 0.02 * slice(h, 0, 1, 2);
      return h;
    });
    std::vector<Tensor> all;
    for (int i = 0; i < 100; ++i) all.push_back(step(model, x));
    CHECK(explain(step, model, x).schedule.find(by) != std::string::npos);
    for (Tensor& each : all) each = to(each, Device::cpu());
    return all;
  };
  const std::vector<Tensor> expected = run(false, false);
  REQUIRE(!all(expected[0] == expected[99]).item<bool>());
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    const std::vector<Tensor> found = run(true, graphs);
    int different = 0;
    for (std::size_t i = 0; i < found.size(); ++i) different += !all(found[i] == expected[i]).item<bool>();
    CHECK(different == 0);
  }
}

// Each thread has its own stream.
TEST_CASE("cuda: products by clusters of several threads at once") {
  const test::KeepOptions keep;
  const auto f = [](const Operands& x) {
    return matmul(gelu(nn::linear(x[0], x[1], x[2]), Gelu::tanh), transpose(x[3]));
  };
  const auto compiled = compile(f);
  const Tensor up = weights(3072, 768, 1, DType::bf16), bias = there({3072}, 2, DType::bf16),
               down = weights(768, 3072, 3, DType::bf16);
  for (const bool graphs : {false, true}) {
    options().cuda_graphs = graphs;
    constexpr std::size_t count = 4;
    std::array<Operands, count> operands;
    std::vector<Tensor> expected;
    std::array<std::vector<Tensor>, count> made;
    for (std::size_t t = 0; t < count; ++t) {
      operands[t] = {there({40, 768}, 4 + t, DType::bf16), up, bias, down};
      made[t].resize(100);
      expected.push_back(compiled(operands[t]).eval());
    }
    CHECK(explain(compiled, operands[0]).schedule.find(by) != std::string::npos);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        for (Tensor& each : made[t]) each = compiled(operands[t]).eval();
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t t = 0; t < count; ++t)
      for (const Tensor& each : made[t]) CHECK(all(each == expected[t]).item<bool>());
  }
}

TEST_SUITE_END();
