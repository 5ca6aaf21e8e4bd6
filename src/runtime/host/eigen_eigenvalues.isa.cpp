// Eigenvalues and eigenvectors of symmetric matrices.
#include <Eigen/Eigenvalues>

#include "runtime/host/eigen.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

template <class T>
void eigenvalues(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = call.sizes.columns;
  const bool vectors = call.what.vectors;
  if (n == 0) return;
  ::Eigen::SelfAdjointEigenSolver<ColumnMajor<T>> solver(n);
  for (std::int64_t i = begin; i < end; ++i) {
    auto values = matrix_at<T>(call, 1, i, n, 1);
    const ColumnMajor<T> matrix = matrix_at<T>(call, 0, i, n, n).template triangularView<::Eigen::Lower>();
    bool found = matrix.allFinite();
    if (found) {
      solver.compute(matrix, vectors ? ::Eigen::ComputeEigenvectors : ::Eigen::EigenvaluesOnly);
      found = solver.info() == ::Eigen::Success;
    }
    if (found)
      values = solver.eigenvalues();
    else
      values.setConstant(no_number<T>);
    if (!vectors) continue;
    auto result = matrix_at<T>(call, 2, i, n, n);
    if (found)
      result = solver.eigenvectors();
    else
      result.setConstant(no_number<T>);
  }
}

}  // namespace

void factorize_by_eigenvalues(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? eigenvalues<double>(call, begin, end) : eigenvalues<float>(call, begin, end);
}

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
