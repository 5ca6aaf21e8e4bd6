// Stages of a Fourier transform against the definition, and with the same bits for each instruction set of this CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <vector>

#include "runtime/host/fourier_stage.hpp"
#include "runtime/host/isa.hpp"

using namespace weft::runtime;

namespace {

using Function = void (*)(const FourierStage&, FourierPlanes<const double>, FourierPlanes<const double>,
                          FourierPlanes<double>);

// Of one stage: entry [place, k, q] of the result.
void check_stage(std::int64_t radix, std::int64_t part, std::int64_t stride) {
  const std::int64_t length = radix * part, size = length * stride;
  std::vector<double> real_table, imag_table, real, imag;
  const auto push = [&](std::int64_t numerator, std::int64_t denominator) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(numerator) / static_cast<double>(denominator);
    real_table.push_back(std::cos(angle));
    imag_table.push_back(std::sin(angle));
  };
  for (std::int64_t k = 1; k < radix; ++k)
    for (std::int64_t p = 0; p < part; ++p) push(k * p, length);
  const FourierStage stage{radix, length, stride, 0, static_cast<std::int64_t>(real_table.size())};
  for (std::int64_t j = 0; j < radix; ++j) push(j, radix);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < size; ++i) real.push_back(normal(random)), imag.push_back(normal(random));

  std::vector<double> first;
  const Function functions[] = {baseline::fourier_stage, avx2::fourier_stage, avx512::fourier_stage};
  for (int isa = 0; isa <= static_cast<int>(weft::host_isa()); ++isa) {
    INFO("radix ", radix, ", ", part, " places, stride ", stride, ", instruction set ", isa);
    std::vector<double> to(static_cast<std::size_t>(2 * size), std::nan(""));
    functions[isa](stage, {real_table.data(), imag_table.data()}, {real.data(), imag.data()},
                   {to.data(), to.data() + size});
    if (first.empty()) first = to;
    CHECK(std::memcmp(first.data(), to.data(), to.size() * sizeof(double)) == 0);
  }
  double worst = 0;
  for (std::int64_t p = 0; p < part; ++p)
    for (std::int64_t k = 0; k < radix; ++k)
      for (std::int64_t q = 0; q < stride; ++q) {
        double expected_real = 0, expected_imag = 0;
        for (std::int64_t j = 0; j < radix; ++j) {
          const auto at = static_cast<std::size_t>(q + stride * (p + part * j));
          const double angle = -2 * std::numbers::pi *
                               (static_cast<double>(j * k) / static_cast<double>(radix) +
                                static_cast<double>(k * p) / static_cast<double>(length));
          expected_real += real[at] * std::cos(angle) - imag[at] * std::sin(angle);
          expected_imag += real[at] * std::sin(angle) + imag[at] * std::cos(angle);
        }
        const auto at = static_cast<std::size_t>((p * radix + k) * stride + q);
        worst = std::max(worst, std::abs(first[at] - expected_real));
        worst = std::max(worst, std::abs(first[static_cast<std::size_t>(size) + at] - expected_imag));
      }
  INFO("radix ", radix, ", ", part, " places, stride ", stride);
  CHECK(worst < 1e-13 * static_cast<double>(radix));
}

}  // namespace

TEST_CASE("stages of a Fourier transform: every radix, first and later stages, places around the lanes") {
  for (const std::int64_t radix : {2, 3, 4, 5, 7, 8, 11, 13, 29, 31}) {
    for (const std::int64_t part : {1, 2, 3, 4, 7, 8, 15, 16, 17, 29, 64}) check_stage(radix, part, 1);
    for (const std::int64_t stride : {2, 3, 4, 5, 8, 12, 15, 16, 31, 40}) check_stage(radix, 3, stride);
  }
}
