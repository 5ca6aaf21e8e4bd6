// One tile of a matrix product by Eigen's kernels, compiled once an ISA. Eigen's own threads are off, and its packed
// panels live in memory that each thread keeps.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 says it of its own AVX-512 header, not of us
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#include "runtime/matmul.hpp"

#include <Eigen/Core>
#include <cstdlib>
#include <new>

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

struct Scratch {
  void* data = nullptr;
  std::size_t bytes = 0;
  ~Scratch() { std::free(data); }
  void* of(std::size_t wanted) {
    if (wanted > bytes) {
      std::free(data);
      bytes = (wanted + 4095) / 4096 * 4096;
      data = std::aligned_alloc(64, bytes);
      if (!data) {
        bytes = 0;
        throw std::bad_alloc();
      }
    }
    return data;
  }
};
thread_local Scratch scratch;

template <class T>
struct Blocking : Eigen::internal::level3_blocking<T, T> {
  Blocking(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    this->m_mc = rows;
    this->m_nc = columns;
    this->m_kc = depth;
    Eigen::internal::computeProductBlockingSizes<T, T>(this->m_kc, this->m_mc, this->m_nc, std::int64_t{1});
    const std::int64_t left = (this->m_mc * this->m_kc + 15) / 16 * 16;
    this->m_blockA = static_cast<T*>(scratch.of(sizeof(T) * static_cast<std::size_t>(left + this->m_kc * this->m_nc)));
    this->m_blockB = this->m_blockA + left;
  }
};

template <class T, int LeftOrder, int RightOrder>
void multiply(const MatmulTile& tile) {
  Blocking<T> blocking(tile.rows, tile.columns, tile.depth);
  Eigen::internal::general_matrix_matrix_product<std::int64_t, T, LeftOrder, false, T, RightOrder, false,
                                                 Eigen::ColMajor, 1>::run(tile.rows, tile.columns, tile.depth,
                                                                          static_cast<const T*>(tile.left),
                                                                          tile.left_step,
                                                                          static_cast<const T*>(tile.right),
                                                                          tile.right_step, static_cast<T*>(tile.result),
                                                                          1, tile.result_step, T(1), blocking, nullptr);
}

// A matrix times a vector, which streams the matrix once: `right` is the vector, with any step.
template <class T, int Order>
void multiply_vector(const MatmulTile& tile) {
  using Eigen::internal::const_blas_data_mapper;
  using Matrix = const_blas_data_mapper<T, std::int64_t, Order>;
  using Vector = const_blas_data_mapper<T, std::int64_t, Order == Eigen::ColMajor ? Eigen::RowMajor : Eigen::ColMajor>;
  const T* vector = static_cast<const T*>(tile.right);
  if (const std::int64_t step = tile.right_by_rows ? tile.right_step : 1; step != 1) {
    T* packed = static_cast<T*>(scratch.of(sizeof(T) * static_cast<std::size_t>(tile.depth)));
    for (std::int64_t i = 0; i < tile.depth; ++i) packed[i] = vector[i * step];
    vector = packed;
  }
  Eigen::internal::general_matrix_vector_product<std::int64_t, T, Matrix, Order, false, T, Vector, false>::run(
      tile.rows, tile.depth, Matrix(static_cast<const T*>(tile.left), tile.left_step), Vector(vector, 1),
      static_cast<T*>(tile.result), 1, T(1));
}

template <class T>
void run_tile(const MatmulTile& tile) {
  constexpr int columns = Eigen::ColMajor, rows = Eigen::RowMajor;
  T* result = static_cast<T*>(tile.result);
  for (std::int64_t j = 0; j < tile.columns; ++j)
    for (std::int64_t i = 0; i < tile.rows; ++i) result[j * tile.result_step + i] = T(0);
  if (tile.depth == 0) return;
  if (tile.columns == 1) return tile.left_by_rows ? multiply_vector<T, rows>(tile) : multiply_vector<T, columns>(tile);
  if (tile.left_by_rows)
    tile.right_by_rows ? multiply<T, rows, rows>(tile) : multiply<T, rows, columns>(tile);
  else
    tile.right_by_rows ? multiply<T, columns, rows>(tile) : multiply<T, columns, columns>(tile);
}

}  // namespace

const MatmulKernels matmul_kernels{run_tile<float>, run_tile<double>};

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
