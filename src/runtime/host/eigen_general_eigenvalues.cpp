// Eigenvalues and eigenvectors of matrices that need not be symmetric.
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "runtime/host/eigen.hpp"

namespace weft::runtime {

namespace {

using namespace WEFT_ISA_NAMESPACE;

// Column `at` of the solver's vectors, of length 1; where its eigenvalue is not real, with the next column as imaginary
// part, turned so that its greatest element is real, and the conjugate in the next column.
template <class T>
void put_vector(const ColumnMajor<T>& vectors, std::int64_t at, bool is_real, ::Eigen::Map<RowMajor<T>>& real,
                ::Eigen::Map<RowMajor<T>>& imag) {
  using Column = ::Eigen::Matrix<T, ::Eigen::Dynamic, 1>;
  Column u = vectors.col(at), v = Column::Zero(u.size());
  if (!is_real) v = vectors.col(at + 1);
  const T most = std::max(u.cwiseAbs().maxCoeff(), v.cwiseAbs().maxCoeff());
  u /= most, v /= most;
  const T length = std::sqrt(u.squaredNorm() + v.squaredNorm());
  if (!is_real) {
    ::Eigen::Index greatest = 0;
    (u.cwiseAbs2() + v.cwiseAbs2()).maxCoeff(&greatest);
    const T x = u[greatest], y = v[greatest], size = std::hypot(x, y);
    const Column turned = (u * x + v * y) / size;
    v = (v * x - u * y) / size;
    v[greatest] = 0;
    u = turned;
    real.col(at + 1) = u / length;
    imag.col(at + 1) = -v / length;
  }
  real.col(at) = u / length;
  imag.col(at) = v / length;
}

// Each matrix is scaled by a power of two, so that its greatest element is about 1: no square over- or underflows.
template <class T>
void general_eigenvalues(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = call.sizes.columns;
  const bool vectors = call.what.vectors;
  if (n == 0) return;
  ::Eigen::EigenSolver<ColumnMajor<T>> solver(n);
  for (std::int64_t i = begin; i < end; ++i) {
    auto real = matrix_at<T>(call, 1, i, n, 1), imag = matrix_at<T>(call, 2, i, n, 1);
    ColumnMajor<T> matrix = matrix_at<T>(call, 0, i, n, n);
    int exponent = 0;
    bool found = matrix.allFinite();
    if (found) {
      std::frexp(matrix.cwiseAbs().maxCoeff(), &exponent);
      matrix = matrix.unaryExpr([&](T x) { return std::ldexp(x, -exponent); }).eval();
      solver.compute(matrix, vectors);
      found = solver.info() == ::Eigen::Success;
    }
    if (found) {
      real = solver.eigenvalues().real().unaryExpr([&](T x) { return std::ldexp(x, exponent); });
      imag = solver.eigenvalues().imag().unaryExpr([&](T x) { return std::ldexp(x, exponent); });
    } else {
      real.setConstant(no_number<T>);
      imag.setConstant(no_number<T>);
    }
    if (!vectors) continue;
    auto real_vectors = matrix_at<T>(call, 3, i, n, n), imag_vectors = matrix_at<T>(call, 4, i, n, n);
    if (!found) {
      real_vectors.setConstant(no_number<T>);
      imag_vectors.setConstant(no_number<T>);
      continue;
    }
    const ColumnMajor<T>& columns = solver.pseudoEigenvectors();
    for (std::int64_t at = 0; at < n; ++at) {
      const bool is_real = solver.eigenvalues()[at].imag() == 0;
      put_vector<T>(columns, at, is_real, real_vectors, imag_vectors);
      if (!is_real) ++at;
    }
  }
}

}  // namespace

void factorize_by_general_eigenvalues(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? general_eigenvalues<double>(call, begin, end)
                                : general_eigenvalues<float>(call, begin, end);
}

}  // namespace weft::runtime
