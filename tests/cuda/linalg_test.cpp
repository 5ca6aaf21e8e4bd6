// Linear algebra and Fourier transforms of values on a CUDA device: what the host gives, eagerly, compiled and in
// derivatives. On a machine without a GPU everything says that it was left out.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/compile.hpp"
#include "weft/fft.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

Tensor gram(const Tensor& x) { return matmul(x, transpose(x)) + linalg::matrix_power(x, 0) * 4; }

std::vector<Tensor> answers(const Tensor& x) {
  const Tensor spd = gram(x);
  const auto [q, r] = linalg::qr(x);
  const auto [values, vectors] = linalg::eigh(spd);
  const fft::Complex y = fft::fft2({x, x * x}), z = fft::rfft(x, {.axis = 0, .norm = fft::Norm::ortho});
  return {linalg::cholesky(spd),
          linalg::solve(spd, x),
          linalg::inv(spd),
          linalg::slogdet(spd).logabsdet,
          linalg::solve_triangular(spd, x, {.upper = true}),
          matmul(q, r),
          values,
          matmul(vectors * unsqueeze(values, -2), transpose(vectors)),
          linalg::svdvals(x),
          linalg::pinv(x),
          y.real,
          y.imag,
          z.imag,
          fft::irfft(z)};
}
Tensor slope(const Tensor& x) {
  return grad(
      [](const Tensor& v) {
        Tensor total = sum(linalg::matrix_norm(v, "nuc"));
        for (const Tensor& each : answers(v)) total = total + sum(sin(each));
        return total;
      },
      x);
}

void check_same(const Tensor& found, const Tensor& expected) {
  CHECK(found.device() == Device::cuda());
  const Tensor here = to(found, Device::cpu());
  REQUIRE(here.shape() == expected.shape());
  CHECK(amax(abs(here - expected) / (1 + abs(expected))).item<double>() <= 1e-3);
}

}  // namespace

TEST_CASE("cuda: linear algebra and Fourier transforms") {
  if (no_device()) return;
  const Tensor x = sample({3, 6, 6}, 3), there = to(x, Device::cuda());
  const std::vector<Tensor> expected = answers(x);
  for (const std::vector<Tensor>& found : {answers(there), compile(answers)(there), compile(answers)(there)})
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      check_same(found[i], expected[i]);
    }
}

TEST_CASE("cuda: derivatives of linear algebra, with symbolic sizes too") {
  if (no_device()) return;
  auto compiled = compile(slope, {.dynamic = true});
  for (const std::int64_t batch : {2, 3, 5}) {
    const Tensor x = sample({batch, 5, 5}, 4), there = to(x, Device::cuda());
    check_same(slope(there), slope(x));
    check_same(compiled(there), slope(x));
  }
}

TEST_CASE("cuda: transforms of rows of many lengths, forwards and back, of both dtypes and of symbolic sizes") {
  if (no_device()) return;
  const auto spectrum = [](const Tensor& x) {
    const fft::Complex y = fft::fft({x, cos(x)});
    return std::vector{y.real, y.imag, fft::ifft(y).real, fft::ifft(y).imag};
  };
  auto compiled = compile(spectrum), any_size = compile(spectrum, {.dynamic = true});
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto& [rows, points] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                       {3, 2},
                                       {5, 7},
                                       {2, 1009},
                                       {64, 256},
                                       {2, 4096},
                                       {1, 100000},
                                       {300, 30},
                                       {0, 8}}) {
      CAPTURE(rows);
      CAPTURE(points);
      const Tensor x = cast(sample({rows, points}, 5), dtype), there = to(x, Device::cuda());
      const std::vector<Tensor> expected = spectrum(x);
      for (const std::vector<Tensor>& found :
           {spectrum(there), compiled(there), compiled(there), any_size(there), any_size(there)})
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CHECK(found[i].device() == Device::cuda());
          const Tensor here = to(found[i], Device::cpu());
          REQUIRE(here.shape() == expected[i].shape());
          if (rows == 0) continue;
          const double size = amax(abs(expected[i])).item() + 1;
          CHECK(amax(abs(here - expected[i])).item() <= size * (dtype == DType::f32 ? 2e-6 : 2e-14));
        }
    }
}

TEST_CASE("cuda: a singular matrix is the user's error") {
  if (no_device()) return;
  const Tensor singular = to(zeros({2, 2}), Device::cuda());
  auto compiled = compile([](const Tensor& x) { return sum(linalg::inv(x)); });
  CHECK_THROWS_WITH_AS(sum(linalg::inv(singular)).item<double>(), doctest::Contains("[inv] the matrix is singular"),
                       Error);
  CHECK_THROWS_WITH_AS(compiled(singular).item<double>(), doctest::Contains("[inv] the matrix is singular"), Error);
}
