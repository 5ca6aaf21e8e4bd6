// CUDA C++ for the GPU: the loop IR's second handler. In: kernels of the loop IR. Out: self-contained source text for
// NVRTC: the prelude (weft/detail/cuda.inc) and one `extern "C" __global__` function a kernel, with the grid that it
// wants. The analysis (phases, walks over the inner axes, kinds of indices) is the C++ generator's own.
//
// How a kernel is laid on the grid, by its form:
//   pointwise  a thread has up to 8 neighbouring elements of the vector axis, moved in 16-byte words
//   rows       a team of threads a row (a part of a warp for short rows, a block for long ones), joined by shuffles and
//              shared memory in a fixed order; what several phases need stays in registers, or in shared memory, where
//              a row's share fits
//   columns    neighbouring threads have neighbouring columns; the rows are dealt to the block's members
// Every loop over units strides by the grid, so any grid is right. Indices have 32 bits where bounds prove that they
// fit, else 64. Numerics: as the head of cuda.inc says; the order of roundings depends on sizes and text alone.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "loop/kernel.hpp"

namespace weft::codegen {

struct CudaKernel {
  std::string text;
  int threads = 1;          // of a block
  Dim blocks = 1;           // as many as there is work for, over the kernel's size slots
  std::int64_t shared = 0;  // bytes of shared memory that a launch gives a block
  bool strides = true;      // a block that walks on has less to do than new ones
};
// Of `sets` > 1 the function takes a table of so many sets of buffers and sizes, and a block works for one of them.
CudaKernel generate_cuda(const loop::Kernel& kernel, std::size_t sets = 1);

// Steps that are library calls on the host and small kernels here; for Fourier transforms and matrices, what makes the
// operands of the device's library. Their names are the functions' names.
std::string cuda_scatter_amax_name(DType dtype);
std::string cuda_scatter_amax(DType dtype);
std::string cuda_argsort_name(DType dtype);
std::string cuda_argsort(DType dtype);
// A part of an order (weft/detail/cuda_select.inc).
std::string cuda_select_name(DType dtype);
std::string cuda_select(DType dtype);
std::string cuda_fourier_name(DType dtype);
std::string cuda_fourier(DType dtype);
std::string cuda_matrices_name(DType dtype);
std::string cuda_matrices(DType dtype);
// `checked`: it writes nothing where the device's error word, its last buffer, is not 0.
std::string cuda_update_slice_name(DType dtype, bool checked);
std::string cuda_update_slice(DType dtype, bool checked);
// Rows of a table replaced, or added to: scatter_add as well.
std::string cuda_update_rows_name(DType dtype, bool adds, bool checked);
std::string cuda_update_rows(DType dtype, bool adds, bool checked);
// A product on the tensor cores of sm_90a (runtime/cuda/tensor_core_product.hpp). `by_rows`: its second operand lies
// [k, n], else [n, k].
std::string cuda_product_name(DType dtype, bool by_rows, bool has_bias);
std::string cuda_product(DType dtype, bool by_rows, bool has_bias);
// A product over groups of rows (weft/detail/cuda_groups.inc), likewise.
enum class GroupsKernel : std::uint8_t {
  rows,          // each row times the matrix of its group, which lies [n, k]
  rows_by_rows,  // [k, n]
  sums,          // products of the rows of each group
};
std::string cuda_groups_name(DType dtype, GroupsKernel kernel);
std::string cuda_groups(DType dtype, GroupsKernel kernel);
// A product of few rows, or several (weft/detail/cuda_few_rows.inc). `depth`: of k that a warp has; `stages`: tiles of
// weights that are on their way. The result is f32 where it is wide.
struct CudaFewRows {
  DType dtype = DType::bf16;  // or f16
  bool is_wide = false;
  std::int64_t depth = 128, stages = 5;
  bool has_copy_engine = true;  // code is for sm_90 and later
  bool is_gated = false;        // of two products silu(first) * second
};
struct CudaFewRowsKernel {
  std::string name, text;
  int threads;
  std::int64_t shared;
};
CudaFewRowsKernel cuda_few_rows(const CudaFewRows& call);
std::int64_t few_rows_shared(std::int64_t depth, std::int64_t stages, bool has_copy_engine);
// A depthwise convolution of images with their channels last (weft/detail/cuda_depthwise.inc); pairs are down, across.
struct CudaDepthwise {
  DType dtype = DType::bf16;  // or f16
  std::array<std::int64_t, 2> kernel = {3, 3}, steps = {1, 1}, tile = {1, 7};
};
struct CudaDepthwiseKernel {
  std::string name, text;
  int threads;
};
CudaDepthwiseKernel cuda_depthwise(const CudaDepthwise& call);
inline constexpr const char* cuda_check_name = "weft_check";
std::string cuda_check();

// Functions as programs for parallel compilation, each with its prelude: function i is in program i % their number.
// Their number is no matter of the machine, so that caches and packages have the same images everywhere: as many as a
// machine with a GPU has processors, and no more than six functions in each.
std::size_t cuda_unit_count(std::size_t functions);
std::vector<std::string> cuda_units(std::span<const std::string> functions, std::size_t count);
inline std::vector<std::string> cuda_units(std::span<const std::string> functions) {
  return cuda_units(functions, cuda_unit_count(functions.size()));
}
// The order of functions in which `count` programs take about the same time each.
std::vector<std::size_t> order_for_units(std::span<const std::string> functions, std::size_t count);

}  // namespace weft::codegen
