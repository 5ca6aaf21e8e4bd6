// Kernels on contiguous blocks, and the joining of partial results: what single primitives and programs share.
#pragma once
#include "base/reduce_chunks.hpp"
#include "eager/eager.hpp"
#include "eager/kernels.hpp"

namespace weft::eager {

PointwiseKernel cast_kernel(DType from, DType to);
// The kernel of a pointwise primitive or a cast on operands, of which the last is computed in `from`. Sets the dtype in
// which it gives the result.
PointwiseKernel kernel_of(Op op, DType from, DType to, DType& computed);

// Runs a kernel over any number of elements: the last ones, fewer than a vector, go through padded copies.
void run_kernel(PointwiseKernel kernel, void* result, std::size_t result_bytes, const VectorOperand* operands,
                const std::size_t* operand_bytes, int arity, std::int64_t count);

// ---- rows by index (index.cpp) --------------------------------------------------------------------------------------

// Throws where an index of a gather is not in [0, rows).
void check_rows(const std::int64_t* index, std::int64_t count, std::int64_t rows, Loc loc);
// result[i] = table[picks[i]] for i in [begin, end), of rows of so many bytes.
void take_rows(const void* table, const std::int64_t* picks, std::size_t bytes, std::int64_t begin, std::int64_t end,
               void* result);

// ---- reductions (weft/detail/reduce.inc) ----------------------------------------------------------------------------

ReduceKernel reduce_kernel(Op op, DType accumulated);
// What a column begins with.
void fill_start(Op op, DType accumulated, void* totals, std::int64_t count);
// The pointwise primitive that takes one more element in.
Op combining(Op op);
// result[outer, inner] of partial[outer, chunks, inner].
void join_partials(Op op, DType accumulated, const void* partial, void* result, std::int64_t outer, std::int64_t chunks,
                   std::int64_t inner);

}  // namespace weft::eager
