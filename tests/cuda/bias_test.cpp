// A layer's bias on a device is added before the sum of products is rounded: of sizes and rows that are no multiples of
// 16 bytes, of memory that begins anywhere, and of sizes that are not known. Skipped without a GPU.
#include <doctest/doctest.h>

#include <tuple>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

// Against sums in f64. Products of row 0 cancel with the bias but for what rounding takes from them, so there a product
// that was rounded too early leaves nothing right.
template <class F>
void check_rounds_once(F f, const Operands& operands, const CompileOptions& how = {}) {
  const double unit = unit_of(operands[0].dtype());
  Operands wide;
  for (const Tensor& each : operands) wide.push_back(cast(to(each, Device::cpu()), DType::f64).eval());
  const Tensor right = f(wide);
  // 2e-3 is more than what f32 loses in the sum, and less than half a unit in the last place of most products.
  const Tensor allowed = abs(right) * unit + 2e-3;
  const auto compiled = compile(f, how);
  const auto excess = [&](const Tensor& found) {
    return amax(abs(cast(to(found, Device::cpu()), DType::f64) - right) - allowed).item<double>();
  };
  for (int call = 0; call < 3; ++call) CHECK(excess(compiled(operands)) <= 0);
  CHECK(excess(f(operands)) <= 0);
}

// x, weights, and a bias of minus the first row of the product.
Operands layer_of(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype) {
  const Tensor x = there({m, k}, 1, dtype), weights = there({n, k}, 2, dtype);
  const auto wide = [](const Tensor& of) { return cast(to(of, Device::cpu()), DType::f64); };
  const Tensor bias = cast(-matmul(wide(weights), wide(x)[0]), dtype);
  return {x, weights, to(bias, Device::cuda()).eval()};
}
// The same values from element 1 of longer memory on.
Operands moved(const Operands& of) {
  Operands all;
  for (const Tensor& each : of)
    all.push_back(concat({zeros({1}, {each.dtype(), each.device()}), flatten(each)}).eval());
  return all;
}

Tensor plain(const Operands& x) { return nn::linear(x[0], x[1], x[2]); }
Tensor by_columns(const Operands& x) { return nn::linear(x[0], transpose(x[1]), x[2]); }
Tensor from_second_element(const Operands& x) {
  const auto part = [&](std::size_t i) { return slice(x[i], 0, 1, x[i].size(0)); };
  const Dim n = x[2].size(0) - 1, k = (x[1].size(0) - 1) / n, m = (x[0].size(0) - 1) / k;
  return nn::linear(reshape(part(0), {m, k}), reshape(part(1), {n, k}), part(2));
}
// Rows are further apart than they are long.
Tensor of_columns(const Operands& x) {
  const auto part = [&](std::size_t i) { return slice(x[i], 1, 0, x[i].size(1) - 5); };
  return nn::linear(part(0), part(1), x[2]);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: a bias is added before the sum is rounded, of any sizes, known and not, and wherever memory begins") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, k, n] : {std::tuple(9, 1025, 1025), std::tuple(14, 1025, 3), std::tuple(6, 1536, 747),
                                  std::tuple(129, 1025, 127), std::tuple(13, 1025, 1153), std::tuple(64, 512, 1021),
                                  std::tuple(130, 1000, 512), std::tuple(16, 2048, 1024)}) {
      CAPTURE(info(dtype).name);
      CAPTURE(m);
      CAPTURE(k);
      CAPTURE(n);
      const Operands layer = layer_of(m, k, n, dtype);
      check_rounds_once(plain, layer);
      check_rounds_once(plain, layer, {.dynamic = true});
      check_rounds_once(by_columns, {layer[0], transpose(layer[1]).eval(), layer[2]});
      check_rounds_once(from_second_element, moved(layer));
      check_rounds_once(of_columns, {concat({layer[0], slice(layer[0], 1, 0, 5)}, 1).eval(),
                                     concat({layer[1], slice(layer[1], 1, 0, 5)}, 1).eval(), layer[2]});
    }
}

TEST_SUITE_END();
