// One tile of a matrix product by Eigen's kernels, compiled once an ISA. Eigen's own threads are off, and its packed
// panels lie in memory that the caller keeps from tile to tile.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 says it of its own AVX-512 header, not of us
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#include "runtime/matmul.hpp"

#include <Eigen/Core>
#include <algorithm>

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

// Eigen's loop over slices of the depth.
template <class T, int LeftOrder, int RightOrder>
void multiply(const MatmulTile& tile) {
  using Int = std::int64_t;
  using Traits = Eigen::internal::gebp_traits<T, T>;
  using LeftMapper = Eigen::internal::const_blas_data_mapper<T, Int, LeftOrder>;
  using RightMapper = Eigen::internal::const_blas_data_mapper<T, Int, RightOrder>;
  using ResultMapper = Eigen::internal::blas_data_mapper<T, Int, Eigen::ColMajor, Eigen::Unaligned, 1>;
  Eigen::internal::gemm_pack_lhs<T, Int, LeftMapper, Traits::mr, Traits::LhsProgress,
                                 typename Traits::LhsPacket4Packing, LeftOrder>
      pack_left;
  Eigen::internal::gemm_pack_rhs<T, Int, RightMapper, Traits::nr, RightOrder> pack_right;
  Eigen::internal::gebp_kernel<T, T, Int, ResultMapper, Traits::mr, Traits::nr, false, false> block_product;

  Int slice = tile.depth, rows = 512, columns = 256;  // not this tile's: neighbours share panels, cut alike
  Eigen::internal::computeProductBlockingSizes<T, T>(slice, rows, columns, Int{1});
  slice = std::min(slice, MatmulPanels::kept_depth);
  const bool kept = tile.depth <= MatmulPanels::kept_depth;
  const Int left_width = MatmulPanels::width(tile.rows), right_width = MatmulPanels::width(tile.columns);
  T* const left_begin = reinterpret_cast<T*>(tile.left_panel);
  T* const right_begin = reinterpret_cast<T*>(tile.right_panel);
  const LeftMapper left_matrix(static_cast<const T*>(tile.left), tile.left_step);
  const RightMapper right_matrix(static_cast<const T*>(tile.right), tile.right_step);
  const ResultMapper result(static_cast<T*>(tile.result), tile.result_step, 1);
  for (Int k = 0; k < tile.depth; k += slice) {
    const Int depth = std::min(slice, tile.depth - k);
    T* const left = left_begin + (kept ? k : 0) * left_width;
    T* const right = right_begin + (kept ? k : 0) * right_width;
    if (!kept || !tile.left_packed) pack_left(left, left_matrix.getSubMapper(0, k), depth, tile.rows);
    if (!kept || !tile.right_packed) pack_right(right, right_matrix.getSubMapper(k, 0), depth, tile.columns);
    block_product(result, left, right, tile.rows, depth, tile.columns, T(1));
  }
}

// A matrix times a vector, which streams the matrix once: `right` is the vector, with any step.
template <class T, int Order>
void multiply_vector(const MatmulTile& tile) {
  using Eigen::internal::const_blas_data_mapper;
  using Matrix = const_blas_data_mapper<T, std::int64_t, Order>;
  using Vector = const_blas_data_mapper<T, std::int64_t, Order == Eigen::ColMajor ? Eigen::RowMajor : Eigen::ColMajor>;
  const T* vector = static_cast<const T*>(tile.right);
  if (const std::int64_t step = tile.right_by_rows ? tile.right_step : 1; step != 1) {
    T* packed = reinterpret_cast<T*>(tile.left_panel);
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

void find_caches() { Eigen::l1CacheSize(); }

}  // namespace

const MatmulKernels matmul_kernels{run_tile<float>, run_tile<double>, find_caches};

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
