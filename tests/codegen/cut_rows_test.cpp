// Long rows that are cut: positions, sums of exponentials and what walks the rows again after them, stage by stage.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "loop/online.hpp"
#include "loop/parse.hpp"
#include "loop/stages.hpp"
#include "tests/codegen/cpp_support.hpp"
#include "tests/codegen/cuda_support.hpp"
#include "tests/codegen/stages.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr Int rows = 4, columns = 5000, part = 640;

// Buffers: rows; their softmax, log-sum-exp, first greatest element, least element.
loop::Kernel softmax_and_more() {
  loop::Kernel kernel = loop::parse_kernel(
      R"(weft_cut(f32 p0[20000], out f32 p1[20000], out f32 p2[4], out i64 p3[4], out f32 p4[4])
  outer i0<4 inner i1<5000 vector
  inner0 v0 f32 = p0[5000*i0 + i1]
  outer1 v1 f32 = reduce_amax(v0)
  inner1 v2 f32 = sub(v0, v1)
  inner1 v3 f32 = exp(v2)
  outer2 v4 f32 = reduce_sum(v3)
  inner2 v5 f32 = div(v3, v4)
  inner2 p1[5000*i0 + i1] = v5
  outer1 v7 bool = isfinite(v1)
  once 0 v8 f32 = 0
  outer1 v9 f32 = where(v7, v1, v8)
  inner1 v10 f32 = sub(v0, v9)
  inner1 v11 f32 = exp(v10)
  outer2 v12 f32 = reduce_sum(v11)
  outer2 v13 f32 = log(v12)
  outer2 v14 f32 = add(v13, v9)
  outer2 p2[i0] = v14
  outer1 v16 i64 = reduce_argmax(v0; i1)
  outer1 p3[i0] = v16
  outer1 v18 f32 = reduce_amin(v0)
  outer1 p4[i0] = v18
)");
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) kernel.buffers[b].value = static_cast<std::int32_t>(b);
  return kernel;
}

// Equal elements in two parts; a part of -inf alone; a NaN; -inf alone.
std::vector<float> sample_rows() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)) * 5);
  x[700] = x[1300] = x[4990] = 6;
  std::fill_n(x.begin() + columns, part, -infinity);
  x[2 * columns + 3000] = x[2 * columns + 4700] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(x.begin() + 3 * columns, columns, -infinity);
  return x;
}

bool is_near(float value, double expected) {
  if (std::isnan(expected)) return std::isnan(value);
  return value == static_cast<float>(expected) || std::abs(value - expected) <= 1e-6 * std::abs(expected);
}

void check_on_host(const loop::Stages& stages, const std::string& name) {
  const std::vector<float> x = sample_rows();
  StageMemory memory = run_stages(stages, name, x);
  const auto* softmax = reinterpret_cast<const float*>(memory[1].data());
  const auto* log_sum = reinterpret_cast<const float*>(memory[2].data());
  const auto* position = reinterpret_cast<const Int*>(memory[3].data());
  const auto* least = reinterpret_cast<const float*>(memory[4].data());
  for (Int row = 0; row < rows; ++row) {
    const float* const of_row = x.data() + row * columns;
    Int first = 0;
    double greatest = of_row[0], smallest = of_row[0], sum = 0;
    for (Int i = 1; i < columns; ++i) {
      if (of_row[i] > greatest || (std::isnan(of_row[i]) && !std::isnan(greatest))) greatest = of_row[first = i];
      if (of_row[i] < smallest || std::isnan(of_row[i])) smallest = of_row[i];
    }
    for (Int i = 0; i < columns; ++i) sum += std::exp(of_row[i] - greatest);
    CAPTURE(row);
    CHECK(position[row] == first);
    CHECK(is_near(least[row], smallest));
    CHECK(is_near(log_sum[row], std::isinf(greatest) ? greatest : std::log(sum) + greatest));
    Int wrong = 0;
    for (Int i = 0; i < columns; ++i)
      wrong += !is_near(softmax[row * columns + i], std::exp(of_row[i] - greatest) / sum);
    CHECK(wrong == 0);
  }
}

constexpr Int images = 8, channels = 3, pixels = 50;

// Buffers: images; the deviations from a channel's mean, divided by its variance; the variance. A row is several runs,
// which lie apart.
loop::Kernel moments_of_channels() {
  loop::Kernel kernel = loop::parse_kernel(
      R"(weft_channels(f32 p0[1200], out f32 p1[1200], out f32 p2[3])
  outer i0<3 inner i1<8 inner i2<50 vector
  inner0 v0 f32 = p0[150*i1 + 50*i0 + i2]
  once 0 v1 f32 = 400
  outer1 v2 f32 = reduce_sum(v0)
  outer1 v3 f32 = div(v2, v1)
  inner1 v4 f32 = sub(v0, v3)
  inner1 v5 f32 = mul(v4, v4)
  outer2 v6 f32 = reduce_sum(v5)
  outer2 v7 f32 = div(v6, v1)
  outer2 p2[i0] = v7
  inner2 v9 f32 = div(v4, v7)
  inner2 p1[150*i1 + 50*i0 + i2] = v9
)");
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) kernel.buffers[b].value = static_cast<std::int32_t>(b);
  return kernel;
}

void check_moments(const loop::Stages& stages, const std::string& name) {
  std::vector<float> x(static_cast<std::size_t>(images * channels * pixels));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)) * 5 + 2);
  StageMemory memory = run_stages(stages, name, x);
  const auto* divided = reinterpret_cast<const float*>(memory[1].data());
  const auto* variance = reinterpret_cast<const float*>(memory[2].data());
  for (Int channel = 0; channel < channels; ++channel) {
    CAPTURE(channel);
    const auto over = [&](auto f) {
      double sum = 0;
      for (Int image = 0; image < images; ++image)
        for (Int i = 0; i < pixels; ++i) sum += f((image * channels + channel) * pixels + i);
      return sum;
    };
    const double mean = over([&](Int i) { return x[i]; }) / (images * pixels);
    const double expected = over([&](Int i) { return (x[i] - mean) * (x[i] - mean); }) / (images * pixels);
    CHECK(is_near(variance[channel], expected));
    CHECK(over([&](Int i) { return std::abs(divided[i] - (x[i] - mean) / expected) > 1e-6; }) == 0);
  }
}

}  // namespace

TEST_CASE("rows that are cut: the first of the greatest elements, and what walks the rows again") {
  const loop::Stages stages = loop::cut_reductions(softmax_and_more(), part);
  CHECK(stages.kernels.size() == 7);  // twice whole parts, the rest and their join; then the quotient
  CHECK(stages.partials.size() == 4 + 3 + 2 + 2);
  check_on_host(stages, "walks");
}

TEST_CASE("rows that are cut: a sum of exponentials in the walk that finds the greatest element") {
  loop::Kernel kernel = softmax_and_more();
  loop::sum_online(kernel);
  const loop::Stages stages = loop::cut_reductions(kernel, part);
  CHECK(stages.kernels.size() == 4);
  check_on_host(stages, "online");
}

TEST_CASE("rows that are cut compile for sm_90" * needs(nvrtc)) {
  loop::Kernel online = softmax_and_more();
  loop::sum_online(online);
  std::vector<Trial> trials = trials_of(loop::cut_reductions(online, part), "online");
  for (Trial& each : trials_of(loop::cut_reductions(softmax_and_more(), 1000), "walks"))
    trials.push_back(std::move(each));
  check_cuda_compiles(trials);
}

TEST_CASE("rows of several runs are cut between runs, with and without a rest") {
  const loop::Kernel kernel = moments_of_channels();
  CHECK(!loop::can_cut(kernel));
  REQUIRE(loop::can_cut_runs(kernel));
  const loop::Stages even = loop::cut_reductions(kernel, 2), rest = loop::cut_reductions(kernel, 3);
  CHECK(even.kernels.size() == 5);  // twice parts and their join; then the quotient
  CHECK(rest.kernels.size() == 7);
  check_moments(even, "even");
  check_moments(rest, "rest");
}

TEST_CASE("rows of several runs that are cut compile for sm_90" * needs(nvrtc)) {
  std::vector<Trial> trials = trials_of(loop::cut_reductions(moments_of_channels(), 2), "even");
  for (Trial& each : trials_of(loop::cut_reductions(moments_of_channels(), 3), "rest"))
    trials.push_back(std::move(each));
  check_cuda_compiles(trials);
}
