// Linear algebra and Fourier transforms of values on a CUDA device: what the host gives, eagerly, compiled and in
// derivatives. Skipped without a GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

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

struct Matrices {
  std::int64_t batch, m, n;
};

double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  if (a.shape().element_count().constant() == 0) return 0;
  return (amax(abs(a - b)) / (1 + amax(abs(b)))).item();
}
Tensor identity_like(const Tensor& square) { return linalg::matrix_power(square, 0); }

// What belongs to the factors of x [batch, m, n], each as two values that are the same.
std::vector<std::pair<Tensor, Tensor>> identities(const Tensor& x) {
  const auto product_with_own = [](const Tensor& columns) { return matmul(transpose(columns), columns); };
  std::vector<std::pair<Tensor, Tensor>> same;
  const auto orthonormal = [&](const Tensor& columns) {
    const Tensor product = product_with_own(columns);
    same.emplace_back(product, identity_like(product));
  };
  const auto [q, r] = linalg::qr(x);
  same.emplace_back(matmul(q, r), x);
  same.emplace_back(triu(r), r);
  orthonormal(q);
  for (const bool full : {false, true}) {
    const auto [u, s, vh] = linalg::svd(x, full);
    const std::int64_t k = std::min(x.size(-2).constant(), x.size(-1).constant());
    same.emplace_back(matmul(slice(u, -1, 0, k) * unsqueeze(s, -2), slice(vh, -2, 0, k)), x);
    orthonormal(u);
    orthonormal(transpose(vh));
    same.emplace_back(s, linalg::svdvals(x));
  }
  const Tensor spd = product_with_own(x) + 4 * identity_like(product_with_own(x));
  const auto [values, vectors] = linalg::eigh(spd);
  same.emplace_back(matmul(vectors * unsqueeze(values, -2), transpose(vectors)), spd);
  orthonormal(vectors);
  same.emplace_back(values, linalg::eigvalsh(spd));
  const Tensor factor = linalg::cholesky(spd);
  same.emplace_back(matmul(factor, transpose(factor)), spd);
  same.emplace_back(tril(factor), factor);
  const auto [p, l, u] = linalg::lu(spd - 5 * identity_like(spd));
  same.emplace_back(matmul(p, matmul(l, u)), spd - 5 * identity_like(spd));
  const Tensor right = transpose(x);
  for (const bool upper : {false, true})
    for (const bool unit : {false, true})
      for (const bool left : {false, true}) {
        const Tensor scaled = spd / (unit ? 100.0 : 1.0) + (unit ? 0.0 : 4.0) * identity_like(spd);
        Tensor triangle = upper ? triu(scaled) : tril(scaled);
        if (unit) triangle = triangle - (upper ? tril(triangle) : triu(triangle)) + identity_like(triangle);
        const Tensor b = left ? right : transpose(right);
        const Tensor found = linalg::solve_triangular(scaled, b, {.upper = upper, .left = left, .unitriangular = unit});
        same.emplace_back(left ? matmul(triangle, found) : matmul(found, triangle), b);
      }
  return same;
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: linear algebra and Fourier transforms") {
  const Tensor x = sample({3, 6, 6}, 3), there = to(x, Device::cuda());
  const std::vector<Tensor> expected = answers(x);
  for (const std::vector<Tensor>& found : {answers(there), compile(answers)(there), compile(answers)(there)})
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      check_same(found[i], expected[i]);
    }
}

TEST_CASE("cuda: derivatives of linear algebra, with symbolic sizes too") {
  auto compiled = compile(slope, {.dynamic = true});
  for (const std::int64_t batch : {2, 3, 5}) {
    const Tensor x = sample({batch, 5, 5}, 4), there = to(x, Device::cuda());
    check_same(slope(there), slope(x));
    check_same(compiled(there), slope(x));
  }
}

TEST_CASE("cuda: transforms of rows of many lengths, forwards and back, of both dtypes and of symbolic sizes") {
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

TEST_CASE("cuda: a recorded transform keeps its plan, also when many other sizes have come") {
  const auto spectrum = [](const Tensor& x) {
    const fft::Complex y = fft::fft({x * 2, cos(x)});
    return std::vector{y.real + 1, y.imag};
  };
  auto any_size = compile(spectrum, {.dynamic = true});
  const Tensor x = sample({3, 1000}, 5), there = to(x, Device::cuda()).eval();
  const std::vector<Tensor> expected = spectrum(x);
  const auto check_all = [&] {
    const std::vector<Tensor> found = any_size(there);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(amax(abs(to(found[i], Device::cpu()) - expected[i])).item() <= 2e-6 * (amax(abs(expected[i])).item() + 1));
  };
  for (int i = 0; i < 4; ++i) check_all();  // recorded
  for (std::int64_t points = 2; points < 100; ++points)
    static_cast<void>(any_size(to(sample({2, points}, 6), Device::cuda())));
  for (int i = 0; i < 4; ++i) check_all();
}

TEST_CASE("cuda: a singular matrix is the user's error") {
  const Tensor singular = to(zeros({2, 2}), Device::cuda());
  auto compiled = compile([](const Tensor& x) { return sum(linalg::inv(x)); });
  CHECK_THROWS_WITH_AS(sum(linalg::inv(singular)).item<double>(), doctest::Contains("[inv] the matrix is singular"),
                       Error);
  CHECK_THROWS_WITH_AS(compiled(singular).item<double>(), doctest::Contains("[inv] the matrix is singular"), Error);
}

TEST_CASE("cuda: factors of matrices of many shapes, alone and in batches, of both dtypes") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto& [batch, m, n] : {Matrices{1, 1, 1},
                                      {5, 1, 3},
                                      {3, 5, 5},
                                      {2, 7, 4},
                                      {1, 4, 7},
                                      {70, 20, 20},
                                      {3, 20, 8},
                                      {3, 8, 20},
                                      {40, 7, 5},
                                      {9, 33, 33},
                                      {10, 40, 12},
                                      {1, 130, 130},
                                      {2, 300, 60},
                                      {2, 60, 300},
                                      {1500, 3, 3},
                                      {0, 3, 3},
                                      {2, 0, 3},
                                      {2, 3, 0}}) {
      CAPTURE(batch);
      CAPTURE(m);
      CAPTURE(n);
      const Tensor x = to(cast(sample({batch, m, n}, 7), dtype), Device::cuda());
      const auto same = identities(x);
      for (std::size_t i = 0; i < same.size(); ++i) {
        CAPTURE(i);
        CHECK(same[i].first.device() == Device::cuda());
        CHECK(difference(to(same[i].first, Device::cpu()), to(same[i].second, Device::cpu())) <=
              (dtype == DType::f32 ? 1e-4 : 1e-11));
      }
    }
}

TEST_CASE("cuda: columns scaled by powers of two give the same Q, and R with its columns scaled, exactly") {
  const auto factor = [](const Tensor& x) {
    const auto [q, r] = linalg::qr(x);
    return std::vector{q, r};
  };
  const auto here = [](const Tensor& x) { return to(x, Device::cpu()); };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const int most = dtype == DType::f64 ? 1000 : 110;
    for (const auto& [batch, m, n] : {Matrices{1, 4, 4}, {3, 9, 4}, {1, 2, 4}, {2, 200, 4}, {1, 300, 4}}) {
      const Tensor x = cast(sample({batch, m, n}, 7), dtype), there = to(x, Device::cuda());
      const std::vector<Tensor> plain = factor(there);
      CHECK(difference(here(matmul(plain[0], plain[1])), x) <= (dtype == DType::f32 ? 1e-5 : 1e-13));
      for (const std::vector<int>& exponents : {std::vector{-most, -most, -most, -most},
                                                {most, most, most, most},
                                                {0, -most, 0, most},
                                                {-most, most, 1, 0},
                                                {-most / 2, 3, -most / 2 - 9, most / 2}}) {
        CAPTURE(m);
        CAPTURE(exponents[0]);
        std::vector<double> powers;
        for (const int exponent : exponents) powers.push_back(std::ldexp(1.0, exponent));
        const Tensor scales = to(cast(from_span(std::span<const double>(powers), {4}), dtype), Device::cuda());
        for (const std::vector<Tensor>& found : {factor(there * scales), compile(factor)(there * scales)}) {
          CHECK(difference(here(found[0]), here(plain[0])) == 0);
          CHECK(difference(here(found[1] / scales), here(plain[1])) == 0);
        }
      }
    }
  }
  // A column of zeros beside another.
  const Tensor zeros_beside = to(from_list({{0.0, 3e-200}, {0.0, 4e-200}}), Device::cuda());
  CHECK(here(abs(linalg::qr(zeros_beside).r / 1e-200))[0][0].item() == 0);
  CHECK(here(norm(linalg::qr(zeros_beside).r / 1e-200)).item() == doctest::Approx(5).epsilon(1e-12));
}

TEST_CASE("cuda: eigenvalues and eigenvectors of general matrices are the host's") {
  Generator generator(4);
  const Tensor x = normal({3, 5, 5}, 0, 1, generator, {DType::f64}), there = to(x, Device::cuda());
  const auto parts = [](const Tensor& v) {
    const auto [values, vectors] = linalg::eig(v);
    const fft::Complex alone = linalg::eigvals(v);
    return std::vector{values.real, values.imag, vectors.real, vectors.imag, alone.real, alone.imag};
  };
  const std::vector<Tensor> expected = parts(x), found = parts(there), compiled = compile(parts)(there);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].device() == Device::cuda());
    CHECK(difference(to(found[i], Device::cpu()), expected[i]) == 0);
    CHECK(difference(to(compiled[i], Device::cpu()), expected[i]) == 0);
  }
  const auto loss = [](const Tensor& v) { return sum(sin(linalg::eigvals(v).real)); };
  CHECK(difference(to(grad(loss, there), Device::cpu()), grad(loss, x)) <= 1e-10);
}

TEST_CASE("cuda: what has no factors gives NaN, and its neighbours in a batch have theirs") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  // Good, indefinite, with a NaN, infinite, good.
  const Tensor five = from_span(std::vector<double>{4.0, 1.0, 1.0,      3.0, 1.0, 2.0, 2.0, 1.0, nan, 0.0,  //
                                                    0.0, 1.0, infinite, 0.0, 0.0, 1.0, 9.0, 0.0, 0.0, 4.0},
                                {5, 2, 2});
  for (const std::int64_t count : {1, 5})
    for (std::int64_t first = 0; first + count <= 5; ++first) {
      CAPTURE(first);
      CAPTURE(count);
      const Tensor x = slice(five, 0, first, first + count), there = to(x, Device::cuda());
      const auto factors = [](const Tensor& v) {
        const auto [u, s, vh] = linalg::svd(v);
        return std::vector{linalg::eigvalsh(v), s, sum(linalg::eigh(v).eigenvectors, {-2, -1}), sum(u, {-2, -1}),
                           sum(vh, {-2, -1})};
      };
      const bool all_positive = count == 1 && (first == 0 || first == 4);
      if (all_positive)
        CHECK(difference(to(linalg::cholesky(there), Device::cpu()), linalg::cholesky(x)) <= 1e-15);
      else if (first != 3)
        CHECK_THROWS_WITH_AS(sum(linalg::cholesky(there)).item<double>(), doctest::Contains("is not positive definite"),
                             Error);
      const std::vector<Tensor> found = factors(there), expected = factors(x);
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        const Tensor here = to(found[i], Device::cpu());
        CHECK(all(isnan(here) == isnan(expected[i])).item<bool>());
        if (i < 2) CHECK(difference(nan_to_num(here), nan_to_num(expected[i])) <= 1e-12);
      }
    }
}

TEST_SUITE_END();
