// Products of few rows with many weights by our own kernel: odd sizes, parts of matrices, a bias, f32 results, blocks
// that share k, and weights that are read before the kernel in front has ended. Skipped without a GPU.
#include <doctest/doctest.h>

#include <string>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

std::string few_rows_device() {
  std::string why = a_device();
  if (why.empty() && !runtime::cuda::use(Device::cuda()).has(DeviceInstruction::bulk_copy))
    why = "the kernel is for sm_90 and later";
  return why;
}

struct Weights {
  Tensor first, second;
  WEFT_MEMBERS(first, second)
};

constexpr const char* by = "few rows";

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(few_rows_device));

TEST_CASE("cuda: products of few rows, of odd sizes, of long and short rows") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] : {std::tuple(2, 4096, 1024), std::tuple(3, 4099, 1032), std::tuple(8, 2048, 2048),
                                  std::tuple(9, 3072, 2056), std::tuple(16, 2048, 8192), std::tuple(13, 1031, 4104),
                                  std::tuple(16, 1500, 4096), std::tuple(7, 301, 14336), std::tuple(16, 40000, 1024)}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      const Tensor x = there({m, k}, 1, dtype), w = (there({n, k}, 2, dtype) * 0.05).eval(),
                   bias = there({n}, 3, dtype);
      check_product([](const Operands& x) { return matmul(x[0], transpose(x[1])); }, {x, w}, by);
      check_product([](const Operands& x) { return nn::linear(x[0], x[1], x[2]); }, {x, w, bias}, by);
    }
}

TEST_CASE("cuda: products of few rows of parts of matrices, and of a batch of single rows") {
  const Tensor x = there({6, 2064}, 4, DType::bf16), w = there({3000, 2064}, 5, DType::bf16);
  check_product([](const Operands& x) { return matmul(slice(x[0], 1, 8, 2056), transpose(slice(x[1], 1, 16, 2064))); },
                {x, w}, by);
  const Tensor rows = there({12, 1, 2064}, 6, DType::bf16);
  check_product([](const Operands& x) { return matmul(x[0], transpose(x[1])); }, {rows, w}, by);
  // Of columns from 3 on no row begins at a multiple of 16 bytes: a copy, or the library.
  const auto compiled = compile(
      [](const Tensor& x, const Tensor& w) { return matmul(slice(x, 1, 3, 2051), transpose(slice(w, 1, 3, 2051))); });
  const Tensor right =
      matmul(cast(slice(x, 1, 3, 2051), DType::f32), transpose(cast(slice(w, 1, 3, 2051), DType::f32)));
  CHECK(amax(abs(cast(compiled(x, w), DType::f32) - right)).item() <= amax(abs(right)).item() / 256);
}

// Each of a list against f32 on the device, and how many steps do products of few rows.
template <class F>
void check_together(F f, const Operands& operands, int steps, const char* text) {
  const test::KeepOptions keep;
  options().own_kernels = 2;
  const auto compiled = compile(f);
  Operands wide;
  for (const Tensor& each : operands) wide.push_back(cast(each, DType::f32).eval());
  const std::vector<Tensor> right = f(wide), found = compiled(operands);
  REQUIRE(found.size() == right.size());
  const double unit = operands[0].dtype() == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  for (std::size_t i = 0; i < right.size(); ++i) {
    CAPTURE(i);
    CHECK(amax(abs(cast(found[i], DType::f32) - right[i])).item() <= 3 * unit * amax(abs(right[i])).item());
  }
  const std::string schedule = explain(compiled, operands).schedule;
  int count = 0;
  for (std::size_t at = 0; (at = schedule.find("few rows", at)) != std::string::npos; ++at) ++count;
  CHECK(count == steps);
  CHECK_MESSAGE(schedule.find(text) != std::string::npos, schedule);
}

TEST_CASE("cuda: products of the same few rows are one launch") {
  for (const auto& [m, k] : {std::pair(16, 2048), std::pair(5, 1032), std::pair(3, 8192)}) {
    CAPTURE(k);
    const auto weights = [k = k](std::int64_t n, std::uint64_t seed) {
      return (there({n, k}, seed, DType::bf16) * 0.05).eval();
    };
    const Operands three{there({m, k}, 1, DType::bf16), weights(4099, 2), weights(4104, 3), weights(5000, 4),
                         there({5000}, 5, DType::bf16)};
    check_together(
        [](const Operands& x) {
          return std::vector<Tensor>{matmul(x[0], transpose(x[1])), matmul(x[0], transpose(x[2])),
                                     nn::linear(x[0], x[3], x[4])};
        },
        three, 1, "4099], [");
    // Of other rows than those.
    check_together(
        [](const Operands& x) {
          const Tensor first = matmul(x[0], transpose(x[1]));
          return std::vector<Tensor>{first, matmul(tanh(x[0]), transpose(x[2]))};
        },
        three, 2, "");
  }
}

TEST_CASE("cuda: of two products of few rows one gates the other") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t m : {16, 2}) {
      const Operands operands{there({m, 2048}, 1, dtype), (there({4101, 2048}, 2, dtype) * 0.05).eval(),
                              (there({4101, 2048}, 3, dtype) * 0.05).eval()};
      check_together(
          [](const Operands& x) {
            return std::vector<Tensor>{silu(matmul(x[0], transpose(x[1]))) * matmul(x[0], transpose(x[2]))};
          },
          operands, 1, "gated");
      check_together(
          [](const Operands& x) {
            const Tensor up = matmul(x[0], transpose(x[2]));
            return std::vector<Tensor>{up * silu(matmul(x[0], transpose(x[1])))};
          },
          operands, 1, "gated");
      check_together(
          [](const Operands& x) {
            const Tensor up = matmul(x[0], transpose(x[2]));
            return std::vector<Tensor>{up * silu(matmul(x[0], transpose(x[1]))), up};
          },
          operands, 1, "few rows");
    }
}

TEST_CASE("cuda: products of few rows read weights early that the call before has written") {
  const test::KeepOptions keep;
  options().own_kernels = 2;
  const Tensor x = there({4, 4096}, 7, DType::bf16);
  const auto run = [&](bool dependent, bool graphs) {
    options().cuda_dependent_launch = dependent;
    options().cuda_graphs = graphs;
    const auto weights = [](std::uint64_t seed) { return (there({4096, 4096}, seed, DType::bf16) * 0.05).eval(); };
    Weights model{weights(8), weights(9)};
    auto step = compile([](Weights& w, const Tensor& input) {
      Tensor h = tanh(input);
      for (int i = 0; i < 4; ++i) h = tanh(matmul(tanh(matmul(h, transpose(w.first))), transpose(w.second)));
      w.first = w.first * 0.98 + 0.02 * slice(h, 0, 0, 1);
      w.second = w.second * 0.98 - 0.02 * slice(h, 0, 1, 2);
      return h;
    });
    std::vector<Tensor> all;
    for (int i = 0; i < 100; ++i) all.push_back(step(model, x));
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

TEST_SUITE_END();
