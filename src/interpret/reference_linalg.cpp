#include "interpret/reference_linalg.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "interpret/reference_spectrum.hpp"

namespace weft::reference {
namespace {

Matrix cholesky(const Matrix& a) {
  Matrix l(a.rows, a.columns);
  for (std::size_t j = 0; j < a.rows; ++j)
    for (std::size_t i = j; i < a.rows; ++i) {
      double rest = a(i, j);
      for (std::size_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      if (i == j && !(rest > 0)) {
        std::ranges::fill(l.elements, nan);
        return l;
      }
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  return l;
}

Matrix triangular_solve(const Triangle& triangle, const Matrix& a, Matrix x) {
  const auto coefficient = [&](std::size_t i, std::size_t j) { return triangle.transposed ? a(j, i) : a(i, j); };
  const bool upper = triangle.upper != triangle.transposed;
  for (std::size_t side = 0; side < x.columns; ++side)
    for (std::size_t step = 0; step < a.rows; ++step) {
      const std::size_t i = upper ? a.rows - 1 - step : step;
      for (std::size_t j = upper ? i + 1 : 0; j < (upper ? a.rows : i); ++j)
        x(i, side) -= coefficient(i, j) * x(j, side);
      if (!triangle.unit) x(i, side) /= a(i, i);
    }
  return x;
}

// In place; which row of the operand each row is.
std::vector<std::size_t> lu(Matrix& a) {
  std::vector<std::size_t> rows(a.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  for (std::size_t k = 0; k < a.rows; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < a.rows; ++i)
      if (std::fabs(a(i, k)) > std::fabs(a(pivot, k))) pivot = i;
    for (std::size_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(pivot, j));
    std::swap(rows[k], rows[pivot]);
    for (std::size_t i = k + 1; i < a.rows; ++i) {
      if (a(k, k) != 0) a(i, k) /= a(k, k);
      for (std::size_t j = k + 1; j < a.columns; ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  return rows;
}

// In place, of the lower triangle of a symmetric matrix: LAPACK's sytf2, but that rows of L are exchanged too. The row
// of the operand that each row is, or -1 - row in the first row of a block of two.
std::vector<std::int64_t> ldl(Matrix& a) {
  const std::size_t n = a.rows;
  std::vector<std::int64_t> rows(n);
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  Matrix s(n, n);  // what is left of the matrix, whole
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      s(i, j) = a(std::max(i, j), std::min(i, j));
      a(i, j) = 0;
    }
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  for (std::size_t k = 0; k < n;) {
    std::size_t r = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (r == k || std::fabs(s(i, k)) > std::fabs(s(r, k))) r = i;
    std::size_t pivot = k, size = 1;
    const double own = std::fabs(s(k, k)), most = r == k ? 0 : std::fabs(s(r, k));
    if (most > 0 && !(own >= alpha * most)) {
      double others = 0;
      for (std::size_t j = k; j < n; ++j)
        if (j != r) others = std::max(others, std::fabs(s(r, j)));
      if (!(own * others >= alpha * most * most)) {
        pivot = r;
        if (!(std::fabs(s(r, r)) >= alpha * others)) size = 2;
      }
    }
    if (const std::size_t last = k + size - 1; pivot != k && pivot != last) {
      for (std::size_t j = 0; j < n; ++j) std::swap(s(last, j), s(pivot, j));
      for (std::size_t i = 0; i < n; ++i) std::swap(s(i, last), s(i, pivot));
      for (std::size_t j = 0; j < k; ++j) std::swap(a(last, j), a(pivot, j));
      std::swap(rows[last], rows[pivot]);
    }
    for (std::size_t j = k; j < k + size; ++j)
      for (std::size_t i = j; i < k + size; ++i) a(i, j) = s(i, j);
    if (size == 2) rows[k] = -1 - rows[k];
    const double determinant = size == 2 ? s(k, k) * s(k + 1, k + 1) - s(k + 1, k) * s(k + 1, k) : s(k, k);
    for (std::size_t i = k + size; i < n && determinant != 0; ++i) {
      if (size == 1) {
        a(i, k) = s(i, k) / determinant;
      } else {
        a(i, k) = (s(i, k) * s(k + 1, k + 1) - s(i, k + 1) * s(k + 1, k)) / determinant;
        a(i, k + 1) = (s(i, k + 1) * s(k, k) - s(i, k) * s(k + 1, k)) / determinant;
      }
    }
    for (std::size_t i = k + size; i < n; ++i)
      for (std::size_t j = k + size; j < n; ++j)
        for (std::size_t p = k; p < k + size; ++p) s(i, j) -= a(i, p) * s(p, j);
    k += size;
  }
  return rows;
}

// Reflections of columns; q of m x m, r of m x n.
void householder(const Matrix& a, Matrix& q, Matrix& r) {
  r = a;
  q = identity(a.rows);
  for (std::size_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    std::vector<double> v(a.rows);
    double below = 0;
    for (std::size_t i = k + 1; i < a.rows; ++i) below += r(i, k) * r(i, k);
    if (below == 0) continue;
    const double length = std::sqrt(below + r(k, k) * r(k, k));
    for (std::size_t i = k; i < a.rows; ++i) v[i] = r(i, k);
    v[k] += r(k, k) >= 0 ? length : -length;
    double square = 0;
    for (const double x : v) square += x * x;
    const auto reflect_columns = [&](Matrix& of) {
      for (std::size_t j = 0; j < of.columns; ++j) {
        double product = 0;
        for (std::size_t i = k; i < of.rows; ++i) product += v[i] * of(i, j);
        for (std::size_t i = k; i < of.rows; ++i) of(i, j) -= 2 * product / square * v[i];
      }
    };
    reflect_columns(r);
    Matrix turned = transposed(q);
    reflect_columns(turned);
    q = transposed(turned);
    for (std::size_t i = k + 1; i < a.rows; ++i) r(i, k) = 0;
  }
}
void fourier(const Fourier& fourier, std::span<const Literal* const> operands, std::vector<Literal>& results) {
  const std::size_t n = size_at(*operands[0], 1);
  for (std::size_t row = 0; row < operands[0]->reals.size(); row += n)
    for (std::size_t k = 0; k < n; ++k) {
      double real = 0, imag = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const double turn = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        const double c = std::cos(turn), s = fourier.inverse ? std::sin(turn) : -std::sin(turn);
        const double x = operands[0]->reals[row + j], y = operands[1]->reals[row + j];
        real += x * c - y * s;
        imag += x * s + y * c;
      }
      results[0].reals[row + k] = real;
      results[1].reals[row + k] = imag;
    }
}

// Of real points the first half, and back from it.
void real_fourier(std::span<const Literal* const> operands, std::vector<Literal>& results) {
  const std::size_t n = size_at(*operands[0], 1), half = n / 2 + 1;
  for (std::size_t row = 0; row < (n == 0 ? 0 : operands[0]->reals.size() / n); ++row)
    for (std::size_t k = 0; k < half; ++k) {
      double real = 0, imag = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const double turn = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        real += operands[0]->reals[row * n + j] * std::cos(turn);
        imag -= operands[0]->reals[row * n + j] * std::sin(turn);
      }
      results[0].reals[row * half + k] = real;
      results[1].reals[row * half + k] = 2 * k % n == 0 ? 0 : imag;
    }
}
void inverse_real_fourier(std::span<const Literal* const> operands, std::vector<Literal>& results) {
  const std::size_t n = size_at(results[0], 1), half = n / 2 + 1;
  for (std::size_t row = 0; row < (n == 0 ? 0 : results[0].reals.size() / n); ++row)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < half; ++k) {
        const double turn = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        const double real = operands[0]->reals[row * half + k], imag = operands[1]->reals[row * half + k];
        sum += 2 * k % n == 0 ? real * std::cos(turn) : 2 * (real * std::cos(turn) - imag * std::sin(turn));
      }
      results[0].reals[row * n + j] = sum;
    }
}

void put_qr(const Matrix& a, std::vector<Literal>& results, std::size_t i) {
  const std::size_t k = std::min(a.rows, a.columns);
  Matrix q(0, 0), r(0, 0);
  // Columns near 1: their squares stay in range, and Q does not depend on their lengths.
  Matrix scaled = a;
  std::vector<int> exponents(a.columns);
  for (std::size_t j = 0; j < a.columns; ++j) {
    double size = 0;
    for (std::size_t row = 0; row < a.rows; ++row) size = std::fmax(size, std::fabs(a(row, j)));
    if (size > 0 && std::isfinite(size)) exponents[j] = std::ilogb(size);
    for (std::size_t row = 0; row < a.rows; ++row) scaled(row, j) = std::ldexp(a(row, j), -exponents[j]);
  }
  householder(scaled, q, r);
  for (std::size_t row = 0; row < r.rows; ++row)
    for (std::size_t j = 0; j < r.columns; ++j) r(row, j) = std::ldexp(r(row, j), exponents[j]);
  write(results[0], i, corner(q, a.rows, k).elements);
  write(results[1], i, corner(r, k, a.columns).elements);
}

void put_lu(Matrix a, std::vector<Literal>& results, std::size_t i) {
  const std::vector<std::size_t> rows = lu(a);
  write(results[0], i, a.elements);
  for (std::size_t k = 0; k < rows.size(); ++k)
    results[1].integers[i * rows.size() + k] = static_cast<std::int64_t>(rows[k]);
}

void put_ldl(Matrix a, std::vector<Literal>& results, std::size_t i) {
  const std::vector<std::int64_t> rows = ldl(a);
  write(results[0], i, a.elements);
  std::copy(rows.begin(), rows.end(), results[1].integers.begin() + static_cast<std::ptrdiff_t>(i * rows.size()));
}

}  // namespace

void factorize(Op op, const Attributes& attributes, std::span<const Literal* const> operands,
               std::vector<Literal>& results) {
  if (op == Op::fourier) return fourier(attributes.as<Fourier>(), operands, results);
  if (op == Op::real_fourier) return real_fourier(operands, results);
  if (op == Op::inverse_real_fourier) return inverse_real_fourier(operands, results);
  const Literal& a = *operands[0];
  std::size_t batch = 1;
  for (int axis = 0; axis < a.type.shape.rank() - 2; ++axis)
    batch *= static_cast<std::size_t>(a.type.shape[axis].constant());
  for (std::size_t i = 0; i < batch; ++i) {
    const Matrix matrix = read(a, i);
    if (op == Op::cholesky) write(results[0], i, cholesky(matrix).elements);
    if (op == Op::triangular_solve)
      write(results[0], i, triangular_solve(attributes.as<Triangle>(), matrix, read(*operands[1], i)).elements);
    if (op == Op::lu) put_lu(matrix, results, i);
    if (op == Op::ldl) put_ldl(matrix, results, i);
    if (op == Op::qr) put_qr(matrix, results, i);
    if (op == Op::eigh) put_eigh(attributes.as<Spectrum>(), matrix, results, i);
    if (op == Op::svd) put_svd(attributes.as<Spectrum>(), matrix, results, i);
    if (op == Op::eig) put_eig(attributes.as<Spectrum>(), matrix, results, i);
  }
}

}  // namespace weft::reference
