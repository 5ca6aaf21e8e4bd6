// What follows a convolution in its launch: against the host, of the same numbers in f32, and beside both steps by
// themselves. Skipped without a GPU.
#include <doctest/doctest.h>

#include <cmath>

#include "base/options.hpp"
#include "tests/cuda/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using cuda_test::a_device;
using cuda_test::sample;

namespace {

using Operands = std::vector<Tensor>;

// The norm of the difference from the host's numbers, as a share of theirs.
double apart(const Tensor& found, const Tensor& right) {
  const Tensor numbers = cast(to(found, Device::cpu()), DType::f32);
  return sqrt(sum(square(numbers - right))).item() / sqrt(sum(square(right))).item();
}

// x, weights, a number a channel, an image, a second one with its weights. All with their channels last, as a
// convolution before and after makes them lie.
Operands operands(std::int64_t channels, std::int64_t side, DType dtype) {
  const auto scaled = [&](const Sizes& sizes, std::uint64_t seed, double scale) {
    return to(cast(sample(sizes, seed) * scale, dtype), Device::cuda()).eval();
  };
  const double share = 1 / std::sqrt(9.0 * double(channels));
  return {scaled({3, channels, side, side}, 1, 1), scaled({channels, channels, 3, 3}, 2, share),
          scaled({channels}, 3, 1), scaled({channels, channels, 1, 1}, 4, 3 * share),
          scaled({channels, channels, 3, 3}, 5, share)};
}
Tensor first(const Operands& x) { return conv2d(x[0], x[3]); }
Tensor convolved(const Operands& x) { return conv2d(first(x), x[1], {.padding = 1}); }
Tensor biased(const Operands& x) { return conv2d(first(x), x[1], x[2], {.padding = 1}); }
Tensor last(const Operands& x, const Tensor& image) { return conv2d(image, x[4], {.stride = 2, .padding = 1}); }
Tensor channels_of(const Operands& x) { return reshape(x[2], {1, x[2].size(0), 1, 1}); }

template <class F>
void check_followed(F f) {
  const test::KeepOptions keep;
  for (const auto& [dtype, channels, side] :
       {std::tuple(DType::bf16, 64, 14), std::tuple(DType::f16, 64, 14), std::tuple(DType::bf16, 128, 9)}) {
    CAPTURE(info(dtype).name);
    CAPTURE(channels);
    const Operands x = operands(channels, side, dtype);
    Operands host;
    for (const Tensor& each : x) host.push_back(cast(to(each, Device::cpu()), DType::f32).eval());
    const Tensor right = f(host).eval();
    options().convolution_epilogues = 1;
    const auto together = compile(f, {.on_compile_error = OnFailure::raise});
    options().convolution_epilogues = 0;
    const auto apart_of = compile(f, {.on_compile_error = OnFailure::raise});
    const double two_steps = apart(apart_of(x), right);
    options().convolution_epilogues = 1;
    for (int call = 0; call < 4; ++call) {
      const double one_step = apart(together(x), right);
      CAPTURE(one_step);
      CAPTURE(two_steps);
      CHECK(one_step <= (dtype == DType::bf16 ? 0x1p-7 : 0x1p-10));
      CHECK(one_step <= 1.05 * two_steps);  // it rounds less
    }
    const std::string schedule = explain(together, x).schedule;
    CAPTURE(schedule);
    CHECK(schedule.find(", and ") != std::string::npos);
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("a bias and an activation are part of the convolution before them") {
  check_followed([](const Operands& x) { return last(x, relu(biased(x))); });
  check_followed([](const Operands& x) { return last(x, relu(convolved(x) + channels_of(x))); });
  check_followed([](const Operands& x) { return last(x, silu(biased(x))); });
  check_followed([](const Operands& x) { return last(x, gelu(biased(x), Gelu::tanh)); });
  check_followed([](const Operands& x) { return last(x, gelu(biased(x))); });
}

TEST_CASE("a residual is part of the convolution before it") {
  check_followed([](const Operands& x) { return last(x, relu(biased(x) + first(x))); });
  check_followed([](const Operands& x) { return last(x, relu(convolved(x) + first(x))); });
  check_followed([](const Operands& x) { return last(x, biased(x) + first(x)); });
}

TEST_CASE("without the variable cuDNN does so where libraries are timed") {
  const Operands x = operands(64, 14, DType::bf16);
  const auto f = [](const Operands& x) { return last(x, relu(biased(x))); };
  const auto schedule_with = [&](CompileMode mode) { return explain(compile(f, {.mode = mode}), x).schedule; };
  CHECK(schedule_with(CompileMode::automatic).find(", and ") == std::string::npos);
  CHECK(schedule_with(CompileMode::max_autotune).find(", and ") != std::string::npos);
}

TEST_CASE("what is not a number stays none in the launch of a convolution") {
  const test::KeepOptions keep;
  options().convolution_epilogues = 1;
  const Operands x = operands(64, 14, DType::bf16);
  const auto f = compile([](const Operands& x) { return last(x, relu(biased(x))); });
  Operands poisoned = x;
  poisoned[2] = full_like(x[2], std::nan("")).eval();
  CHECK(all(isnan(f(poisoned))).item<bool>());
}

TEST_SUITE_END();
