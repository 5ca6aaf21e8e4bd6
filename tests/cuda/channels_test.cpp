// Reductions over the images and pixels of each channel on a CUDA device, rows that are several runs: against the host
// in f64, and the same bits in each run.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/nn.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

using Tensors = std::vector<Tensor>;

// Of x, the weight and the bias: the norm's result where `given` is positive, what the running values become, the
// gradients.
Tensors norm_in_training(const Tensors& operands, const Tensor& given) {
  const auto [value, gradients] = value_and_grad(
      [&](const Tensors& p) {
        Tensor mean = stop_gradient(p[1] * 0), variance = stop_gradient(p[1] * 0 + 1);
        const Tensor result = where(given > 0, nn::batch_norm(p[0], mean, variance, p[1], p[2], true), 0);
        return std::pair(sum(result * given), Tensors{result, mean, variance});
      },
      operands);
  Tensors all = value.second;
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

Tensors each(const Tensors& tensors, auto f) {
  Tensors made;
  for (const Tensor& tensor : tensors) made.push_back(f(tensor).eval());
  return made;
}

void check(const std::vector<std::int64_t>& sizes, DType dtype, double most) {
  const std::int64_t channels = sizes[1];
  const Tensor given = cast(sample(sizes, 4), dtype).eval();
  const Tensors here{cast(sample(sizes, 1) + 0.5, dtype).eval(), (sample({channels}, 2) + 2).eval(),
                     sample({channels}, 3)};
  const auto wide = [](const Tensor& tensor) { return cast(tensor, DType::f64); };
  const auto there = [](const Tensor& tensor) { return to(tensor, Device::cuda()); };
  const Tensors expected = norm_in_training(each(here, wide), wide(given));
  auto compiled = compile(norm_in_training);
  const Tensors on_device = each(here, there);
  const Tensor given_there = there(given);
  const Tensors first = compiled(on_device, given_there);
  REQUIRE(first.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    const Tensor is = wide(to(first[i], Device::cpu()));
    CHECK(max(abs(is - expected[i])).item() <= most * max(abs(expected[i])).item());
  }
  for (int run = 0; run < 4; ++run) {  // from the third on as a graph
    const Tensors again = compiled(on_device, given_there);
    for (std::size_t i = 0; i < again.size(); ++i) CHECK(all(again[i] == first[i]).item<bool>());
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE(
    "cuda: a batch norm in training and its gradients are those of the host in f64, with the same bits each run") {
  // Packs of 4 elements and of 1; of 8, from memory and in registers; few channels, which blocks share: of 16 images,
  // of 5, of one.
  const std::vector<std::int64_t> shapes[] = {{8, 300, 14, 14}, {64, 520, 7, 7},  {16, 140, 56, 56}, {4, 600, 16, 16},
                                              {16, 4, 56, 56},  {5, 3, 120, 130}, {1, 3, 300, 301}};
  for (const std::vector<std::int64_t>& sizes : shapes) {
    CAPTURE(sizes[1]);
    CAPTURE(sizes[3]);
    check(sizes, DType::f32, 1e-5);
    check(sizes, DType::bf16, 1e-2);
  }
}

TEST_SUITE_END();
