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
