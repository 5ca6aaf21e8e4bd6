// Products of 16-bit matrices by our own kernel for tensor cores: operands each way, sizes that are no multiples of a
// tile, a bias, operands that do not begin at a multiple of 16 bytes. Skipped without a GPU that has them.
#include <doctest/doctest.h>

#include <limits>
#include <tuple>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

constexpr const char* by = "tensor cores";

// Columns `first` on of matrices times a row, and times a column, with what is around them.
template <int first>
Operands vector_block(const Operands& x) {
  const Dim k = x[0].size(1);
  const auto part = [&](const Tensor& weights) { return slice(weights, 1, first, k + first); };
  const Tensor gate = matmul(x[0], transpose(part(x[1]))), up = matmul(x[0] * 2, transpose(part(x[2])));
  return {silu(gate) * up, matmul(part(x[1]), transpose(x[0])) + 1};
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_hopper_device));

TEST_CASE("cuda: products on tensor cores, of operands that lie each way, and of sizes that fill no tile") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] :
         {std::tuple(2048, 2048, 512), std::tuple(2000, 2040, 520), std::tuple(4096, 4096, 768)}) {
      CAPTURE(m);
      CAPTURE(info(dtype).name);
      const Tensor a = there({m, k}, 1, dtype), b = there({k, n}, 2, dtype), bt = there({n, k}, 3, dtype),
                   bias = there({n}, 4, dtype);
      check_product([](const Operands& x) { return matmul(x[0], x[1]); }, {a, b}, by);
      check_product([](const Operands& x) { return matmul(x[0], transpose(x[1], 0, 1)); }, {a, bt}, by);
      check_product([](const Operands& x) { return nn::linear(x[0], x[1], x[2]); }, {a, bt, bias}, by);
      check_product([](const Operands& x) { return gelu(nn::linear(x[0], x[1], x[2])); }, {a, bt, bias}, by);
    }
}

TEST_CASE("cuda: a product on tensor cores beside others, and of parts of matrices") {
  const bool smaller = test::under_device_tool();
  const Tensor a = there(smaller ? Sizes{384, 576} : Sizes{2048, 1024}, 5, DType::bf16),
               b = there(smaller ? Sizes{576, 768} : Sizes{1024, 4096}, 6, DType::bf16);
  // Two that may run side by side, and one that reads what both give.
  check_product(
      [](const Operands& x) {
        return matmul(matmul(x[0], x[1]) / 64, transpose(matmul(x[0] * 2, x[1]) / 64, 0, 1)) / 64;
      },
      {a, b}, by);
  // More tiles than a device has multiprocessors: a block does one after the other.
  if (smaller)
    check_product([](const Operands& x) { return matmul(x[0], x[1]); },
                  {there({1536, 128}, 9, DType::bf16), there({128, 3072}, 10, DType::bf16)}, by);
  // Some tiles more than multiprocessors: these are cut.
  if (!smaller)
    for (const auto& [m, n] : {std::pair(1416, 2824), std::pair(1536, 3072)})
      check_product([](const Operands& x) { return matmul(x[0], x[1]); },
                    {there({m, 4104}, 11, DType::bf16), there({4104, n}, 12, DType::bf16)}, " units");
  // Columns 8 to 520: rows are further apart than they are long.
  check_product([](const Operands& x) { return matmul(slice(x[0], 1, 8, 520), slice(x[1], 0, 8, 520)); }, {a, b}, by);
  const test::KeepOptions keep;
  options().own_kernels = 2;
  // From column 3 on nothing begins at a multiple of 16 bytes: a copy, or the library.
  const auto compiled =
      compile([](const Tensor& x, const Tensor& y) { return matmul(slice(x, 1, 3, 515), slice(y, 0, 3, 515)); });
  const Tensor right = matmul(cast(slice(a, 1, 3, 515), DType::f32), cast(slice(b, 0, 3, 515), DType::f32));
  CHECK(amax(abs(cast(compiled(a, b), DType::f32) - right)).item() <= amax(abs(right)).item() / 256);
}

TEST_CASE("cuda: the same product on tensor cores has the same bits, run after run") {
  const test::KeepOptions keep;
  options().own_kernels = 2;
  const Tensor a = there({2048, 2048}, 7, DType::bf16), b = there({2048, 2048}, 8, DType::bf16);
  const auto f = compile([](const Tensor& x, const Tensor& y) { return matmul(x, y); });
  const Tensor first = f(a, b).eval();
  for (int call = 0; call < 20; ++call) CHECK(all(f(a, b) == first).item<bool>());
}

TEST_CASE("cuda: a matrix times a vector, with what is around it, of rows that are whole packs and of others") {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    for (const auto& [n, k] : {std::pair(2048, 2048), {600, 8192}, {513, 512}, {700, 1000}, {40, 4096}, {3, 7}})
      for (const int first : {0, 3}) {  // from column 3 on no row begins at a multiple of 16 bytes
        CAPTURE(info(dtype).name);
        CAPTURE(n);
        CAPTURE(k);
        CAPTURE(first);
        const auto block = first ? vector_block<3> : vector_block<0>;
        const Operands operands{(there({1, k}, 1, dtype) * 0.05).eval(), there({n, k + 8}, 2, dtype),
                                there({n, k + 8}, 3, dtype)};
        const Operands results = compile(block)(operands), again = compile(block)(operands);
        Operands wide;
        for (const Tensor& each : operands) wide.push_back(cast(to(each, Device()), DType::f64).eval());
        const Operands right = block(wide);
        const double unit = dtype == DType::bf16 ? 1.0 / 64 : dtype == DType::f16 ? 1.0 / 512 : 1e-5;
        for (std::size_t i = 0; i < results.size(); ++i) {
          const Tensor apart = cast(to(results[i], Device()), DType::f64) - right[i];
          CHECK(amax(abs(apart)).item() <= amax(abs(right[i])).item() * unit);
          CHECK(all(results[i] == again[i]).item<bool>());
        }
      }
}

TEST_CASE("cuda: an operand that holds NaN and infinities gives them where the host does") {
  const test::KeepOptions keep;
  options().own_kernels = 2;
  Tensor a = there({2048, 512}, 9, DType::bf16), b = there({512, 2048}, 10, DType::bf16);
  a = where(a > 3.5, std::numeric_limits<double>::quiet_NaN(), a).eval();
  const auto f = compile([](const Tensor& x, const Tensor& y) { return matmul(x, y); });
  const Tensor found = isnan(f(a, b)), right = isnan(matmul(cast(a, DType::f32), cast(b, DType::f32)));
  CHECK(all(found == right).item<bool>());
  CHECK(any(right).item<bool>());
}
