// Cholesky, LU, L D L^T and QR, and solutions of triangular systems.
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/host/eigen.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

// The operand's lower triangle is the upper one of the same memory by columns, and so is the factor's.
template <class T>
void cholesky(const FactorizationCall& call, std::int64_t i) {
  const std::int64_t n = call.sizes.columns;
  auto result = matrix_at<T, ColumnMajor<T>>(call, 1, i, n, n);
  result.setZero();
  result.template triangularView<::Eigen::Upper>() = matrix_at<T, ColumnMajor<T>>(call, 0, i, n, n);
  ::Eigen::LLT<::Eigen::Ref<ColumnMajor<T>>, ::Eigen::Upper> factor(result);
  if (factor.info() != ::Eigen::Success || !(result.diagonal().array() > 0).all()) result.setConstant(no_number<T>);
}

template <class Matrix, class Right>
void solve(const Matrix& a, bool upper, bool unit, Right& x) {
  if (upper && unit)
    a.template triangularView<::Eigen::UnitUpper>().solveInPlace(x);
  else if (upper)
    a.template triangularView<::Eigen::Upper>().solveInPlace(x);
  else if (unit)
    a.template triangularView<::Eigen::UnitLower>().solveInPlace(x);
  else
    a.template triangularView<::Eigen::Lower>().solveInPlace(x);
}

template <class T>
void triangular_solve(const FactorizationCall& call, std::int64_t i) {
  const std::int64_t n = call.sizes.columns, sides = call.sizes.sides;
  auto x = matrix_at<T>(call, 2, i, n, sides);
  x = matrix_at<T>(call, 1, i, n, sides);
  if (n == 0 || sides == 0) return;
  if (call.what.transposed)  // the same memory by columns
    solve(matrix_at<T, ColumnMajor<T>>(call, 0, i, n, n), !call.what.upper, call.what.unit, x);
  else
    solve(matrix_at<T>(call, 0, i, n, n), call.what.upper, call.what.unit, x);
}

template <class T>
void lu(const FactorizationCall& call, std::int64_t i) {
  const std::int64_t n = call.sizes.columns;
  if (n == 0) return;
  ColumnMajor<T> work = matrix_at<T>(call, 0, i, n, n);
  const ::Eigen::PartialPivLU<::Eigen::Ref<ColumnMajor<T>>> factors(work);
  matrix_at<T>(call, 1, i, n, n) = work;
  std::int64_t* const rows = static_cast<std::int64_t*>(call.buffers[2]) + i * n;
  for (std::int64_t row = 0; row < n; ++row) rows[factors.permutationP().indices()[row]] = row;
}

// Exchanges rows and columns p < q of a symmetric matrix of which the lower triangle is stored, and rows of L before.
template <class Matrix>
void exchange(Matrix& a, std::int64_t p, std::int64_t q) {
  const std::int64_t n = a.rows();
  a.row(p).head(p).swap(a.row(q).head(p));
  std::swap(a(p, p), a(q, q));
  for (std::int64_t j = p + 1; j < q; ++j) std::swap(a(j, p), a(q, j));
  a.col(p).tail(n - q - 1).swap(a.col(q).tail(n - q - 1));
}

// Bunch and Kaufman 1977, algorithm A: a pivot of one or of two rows, so that elements grow by at most 2.57 a row.
template <class T>
void ldl(const FactorizationCall& call, std::int64_t i) {
  const std::int64_t n = call.sizes.columns;
  auto a = matrix_at<T>(call, 1, i, n, n);
  a.setZero();
  a.template triangularView<::Eigen::Lower>() = matrix_at<T>(call, 0, i, n, n);
  std::int64_t* const rows = static_cast<std::int64_t*>(call.buffers[2]) + i * n;
  for (std::int64_t row = 0; row < n; ++row) rows[row] = row;
  const T alpha = (1 + std::sqrt(T(17))) / 8;
  using Index = ::Eigen::Index;
  for (std::int64_t k = 0, size = 1; k < n; k += size) {
    const std::int64_t rest = n - k - 1;
    std::int64_t pivot = k;
    size = 1;
    Index at = 0;
    const T own = std::abs(a(k, k)), most = rest > 0 ? a.col(k).tail(rest).cwiseAbs().maxCoeff(&at) : T(0);
    if (most > 0 && !(own >= alpha * most)) {
      const std::int64_t r = k + 1 + at;
      T others = a.row(r).segment(k, r - k).cwiseAbs().maxCoeff();
      if (r + 1 < n) others = std::max(others, a.col(r).tail(n - r - 1).cwiseAbs().maxCoeff());
      if (!(own >= alpha * most * (most / others))) {
        pivot = r;
        if (!(std::abs(a(r, r)) >= alpha * others)) size = 2;
      }
    }
    if (const std::int64_t last = k + size - 1; pivot != last && pivot != k) {
      exchange(a, last, pivot);
      std::swap(rows[last], rows[pivot]);
    }
    if (size == 2) rows[k] = -1 - rows[k];
    if (a(k, k) == 0 && size == 1) continue;  // singular: its column is 0
    const std::int64_t begin = k + size;
    ColumnMajor<T> scaled(n - begin, size);  // rows of L
    if (size == 1) {
      scaled = a.block(begin, k, n - begin, 1) / a(k, k);
    } else {
      const T below = a(k + 1, k), first = a(k, k) / below, second = a(k + 1, k + 1) / below;
      const T factor = 1 / (first * second - 1);
      const auto x = a.col(k).tail(n - begin) / below, y = a.col(k + 1).tail(n - begin) / below;
      scaled.col(0) = factor * (second * x - y);
      scaled.col(1) = factor * (first * y - x);
    }
    for (std::int64_t row = begin; row < n; ++row)
      a.row(row).segment(begin, row - begin + 1).noalias() -=
          a.block(row, k, 1, size) * scaled.topRows(row - begin + 1).transpose();
    a.block(begin, k, n - begin, size) = scaled;
  }
}

// Powers of two that bring the largest element of each column near 1. A reflection squares elements, and Eigen takes a
// column whose squares underflow for 0. Q does not depend on the lengths of columns, and those of R go back exactly.
template <class T>
::Eigen::Array<T, 1, ::Eigen::Dynamic> column_scales(const ColumnMajor<T>& a) {
  using Limits = std::numeric_limits<T>;
  constexpr int most = Limits::max_exponent - 2;  // the inverse is no subnormal number
  ::Eigen::Array<T, 1, ::Eigen::Dynamic> scales(a.cols());
  for (::Eigen::Index j = 0; j < a.cols(); ++j) {
    const T size = a.col(j).cwiseAbs().maxCoeff();
    const bool is_usable = size > 0 && size <= Limits::max();
    scales[j] = is_usable ? std::ldexp(T(1), std::clamp(-std::ilogb(size), -most, most)) : T(1);
  }
  return scales;
}

template <class T>
void qr(const FactorizationCall& call, std::int64_t i) {
  const std::int64_t m = call.sizes.rows, n = call.sizes.columns, k = m < n ? m : n;
  if (k == 0) return;
  ColumnMajor<T> work = matrix_at<T>(call, 0, i, m, n);
  const ::Eigen::Array<T, 1, ::Eigen::Dynamic> scales = column_scales<T>(work);
  work.array().rowwise() *= scales;
  const ::Eigen::HouseholderQR<::Eigen::Ref<ColumnMajor<T>>> factors(work);
  ColumnMajor<T> q = ColumnMajor<T>::Identity(m, k);
  q.applyOnTheLeft(factors.householderQ());
  matrix_at<T>(call, 1, i, m, k) = q;
  auto r = matrix_at<T>(call, 2, i, k, n);
  r.setZero();
  r.template triangularView<::Eigen::Upper>() = work.topRows(k);
  r.array().rowwise() *= scales.inverse();
}

template <class T>
void factorize_as(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) switch (call.what.kind) {
      case Factorization::Kind::cholesky: cholesky<T>(call, i); break;
      case Factorization::Kind::triangular_solve: triangular_solve<T>(call, i); break;
      case Factorization::Kind::lu: lu<T>(call, i); break;
      case Factorization::Kind::ldl: ldl<T>(call, i); break;
      default: qr<T>(call, i);
    }
}

}  // namespace

void factorize_directly(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? factorize_as<double>(call, begin, end) : factorize_as<float>(call, begin, end);
}

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
