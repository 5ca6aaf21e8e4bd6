// What operations take, measured for a memory budget at Level::O3.
#include "pipeline/node_times.hpp"

#include <doctest/doctest.h>

#include "ir/parse.hpp"
#include "passes/rematerialize.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/sanitized.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

// Choices weigh times against bytes.
static std::string kernels_at_their_speed() {
  const std::string lack = test::a_compiler();
  return lack.empty() ? test::kernels_without_sanitizer() : lack;
}

TEST_CASE("operations are measured once, and the same ones take the same time" * test::needs(test::a_compiler)) {
  PipelineOptions options;
  options.level = Level::O3;
  const Graph graph = parse_graph(
      "%0 f32[512,512] = input(0)\n"
      "%1 f32[16,16] = input(1)\n"
      "%2 f32[512,512] = matmul(%0, %0)\n"
      "%3 f32[16,16] = matmul(%1, %1)\n"
      "%4 f32[512,512] = exp(%2)\n"
      "%5 f32[16,16] = exp(%3)\n"
      "%6 f32[512,512] = add(%4, %0)\n"
      "%7 f32[512,1] = sum(%6; axes [1])\n"
      "%8 f32[512,512] = matmul(%6, %6)\n"
      "return %5 %7 %8\n");
  const std::vector<double> times = measured_times(graph, options);
  REQUIRE(times.size() == 9);
  for (const std::size_t none : {0, 1, 6}) CHECK(times[none] < 0);
  CHECK(times[2] > 100 * times[3]);  // 32768 times the work
  CHECK(times[2] == times[8]);
  CHECK(times[4] > 0);
  CHECK(times[4] == doctest::Approx(1024 * times[5]));
  CHECK(times[7] > 0);
  CHECK(measured_times(graph, options) == times);
}

TEST_CASE("a budget at Level::O3 chooses by what was measured, the same each time" *
          test::needs(kernels_at_their_speed)) {
  static constexpr auto slope = [](const std::vector<Tensor>& weights, const Tensor& x) {
    return value_and_grad(
        [&](const std::vector<Tensor>& weights) {
          Tensor y = x;
          for (const Tensor& weight : weights) y = y + matmul(gelu(nn::layer_norm(y, {64})), weight);
          return mean(square(y));
        },
        weights);
  };
  seed(4);
  const Tensor x = normal({256, 64});
  const std::vector<Tensor> weights(6, (normal({64, 64}) * 0.1f).eval());
  const auto plain = slope(weights, x);
  std::string text;
  for (int turn = 0; turn < 2; ++turn) {
    const auto step = compile(slope, {.level = Level::O3, .memory_budget = 0.3});
    const Explanation all = explain(step, weights, x);
    CHECK(!all.recomputed.empty());
    if (turn == 0) text = all.optimized;
    CHECK(all.optimized == text);
    const auto found = step(weights, x);
    CHECK(std::abs(found.value.item<float>() - plain.value.item<float>()) <= 1e-5f);
    for (std::size_t i = 0; i < weights.size(); ++i)
      CHECK(amax(abs(found.gradients[i] - plain.gradients[i])).item<float>() <= 1e-5f);
  }
}
