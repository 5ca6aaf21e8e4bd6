// Kernels that hold wide rows in shared memory can be launched: rows and columns reduced in one pass, where the packs
// that are fetched ahead and the memory of joins together are more than the 48 KB that need no consent.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct Gradients {
  Tensor x, weight, bias;
  WEFT_MEMBERS(x, weight, bias)
};
Gradients layer_norm_backward(const Gradients& at, const Tensor& residual) {
  return grad([&](const Gradients& p) { return sum(nn::layer_norm(p.x + residual, p.weight, p.bias) * residual); }, at);
}
Tensor log_softmax_backward(const Tensor& x, const Tensor& weight) {
  return grad([&](const Tensor& v) { return sum(log_softmax(v + weight) * weight); }, x);
}
struct Whole {
  Tensor rows, columns, upto;
  WEFT_MEMBERS(rows, columns, upto)
};
Whole of_integers(const Tensor& x) { return {sum(x, {1}), amax(x, {0}), cumsum(x, 1)}; }

std::vector<Tensor> of_two_heights(const Tensor& x, const Tensor& y, const Tensor& row) {
  return {sin(x) * row, sin(y) * row};
}

void close(const Tensor& there, const Tensor& here, double within) {
  const Tensor apart = cast(to(there, Device::cpu()), DType::f64) - cast(here, DType::f64);
  CHECK(amax(abs(apart)).item() <= within * (1 + amax(abs(cast(here, DType::f64))).item()));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: norms forward and backward of wide rows") {
  for (const auto& [rows, columns, dtype] : {std::tuple<int, int, DType>{255, 3001, DType::f32},
                                             {333, 3001, DType::f32},
                                             {255, 4096, DType::bf16},
                                             {2048, 4096, DType::bf16},
                                             {255, 4096, DType::f16}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const auto of = [&, dtype = dtype](const Sizes& sizes, std::uint64_t seed) {
      return cast(sample(sizes, seed), dtype);
    };
    const Gradients at{of({rows, columns}, 1), of({columns}, 2), of({columns}, 3)};
    const Tensor residual = of({rows, columns}, 4);
    const Gradients there{to(at.x, Device::cuda()), to(at.weight, Device::cuda()), to(at.bias, Device::cuda())};
    const Gradients wanted = layer_norm_backward(at, residual);
    const Gradients found = compile(layer_norm_backward)(there, to(residual, Device::cuda()));
    const double within = dtype == DType::f32 ? 1e-5 : 2e-2;
    close(found.x, wanted.x, within);
    close(found.weight, wanted.weight, within);
    close(found.bias, wanted.bias, within);
  }
}

TEST_CASE("cuda: kernels that differ in their first extent alone are one launch") {
  auto compiled = compile(of_two_heights);
  const Tensor x = sample({300, 64}, 1), y = sample({7, 64}, 2), row = sample({64}, 3);
  const Tensor x_there = to(x, Device::cuda()), y_there = to(y, Device::cuda()), row_there = to(row, Device::cuda());
  CHECK(explain(compiled, x_there, y_there, row_there).schedule.find("in one launch") != std::string::npos);
  const std::vector<Tensor> found = compiled(x_there, y_there, row_there), wanted = of_two_heights(x, y, row);
  for (std::size_t i = 0; i < 2; ++i) close(found[i], wanted[i], 1e-6);
}

TEST_CASE("cuda: log-softmax with its gradient, and integers, of wide rows") {
  for (const auto& [rows, columns] : {std::pair<int, int>{128, 3001}, {512, 3001}, {333, 5000}}) {
    const Tensor x = sample({rows, columns}, 5), weight = sample({columns}, 6);
    close(compile(log_softmax_backward)(to(x, Device::cuda()), to(weight, Device::cuda())),
          log_softmax_backward(x, weight), 1e-5);
  }
  const Tensor x = reshape(cast(remainder(arange(256 * 3001) * 7919, 1001), DType::i32), {256, 3001});
  const Whole wanted = of_integers(x), found = compile(of_integers)(to(x, Device::cuda()));
  CHECK(all(to(found.rows, Device::cpu()) == wanted.rows).item<bool>());
  CHECK(all(to(found.columns, Device::cpu()) == wanted.columns).item<bool>());
  CHECK(all(to(found.upto, Device::cpu()) == wanted.upto).item<bool>());
}

TEST_SUITE_END();
