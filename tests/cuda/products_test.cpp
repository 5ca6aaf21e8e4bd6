// Products on a CUDA device whose kernels are timed (Level::O3): what the host gives, in the first call and in those
// that are replayed; the choice is found on disk. Skipped without a GPU.
#include <doctest/doctest.h>

#include "base/log.hpp"
#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: at the level of timed kernels a layer and its gradients are what the host gives") {
  const auto f = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    auto [loss, gradients] = value_and_grad(
        [](const std::vector<Tensor>& all) { return mean(square(gelu(nn::linear(all[0], all[1], all[2])))); },
        std::vector<Tensor>{x, w, b});
    return gradients;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(info(dtype).name);
    const Tensor x = cast(sample({512, 256}, 1), dtype).eval(), w = cast(sample({384, 256}, 2) / 16, dtype).eval(),
                 b = cast(sample({384}, 3), dtype).eval();
    const std::vector<Tensor> expected = f(x, w, b);
    const auto g = compile(f, {.level = Level::O3});
    const auto there = [](const Tensor& value) { return to(value, Device::cuda()); };
    for (int call = 0; call < 4; ++call) {
      const std::vector<Tensor> found = g(there(x), there(w), there(b));
      for (std::size_t i = 0; i < found.size(); ++i) {
        const Tensor here = cast(to(found[i], Device::cpu()), DType::f64), right = cast(expected[i], DType::f64);
        const double bound = (dtype == DType::f32 ? 1e-5 : 2e-2) * amax(abs(right)).item();
        CHECK(amax(abs(here - right)).item() < bound);
      }
    }
  }
}

TEST_CASE("cuda: the fastest of a library's kernels is said, and kept on disk for the next process") {
  std::string lines;
  logging::set_sink([](void* all, std::string_view line) { *static_cast<std::string*>(all) += line; }, &lines);
  logging::set_channels("kernels");
  const Tensor a = cast(to(sample({1000, 264}, 4), Device::cuda()), DType::bf16).eval(),
               b = cast(to(sample({264, 520}, 5), Device::cuda()), DType::bf16).eval();
  const auto f = [](const Tensor& x, const Tensor& y) { return matmul(x, y); };
  const Tensor timed = compile(f, {.level = Level::O3})(a, b).eval(), plain = compile(f)(a, b).eval();
  logging::set_channels("");
  logging::set_sink(nullptr, nullptr);
  CHECK(lines.find("cuBLASLt, bf16 [520,264] by [264,1000], by columns: kernel ") != std::string::npos);
  const Tensor apart = cast(timed, DType::f32) - cast(plain, DType::f32);
  CHECK(amax(abs(apart)).item<float>() <= 0.02F * amax(abs(cast(plain, DType::f32))).item<float>());
}
