// Cholesky, LU and QR, and solutions of triangular systems.
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
      default: qr<T>(call, i);
    }
}

}  // namespace

void factorize_directly(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? factorize_as<double>(call, begin, end) : factorize_as<float>(call, begin, end);
}

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
