// Singular values and vectors.
#include <Eigen/SVD>

#include "runtime/host/eigen.hpp"

namespace weft::runtime {

namespace {

using namespace WEFT_ISA_NAMESPACE;

template <class T>
void singular_values(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t m = call.sizes.rows, n = call.sizes.columns, k = m < n ? m : n;
  const bool vectors = call.what.vectors, full = call.what.full;
  const std::int64_t left = full ? m : k, right = full ? n : k;
  const unsigned options = !vectors ? 0
                           : full   ? ::Eigen::ComputeFullU | ::Eigen::ComputeFullV
                                    : ::Eigen::ComputeThinU | ::Eigen::ComputeThinV;
  for (std::int64_t i = begin; i < end; ++i) {
    auto values = matrix_at<T>(call, 1, i, k, 1);
    if (k == 0) {
      if (!vectors) continue;
      matrix_at<T>(call, 2, i, m, left).setIdentity();
      matrix_at<T>(call, 3, i, right, n).setIdentity();
      continue;
    }
    const auto matrix = matrix_at<T>(call, 0, i, m, n);
    ::Eigen::BDCSVD<ColumnMajor<T>> solver;
    if (matrix.allFinite()) solver.compute(matrix, options);
    const bool found = matrix.allFinite() && solver.info() == ::Eigen::Success;
    if (found)
      values = solver.singularValues();
    else
      values.setConstant(no_number<T>);
    if (!vectors) continue;
    auto u = matrix_at<T>(call, 2, i, m, left), v = matrix_at<T>(call, 3, i, right, n);
    if (found) {
      u = solver.matrixU();
      v = solver.matrixV().transpose();
    } else {
      u.setConstant(no_number<T>);
      v.setConstant(no_number<T>);
    }
  }
}

}  // namespace

void factorize_by_singular_values(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? singular_values<double>(call, begin, end) : singular_values<float>(call, begin, end);
}

}  // namespace weft::runtime
