// Random programs of bf16, f16 and f32 under autocast: elementwise functions, sums, products, casts. What
// Precision::fused leaves out of them are roundings, so it brings a program no farther from what f64 gives.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "weft/autocast.hpp"
#include "weft/compile.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

namespace weft::testing {

constexpr std::size_t mixed_arguments = 4;  // besides two matrices

struct MixedStep {
  std::uint32_t operation, a, b;  // of which values; those before 4 are arguments
};
// Of 4 to 12 steps, most on the last three values.
inline std::vector<MixedStep> mixed_program(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<MixedStep> steps(4 + random() % 9);
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const std::uint32_t count = mixed_arguments + i;
    const auto any = [&]() -> std::uint32_t {
      return random() % 3 ? count - 1 - static_cast<std::uint32_t>(random() % 3)
                          : static_cast<std::uint32_t>(random() % count);
    };
    const auto operation = static_cast<std::uint32_t>(random() % 20), a = any();
    steps[i] = {operation, a, any()};
  }
  return steps;
}

inline Tensor run_mixed(const std::vector<MixedStep>& steps, const std::vector<Tensor>& arguments, bool rounds) {
  std::vector<Tensor> values(arguments.begin(), arguments.begin() + mixed_arguments);
  const auto in = [&](const Tensor& x, DType dtype) { return rounds ? cast(x, dtype) : x; };
  for (const MixedStep& step : steps) {
    const Tensor a = values[step.a], b = values[step.b];
    const Tensor& matrix = arguments[mixed_arguments + step.b % 2];
    values.push_back([&]() -> Tensor {
      switch (step.operation) {
        case 0: return a + b;
        case 1: return a - b;
        case 2: return a * b;
        case 3: return tanh(a);
        case 4: return sin(a);
        case 5: return exp(tanh(a) * 0.5);
        case 6: return relu(a);
        case 7: return silu(a);
        case 8: return a - sum(a, 1, true) * 0.04;
        case 9: return a - mean(a, 0, true);
        case 10: return a - amax(a, 1, true);
        case 11: return softmax(a, 1) * 8;
        case 12: return matmul(a, matrix);
        case 13: return in(a, DType::bf16);
        case 14: return in(a, DType::f16);
        case 15: return in(a, DType::f32);
        case 16: return sqrt(abs(a) + 0.25);
        case 17: return maximum(a, b);
        case 18: return a * rsqrt(mean(square(a), 1, true) + 0.01);
        default: return gelu(a);
      }
    }());
  }
  return values.back();
}
struct MixedSeeds {
  std::vector<std::int64_t> list;
};
inline std::vector<Tensor> run_all_mixed(const MixedSeeds& seeds, const std::vector<Tensor>& arguments) {
  std::vector<Tensor> results;
  for (const std::int64_t seed : seeds.list)
    results.push_back(cast(run_mixed(mixed_program(static_cast<std::uint32_t>(seed)), arguments, true), DType::f32));
  return results;
}

// Programs from `first` on, so many to a compiled function, under autocast to bf16 and f16 in turn.
inline void check_mixed_programs(std::int64_t first, std::int64_t count, std::int64_t in_one) {
  const auto numbers = [](const Tensor& x) {
    const Tensor wide = cast(x, DType::f64);
    std::vector<double> list(static_cast<std::size_t>(wide.element_count().constant()));
    wide.copy_to(list);
    return list;
  };
  Generator generator(5);
  std::vector<Tensor> arguments, wide;
  for (const DType dtype : {DType::bf16, DType::f16, DType::bf16, DType::f32})
    arguments.push_back(cast(normal({16, 24}, 0, 1, generator), dtype));
  for (const DType dtype : {DType::bf16, DType::f16})
    arguments.push_back(cast(normal({24, 24}, 0, 0.2, generator), dtype));
  for (const Tensor& each : arguments) wide.push_back(cast(each, DType::f64));
  std::size_t differ = 0;
  for (std::int64_t at = first; at < first + count; at += in_one) {
    const DType dtype = at / in_one % 2 ? DType::f16 : DType::bf16;
    MixedSeeds seeds;
    for (std::int64_t seed = at; seed < at + in_one; ++seed) seeds.list.push_back(seed);
    const auto fused = compile(run_all_mixed, {.autocast = dtype, .precision = Precision::fused})(seeds, arguments);
    const std::vector<Tensor> plain = [&] {
      const Autocast scope(dtype);
      return run_all_mixed(seeds, arguments);
    }();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const auto seed = static_cast<std::uint32_t>(seeds.list[i]);
      const std::vector<double> found = numbers(fused[i]), rounded = numbers(plain[i]),
                                exact = numbers(run_mixed(mixed_program(seed), wide, false));
      double largest = 1e-3, of_fused = 0, of_plain = 0, apart = 0;
      for (std::size_t k = 0; k < exact.size(); ++k) {
        largest = std::max(largest, std::abs(exact[k]));
        of_fused = std::max(of_fused, std::abs(found[k] - exact[k]));
        of_plain = std::max(of_plain, std::abs(rounded[k] - exact[k]));
        apart = std::max(apart, std::abs(found[k] - rounded[k]));
      }
      CAPTURE(seed);
      CHECK(of_fused <= 1.5 * of_plain + 1e-3 * largest);
      differ += apart > 3e-3 * largest;
    }
  }
  CHECK(differ * 20 > static_cast<std::size_t>(count));  // programs whose roundings count
}

}  // namespace weft::testing
