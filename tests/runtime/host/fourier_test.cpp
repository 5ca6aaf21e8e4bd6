// Stages of a Fourier transform and the passes beside them, against the definition and with the same bits for each
// instruction set of this CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>
#include <random>
#include <vector>

#include "runtime/host/fourier_passes.hpp"
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

namespace {

using Numbers = std::vector<double>;

Numbers random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Numbers numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(normal(random));
  return numbers;
}
// What f(passes) writes to its first and second plane, of so many numbers each; for all instruction sets.
template <class F>
Numbers of_each_isa(std::int64_t count, F f) {
  Numbers first;
  const FourierPasses<double>* passes[] = {&baseline::fourier_passes_of_f64, &avx2::fourier_passes_of_f64,
                                           &avx512::fourier_passes_of_f64};
  for (int isa = 0; isa <= static_cast<int>(weft::host_isa()); ++isa) {
    INFO("instruction set ", isa);
    Numbers to(static_cast<std::size_t>(2 * count), 7);
    f(*passes[isa], FourierPlanes<double>{to.data(), to.data() + count});
    if (first.empty()) first = to;
    CHECK(std::memcmp(first.data(), to.data(), to.size() * sizeof(double)) == 0);
  }
  return first;
}

}  // namespace

TEST_CASE("columns of a long row are turned and transposed, whether they fill the lanes or not") {
  for (const std::int64_t rows : {1, 5, 16, 63, 64, 65, 130})
    for (const std::int64_t columns : {1, 3, 8, 15, 16}) {
      INFO(rows, " rows, ", columns, " columns");
      const std::int64_t coarse = (rows + fine_roots - 1) / fine_roots;
      const Numbers from = random_numbers(2 * rows * fourier_columns, 1), fine = random_numbers(2 * 16 * fine_roots, 2),
                    steps = random_numbers(2 * 16 * coarse, 3);
      const auto planes = [](const Numbers& both) {
        return FourierPlanes<const double>{both.data(), both.data() + both.size() / 2};
      };
      const Numbers to = of_each_isa(rows * columns, [&](const auto& passes, FourierPlanes<double> into) {
        passes.turn_columns(planes(from), rows, columns, {planes(fine), planes(steps)}, coarse, into);
      });
      double worst = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t k = 0; k < rows; ++k) {
          const auto at = [](const Numbers& both, std::int64_t i) {
            return std::complex(both[static_cast<std::size_t>(i)], both[both.size() / 2 + static_cast<std::size_t>(i)]);
          };
          const std::complex<double> expected = at(from, k * fourier_columns + c) *
                                                at(fine, c * fine_roots + k % fine_roots) *
                                                at(steps, c * coarse + k / fine_roots);
          worst = std::max(worst, std::abs(expected - at(to, c * rows + k)));
        }
      CHECK(worst < 1e-13);
    }
}

TEST_CASE("columns and halves of spectra have the same bits for each instruction set") {
  const Numbers row = random_numbers(2 * 40 * 21, 4);
  for (const std::int64_t columns : {1, 7, 16}) {
    const Numbers planes = of_each_isa(21 * 16, [&](const auto& passes, FourierPlanes<double> to) {
      passes.gather_columns({{}, row.data()}, 40, 21, columns, to);
    });
    const Numbers pairs = of_each_isa(21 * 16, [&](const auto& passes, FourierPlanes<double> to) {
      passes.put_columns({planes.data(), planes.data() + 21 * 16}, {{}, to.real}, 16, 21, columns);
    });
    CHECK(pairs[0] == row[0]);
    CHECK(pairs[2 * (16 * 20 + static_cast<std::size_t>(columns) - 1) + 1] ==
          row[2 * (40 * 20 + static_cast<std::size_t>(columns) - 1) + 1]);
  }
  const Numbers roots = random_numbers(2 * fine_roots, 5), steps = random_numbers(20, 6);
  const FourierRoots<double> both = {{roots.data(), roots.data() + fine_roots}, {steps.data(), steps.data() + 10}};
  const FourierPlanes<const double> from = {row.data(), row.data() + 700};
  for (const std::int64_t count : {2, 3, 17, 64, 65, 600}) {
    of_each_isa(count + 1, [&](const auto& passes, FourierPlanes<double> to) {
      passes.spectrum_of_half(from, count, both, 1, count, to);
    });
    of_each_isa(count + 1, [&](const auto& passes, FourierPlanes<double> to) {
      passes.half_of_spectrum(from, count, both, 1, count, to);
    });
  }
}

TEST_CASE("stages of a Fourier transform: every radix, first and later stages, places around the lanes") {
  for (const std::int64_t radix : {2, 3, 4, 5, 7, 8, 11, 13, 29, 31}) {
    for (const std::int64_t part : {1, 2, 3, 4, 7, 8, 15, 16, 17, 29, 64}) check_stage(radix, part, 1);
    for (const std::int64_t stride : {2, 3, 4, 5, 8, 12, 15, 16, 31, 40}) check_stage(radix, 3, stride);
  }
}
