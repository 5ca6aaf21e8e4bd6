// Products and convolutions on a CUDA device whose kernels are timed (Level::O3): what the host gives, in the first
// call and in those that are replayed; the choice is said. Skipped without a GPU.
#include <doctest/doctest.h>

#include "base/log.hpp"
#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

namespace {

// The gradients of f by its arguments are those that the host gives.
template <class F>
void check_gradients(F, const std::vector<Tensor>& arguments, double bound) {
  const auto gradients = [](const std::vector<Tensor>& all) {
    return grad([](const std::vector<Tensor>& x) { return mean(square(F()(x))); }, all);
  };
  const std::vector<Tensor> expected = gradients(arguments);
  std::vector<Tensor> there;
  for (const Tensor& each : arguments) there.push_back(to(each, Device::cuda()));
  const auto timed = compile(gradients, {.level = Level::O3});
  for (int call = 0; call < 4; ++call) {
    const std::vector<Tensor> found = timed(there);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Tensor here = cast(to(found[i], Device::cpu()), DType::f64), right = cast(expected[i], DType::f64);
      CHECK(amax(abs(here - right)).item() < bound * amax(abs(right)).item());
    }
  }
}

}  // namespace

TEST_CASE("cuda: at the level of timed kernels gradients of a layer and of a convolution are what the host gives") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(info(dtype).name);
    const double bound = dtype == DType::f32 ? 1e-4 : 2e-2;
    const auto values = [&](const Sizes& sizes, std::uint64_t seed) { return cast(sample(sizes, seed), dtype).eval(); };
    check_gradients([](const std::vector<Tensor>& x) { return gelu(nn::linear(x[0], x[1] / 16, x[2])); },
                    {values({512, 256}, 1), values({384, 256}, 2), values({384}, 3)}, bound);
    check_gradients([](const std::vector<Tensor>& x) { return nn::conv2d(x[0], x[1] / 16, {.padding = 1}); },
                    {values({4, 16, 14, 14}, 4), values({32, 16, 3, 3}, 5)}, bound);
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
