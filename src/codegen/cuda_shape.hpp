// Chooses the launch shape of a CUDA kernel. Runs before code generation. In: a kernel and its analysis. Out: packs,
// teams and block sizes, and whether indices fit in 32 bits.
#pragma once
#include "codegen/cpp_expression.hpp"

namespace weft::codegen {

struct CudaShape {
  int width = 1;    // elements of the vector axis in a pack
  int team = 1;     // rows: threads a row; columns: members a column
  int columns = 1;  // columns: threads side by side
  int threads = 256;
  std::int64_t turns = 0;  // rows: packs a thread has in a row, when values are kept in registers; else 0
};

// Where a row's values are kept in registers, `analysis` becomes the one that keeps them.
CudaShape choose_cuda_shape(const loop::Kernel& kernel, Analysis& analysis, const Expressions& expressions);

// The load or store of instruction `i` moves whole packs when packs are wider than one element.
bool is_contiguous_access(const loop::Kernel& kernel, const Analysis& analysis, const Expressions& expressions, int i);

// Every index, with room for a loop variable to step over the end.
bool fits_32_bits(const loop::Kernel& kernel);

Dim extent_of(const loop::Kernel& kernel, const std::vector<int>& axes);
inline Dim divide_up(Dim count, std::int64_t by) { return (count + Dim(by - 1)) / Dim(by); }

}  // namespace weft::codegen
