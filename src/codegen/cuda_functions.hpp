// Steps that are library calls on the host and hand-written kernels on a device; for Fourier transforms and matrices,
// what makes the operands of the device's library. Their templates are in weft/detail/cuda_*.inc. In: dtypes and sizes.
// Out: functions. Those of attention are in cuda_attention.hpp.
#pragma once
#include <array>

#include "codegen/cuda_function.hpp"
#include "weft/dtype.hpp"

namespace weft::codegen {

CudaFunction cuda_scatter_amax(DType dtype);
CudaFunction cuda_argsort(DType dtype);
// A part of an order (weft/detail/cuda_select.inc).
CudaFunction cuda_select(DType dtype);
CudaFunction cuda_fourier(DType dtype);
CudaFunction cuda_matrices(DType dtype);
// `checked`: it writes nothing where the device's error word, its last buffer, is not 0.
CudaFunction cuda_update_slice(DType dtype, bool checked);
// Rows of a table replaced, or added to: scatter_add as well.
CudaFunction cuda_update_rows(DType dtype, bool adds, bool checked);
// Sets the error word where a check does not hold.
CudaFunction cuda_check();

// A product on the tensor cores of sm_90a (weft/detail/cuda_product.inc). Of this and the next one the shared memory is
// the runtime's to say.
struct CudaProduct {
  DType dtype = DType::bf16;  // or f16
  bool a_by_rows = false,
       b_by_rows = false;  // the first operand lies [k, m], else [m, k]; the second [k, n], else [n, k]
  bool has_bias = false;
  bool in_parts = false;  // blocks share k
};
CudaFunction cuda_product(const CudaProduct& call);
// A product over groups of rows (weft/detail/cuda_groups.inc), likewise of sm_90a.
enum class GroupsKernel : std::uint8_t {
  rows,          // each row times the matrix of its group, which lies [n, k]
  rows_by_rows,  // [k, n]
  sums,          // products of the rows of each group
};
CudaFunction cuda_groups(DType dtype, GroupsKernel kernel);
// The same for sm_80 and up (weft/detail/cuda_product_by_warps.inc). `stages`: 3 or 4, tiles of operands in shared
// memory.
CudaFunction cuda_groups_by_warps(DType dtype, GroupsKernel kernel, int stages);

// A product of matrices likewise (weft/detail/cuda_whole_by_warps.inc). The result is f32 where it is wide.
CudaFunction cuda_product_by_warps(const CudaProduct& call, bool is_wide, int stages);

// A product of few rows, or several (weft/detail/cuda_few_rows.inc). `depth`: of k that a warp has; `stages`: tiles of
// weights that are on their way. The result is f32 where it is wide.
struct CudaFewRows {
  DType dtype = DType::bf16;  // or f16
  bool is_wide = false;
  std::int64_t depth = 128, stages = 5;
  bool has_copy_engine = true;  // code is for sm_90 and later
  bool is_gated = false;        // of two products silu(first) * second
};
CudaFunction cuda_few_rows(const CudaFewRows& call);
std::int64_t few_rows_shared(std::int64_t depth, std::int64_t stages, bool has_copy_engine);

// A product of up to 64 rows by clusters of sm_90a (weft/detail/cuda_cluster_product.inc). `columns`: of the result
// that a cluster has, 24, 48, 72 or 96. `depth`: of k that a block has. `parts`: blocks of a cluster.
struct CudaClusterProduct {
  DType dtype = DType::bf16;  // or f16
  std::int64_t columns = 96, depth = 192, parts = 4;
  bool has_gelu = false;  // GELU by tanh of the product
};
CudaFunction cuda_cluster_product(const CudaClusterProduct& call);

// A depthwise convolution of images with their channels last (weft/detail/cuda_depthwise.inc); pairs are down, across.
struct CudaDepthwise {
  DType dtype = DType::bf16;  // or f16
  std::array<std::int64_t, 2> kernel = {3, 3}, steps = {1, 1}, tile = {1, 7};
};
CudaFunction cuda_depthwise(const CudaDepthwise& call);

}  // namespace weft::codegen
