#include "interpret/reference_linalg.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <numeric>

namespace weft::reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> elements;
  Matrix(std::size_t rows, std::size_t columns) : rows(rows), columns(columns), elements(rows * columns) {}
  double& operator()(std::size_t i, std::size_t j) { return elements[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return elements[i * columns + j]; }
};

std::size_t size_at(const Literal& value, int from_end) {
  const Shape& shape = value.type.shape;
  return static_cast<std::size_t>(shape[shape.rank() - from_end].constant());
}
Matrix read(const Literal& value, std::size_t i) {
  Matrix result(size_at(value, 2), size_at(value, 1));
  const std::size_t count = result.elements.size();
  for (std::size_t k = 0; k < count; ++k) result.elements[k] = value.reals[i * count + k];
  return result;
}
void write(Literal& value, std::size_t i, const std::vector<double>& elements) {
  std::copy(elements.begin(), elements.end(), value.reals.begin() + static_cast<std::ptrdiff_t>(i * elements.size()));
}

Matrix identity(std::size_t n) {
  Matrix result(n, n);
  for (std::size_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}
Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  return result;
}

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
Matrix corner(const Matrix& a, std::size_t rows, std::size_t columns) {
  Matrix result(rows, columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result(i, j) = a(i, j);
  return result;
}

bool is_finite(const Matrix& a) {
  return std::ranges::all_of(a.elements, [](double x) { return std::isfinite(x); });
}

// Jacobi's rotations of the lower triangle, ascending; vectors in columns.
void eigh(const Matrix& a, std::vector<double>& values, Matrix& vectors) {
  const std::size_t n = a.rows;
  Matrix s(n, n), v = identity(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) s(i, j) = a(std::max(i, j), std::min(i, j));
  for (int sweep = 0; sweep < 60 && is_finite(s); ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        if (s(p, q) == 0) continue;
        const double theta = (s(q, q) - s(p, p)) / (2 * s(p, q));
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), sine = t * c;
        const auto rotate = [&](double& x, double& y) {
          const double left = c * x - sine * y, right = sine * x + c * y;
          x = left, y = right;
        };
        for (std::size_t k = 0; k < n; ++k) rotate(s(k, p), s(k, q));
        for (std::size_t k = 0; k < n; ++k) rotate(s(p, k), s(q, k));
        for (std::size_t k = 0; k < n; ++k) rotate(v(k, p), v(k, q));
      }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return s(i, i); });
  values.resize(n);
  vectors = Matrix(n, n);
  for (std::size_t k = 0; k < n; ++k) {
    values[k] = is_finite(s) ? s(order[k], order[k]) : nan;
    for (std::size_t i = 0; i < n; ++i) vectors(i, k) = is_finite(s) ? v(i, order[k]) : nan;
  }
}

using Complex = std::complex<double>;
struct ComplexMatrix {
  std::size_t n;
  std::vector<Complex> elements;
  explicit ComplexMatrix(const Matrix& a) : n(a.rows), elements(a.elements.begin(), a.elements.end()) {}
  Complex& operator()(std::size_t i, std::size_t j) { return elements[i * n + j]; }
};

// Turns the rows p and q by a unitary matrix, or the columns by its adjoint.
void turn_rows(ComplexMatrix& a, std::size_t p, std::size_t q, Complex c, Complex s) {
  for (std::size_t k = 0; k < a.n; ++k) {
    const Complex x = a(p, k), y = a(q, k);
    a(p, k) = std::conj(c) * x + std::conj(s) * y;
    a(q, k) = c * y - s * x;
  }
}
void turn_columns(ComplexMatrix& a, std::size_t p, std::size_t q, Complex c, Complex s) {
  for (std::size_t k = 0; k < a.n; ++k) {
    const Complex x = a(k, p), y = a(k, q);
    a(k, p) = x * c + y * s;
    a(k, q) = y * std::conj(c) - x * std::conj(s);
  }
}

// The QR algorithm with shifts: t becomes an upper triangle, and a is v t v^H.
void schur(ComplexMatrix& t, ComplexMatrix& v, double scale) {
  std::size_t last = t.n - 1;
  for (int round = 0; last > 0 && round < 1000; ++round) {
    double beside = 0;
    for (std::size_t j = 0; j < last; ++j) beside += std::abs(t(last, j));
    if (beside <= 1e-15 * scale) {
      for (std::size_t j = 0; j < last; ++j) t(last, j) = 0;
      --last;
      continue;
    }
    // The eigenvalue of the last 2 x 2 that is nearer to the corner; now and then another number.
    const Complex a = t(last - 1, last - 1), d = t(last, last), half = (a + d) / 2.0;
    const Complex root = std::sqrt((a - d) * (a - d) / 4.0 + t(last - 1, last) * t(last, last - 1));
    Complex shift = std::abs(half + root - d) < std::abs(half - root - d) ? half + root : half - root;
    if (round % 11 == 10) shift += Complex(0.7, 0.3) * beside;
    ComplexMatrix r = t;
    for (std::size_t k = 0; k < t.n; ++k) r(k, k) -= shift;
    for (std::size_t j = 0; j < last; ++j)
      for (std::size_t i = j + 1; i <= last; ++i) {
        const double length = std::hypot(std::abs(r(j, j)), std::abs(r(i, j)));
        if (length == 0) continue;
        const Complex c = r(j, j) / length, s = r(i, j) / length;
        turn_rows(r, j, i, c, s);
        turn_rows(t, j, i, c, s);
        turn_columns(t, j, i, c, s);
        turn_columns(v, j, i, c, s);
      }
  }
}

// Of the triangle t the vector of its value k, by substitution; times v, of length 1, its greatest element real.
std::vector<Complex> eigenvector(ComplexMatrix& t, ComplexMatrix& v, std::size_t k, double scale) {
  std::vector<Complex> y(k + 1), x(t.n);
  y[k] = 1;
  for (std::size_t i = k; i-- > 0;) {
    for (std::size_t j = i + 1; j <= k; ++j) y[i] -= t(i, j) * y[j];
    const Complex difference = t(i, i) - t(k, k);
    y[i] /= std::abs(difference) < 1e-16 * scale ? Complex(1e-16 * scale) : difference;
  }
  double length = 0;
  std::size_t greatest = 0;
  for (std::size_t i = 0; i < t.n; ++i) {
    for (std::size_t j = 0; j <= k; ++j) x[i] += v(i, j) * y[j];
    length += std::norm(x[i]);
    if (std::norm(x[i]) > std::norm(x[greatest])) greatest = i;
  }
  const Complex turn = std::conj(x[greatest]) / (std::abs(x[greatest]) * std::sqrt(length));
  for (Complex& each : x) each *= turn;
  return x;
}

// Column `at` becomes a unit vector that is orthogonal to those before it.
void complete(Matrix& basis, std::size_t at) {
  double longest = -1;
  std::vector<double> best(basis.rows);
  for (std::size_t unit = 0; unit < basis.rows; ++unit) {
    std::vector<double> v(basis.rows);
    v[unit] = 1;
    for (int twice = 0; twice < 2; ++twice)
      for (std::size_t j = 0; j < at; ++j) {
        double product = 0;
        for (std::size_t i = 0; i < basis.rows; ++i) product += v[i] * basis(i, j);
        for (std::size_t i = 0; i < basis.rows; ++i) v[i] -= product * basis(i, j);
      }
    const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    if (length <= longest) continue;
    longest = length;
    for (std::size_t i = 0; i < basis.rows; ++i) best[i] = v[i] / length;
  }
  for (std::size_t i = 0; i < basis.rows; ++i) basis(i, at) = best[i];
}

// Of a with rows >= columns: rotations that make its columns orthogonal (Hestenes 1958). u [m,m], v [n,n].
void tall_svd(Matrix a, std::vector<double>& values, Matrix& u, Matrix& v) {
  const std::size_t m = a.rows, n = a.columns;
  const auto product = [&](std::size_t p, std::size_t q) {
    double sum = 0;
    for (std::size_t i = 0; i < m; ++i) sum += a(i, p) * a(i, q);
    return sum;
  };
  Matrix turned = identity(n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        const double pq = product(p, q), pp = product(p, p), qq = product(q, q);
        if (std::fabs(pq) <= 1e-17 * std::sqrt(pp * qq)) continue;
        const double zeta = (qq - pp) / (2 * pq);
        const double t = (zeta >= 0 ? 1 : -1) / (std::fabs(zeta) + std::sqrt(zeta * zeta + 1));
        const double c = 1 / std::sqrt(t * t + 1), sine = t * c;
        const auto rotate = [&](Matrix& of) {
          for (std::size_t i = 0; i < of.rows; ++i) {
            const double x = of(i, p), y = of(i, q);
            of(i, p) = c * x - sine * y;
            of(i, q) = sine * x + c * y;
          }
        };
        rotate(a);
        rotate(turned);
      }
  std::vector<double> lengths(n);
  for (std::size_t j = 0; j < n; ++j) lengths[j] = std::sqrt(product(j, j));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::greater<>(), [&](std::size_t j) { return lengths[j]; });
  values.resize(n);
  u = Matrix(m, m), v = Matrix(n, n);
  for (std::size_t k = 0; k < m; ++k) {
    if (k < n) {
      values[k] = lengths[order[k]];
      for (std::size_t i = 0; i < n; ++i) v(i, k) = turned(i, order[k]);
    }
    if (k < n && values[k] > 1e-14 * values[0])
      for (std::size_t i = 0; i < m; ++i) u(i, k) = a(i, order[k]) / values[k];
    else
      complete(u, k);
  }
}

void put_svd(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i) {
  const std::size_t m = a.rows, n = a.columns, k = std::min(m, n);
  std::vector<double> values(k, nan);
  Matrix u(m, m), v(n, n);
  if (!is_finite(a)) {
    std::ranges::fill(u.elements, nan);
    std::ranges::fill(v.elements, nan);
  } else if (m >= n) {
    tall_svd(a, values, u, v);
  } else {
    tall_svd(transposed(a), values, v, u);
  }
  write(results[0], i, values);
  if (!spectrum.vectors) return;
  write(results[1], i, corner(u, m, spectrum.full ? m : k).elements);
  write(results[2], i, transposed(corner(v, n, spectrum.full ? n : k)).elements);
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

void put_eigh(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i) {
  std::vector<double> values;
  Matrix vectors(0, 0);
  eigh(a, values, vectors);
  write(results[0], i, values);
  if (spectrum.vectors) write(results[1], i, vectors.elements);
}

// Results: real and imaginary parts of the values, and of the vectors.
void put_eig(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i) {
  const std::size_t n = a.rows;
  std::vector<double> values[2] = {std::vector(n, nan), std::vector(n, nan)};
  Matrix vectors[2] = {Matrix(n, n), Matrix(n, n)};
  for (Matrix& each : vectors) std::ranges::fill(each.elements, nan);
  if (n > 0 && is_finite(a)) {
    double scale = 0;
    for (const double x : a.elements) scale = std::max(scale, std::fabs(x));
    ComplexMatrix t(a), v(identity(n));
    schur(t, v, scale);
    std::size_t at = 0;
    const auto put = [&](Complex value, const std::vector<Complex>& vector, double sign) {
      values[0][at] = value.real();
      values[1][at] = sign * value.imag();
      for (std::size_t row = 0; row < n; ++row) {
        vectors[0](row, at) = vector[row].real();
        vectors[1](row, at) = sign * vector[row].imag();
      }
      ++at;
    };
    for (std::size_t k = 0; k < n && at < n; ++k) {
      const Complex value = t(k, k);
      const bool is_real = std::fabs(value.imag()) <= 1e-10 * scale;
      if (!is_real && value.imag() < 0) continue;  // put with its conjugate
      const std::vector<Complex> vector = eigenvector(t, v, k, scale);
      put(value, vector, is_real ? 0 : 1);
      if (!is_real && at < n) put(value, vector, -1);
    }
  }
  for (std::size_t part = 0; part < 2; ++part) write(results[part], i, values[part]);
  if (!spectrum.vectors) return;
  for (std::size_t part = 0; part < 2; ++part) write(results[2 + part], i, vectors[part].elements);
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
