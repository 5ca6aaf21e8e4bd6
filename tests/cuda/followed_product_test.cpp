// Products and the pointwise kernels that read them in one launch: every kind of epilogue against the host and against
// the library and the kernel one after the other; odd sizes, products that are kept, gradients, plans from disk.
// Skipped without a GPU that the kernel is written for.
#include <doctest/doctest.h>

#include <string>

#include "base/options.hpp"
#include "tests/cuda/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

std::string hopper() {
  std::string why = a_device();
  if (why.empty() && runtime::cuda::use(Device::cuda()).major != 9) why = "the kernel is for sm_90a";
  return why;
}

using Operands = std::vector<Tensor>;

Tensor there(const Sizes& sizes, std::uint64_t seed, DType dtype, double scale = 1) {
  return cast(to(sample(sizes, seed), Device::cuda()) * scale, dtype).eval();
}

// The same bits as in two launches, in every call, and near what the host gives for the same numbers.
template <class F>
void check_followed(F f, const Operands& operands, const char* kept = nullptr) {
  const test::KeepOptions keep;
  options().tensor_cores = 0;
  const auto apart = compile(f);
  const std::vector<Tensor> expected = apart(operands);
  for (const Tensor& each : expected) each.eval();
  options().tensor_cores = 2;
  const auto together = compile(f);
  Operands host;
  for (const Tensor& each : operands) host.push_back(to(each, Device::cpu()).eval());
  const std::vector<Tensor> right = compile(f)(host);
  for (int call = 0; call < 3; ++call) {
    const std::vector<Tensor> found = together(operands);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      const Tensor wide = cast(found[i], DType::f32), reference = cast(expected[i], DType::f32);
      const double most = amax(abs(reference)).item();
      CHECK(amax(abs(wide - reference)).item() <= most / 128);
      const double from_host = amax(abs(to(wide, Device::cpu()) - cast(right[i], DType::f32))).item();
      CHECK(from_host <= most / 64);
    }
  }
  const std::string schedule = explain(together, operands).schedule;
  CHECK(schedule.find("by tensor cores") != std::string::npos);
  if (kept) CHECK((schedule.find(", kept") != std::string::npos) == (*kept == 'k'));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(hopper));

TEST_CASE("cuda: a product followed by pointwise operations is one launch, of odd sizes and both orders") {
  const auto all = [](Operands x) {
    const Tensor y = nn::linear(x[0], x[1], x[2]);
    return std::vector<Tensor>{gelu(y, Gelu::tanh)};
  };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] : {std::tuple(128, 256, 64), std::tuple(129, 264, 72), std::tuple(1000, 520, 200),
                                  std::tuple(257, 1000, 136), std::tuple(2048, 768, 3072), std::tuple(300, 4096, 64)}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      const Tensor a = there({m, k}, 1, dtype), w = there({n, k}, 2, dtype, 0.05), b = there({k, n}, 3, dtype, 0.05),
                   bias = there({n}, 4, dtype), residual = there({m, n}, 5, dtype);
      check_followed(all, {a, w, bias}, "not");
      check_followed(
          [](Operands x) {
            return std::vector<Tensor>{relu(matmul(x[0], x[1]) + x[2]), silu(matmul(x[0], x[1]))};
          },
          {a, b, bias});
      check_followed([](Operands x) { return std::vector<Tensor>{nn::linear(x[0], x[1], x[2]) + x[3]}; },
                     {a, w, bias, residual}, "not");
      check_followed([](Operands x) { return std::vector<Tensor>{silu(matmul(x[0], x[1])) * x[2]}; }, {a, b, residual},
                     "not");
      check_followed([](Operands x) { return std::vector<Tensor>{cast(matmul(x[0], x[1]), DType::f32) * 3.0}; }, {a, b},
                     "not");
      check_followed(
          [](Operands x) {
            const Tensor y = nn::linear(x[0], x[1], x[2]);
            return std::vector<Tensor>{y, gelu(y)};
          },
          {a, w, bias}, "kept");
    }
}

namespace {
Tensor mlp(const Operands& x) {
  const Tensor hidden = silu(matmul(x[0], x[1])) * matmul(x[0], x[2]);
  return matmul(hidden, x[3]) + x[0];
}
}  // namespace

TEST_CASE("cuda: a gated MLP and its gradients, of three axes, and with operands that begin anywhere") {
  const DType dtype = DType::bf16;
  const Operands given{there({4, 96, 256}, 1, dtype), there({256, 512}, 2, dtype, 0.05),
                       there({256, 512}, 3, dtype, 0.05), there({512, 256}, 4, dtype, 0.05)};
  check_followed([](Operands x) { return std::vector<Tensor>{mlp(x)}; }, given);
  check_followed(
      [](Operands x) { return weft::grad([](const Operands& p) { return sum(cast(mlp(p), DType::f32)); }, x); }, given);
  // A row of 520, of which the first elements are left out: nothing begins at 16 bytes.
  const Tensor a = there({260, 264}, 5, dtype), b = there({264, 512}, 6, dtype, 0.05);
  check_followed(
      [](Operands x) { return std::vector<Tensor>{gelu(matmul(slice(x[0], 1, 8, 264), slice(x[1], 0, 8, 264)))}; },
      {a, b});
}

TEST_SUITE_END();
