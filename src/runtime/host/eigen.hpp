// Matrices of a batch as Eigen sees them. For files that include Eigen: few, since its templates are many. In each of
// them Eigen has a name of its own (src/CMakeLists.txt).
#pragma once
#include <Eigen/Core>
#include <limits>

#include "runtime/host/factorization.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

template <class T>
using RowMajor = ::Eigen::Matrix<T, ::Eigen::Dynamic, ::Eigen::Dynamic, ::Eigen::RowMajor>;
template <class T>
using ColumnMajor = ::Eigen::Matrix<T, ::Eigen::Dynamic, ::Eigen::Dynamic, ::Eigen::ColMajor>;

// Matrix i of a buffer of them.
template <class T, class Matrix = RowMajor<T>>
::Eigen::Map<Matrix> matrix_at(const FactorizationCall& call, int buffer, std::int64_t i, std::int64_t rows,
                               std::int64_t columns) {
  return {static_cast<T*>(call.buffers[buffer]) + i * rows * columns, rows, columns};
}

template <class T>
inline constexpr T no_number = std::numeric_limits<T>::quiet_NaN();

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
