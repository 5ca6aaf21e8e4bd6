#include "interpret/reference_spectrum.hpp"

#include <complex>
#include <numeric>

namespace weft::reference {
namespace {

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

}  // namespace

void put_eigh(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i) {
  std::vector<double> values;
  Matrix vectors(0, 0);
  eigh(a, values, vectors);
  write(results[0], i, values);
  if (spectrum.vectors) write(results[1], i, vectors.elements);
}

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

}  // namespace weft::reference
