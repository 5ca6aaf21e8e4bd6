// The eager executor's kernels: loops over contiguous memory, compiled ahead of time once an ISA and expanded from
// weft/ops.def. In: a primitive's row and a dtype. Out: a function. Plain data and no inline functions, since the
// *.isa.cpp files, which must share nothing with each other, read this header too.
#pragma once
#include <cstdint>

#include "runtime/host/isa_namespaces.hpp"
#include "weft/dtype.hpp"

namespace weft::eager {

// Kernels walk whole vectors of 16 elements; the caller pads what is left (pointwise.cpp).
inline constexpr std::int64_t vector_length = 16;

// `step` is 16, or 0 for an operand of one value, which is then repeated 16 times.
struct VectorOperand {
  const void* data;
  std::int64_t step;
};
using PointwiseKernel = void (*)(void* result, const VectorOperand* operands, std::int64_t vectors);

// Folds up to 4096 elements of a row into one (weft/detail/reduce.inc).
using ReduceKernel = void (*)(const void* elements, std::int64_t count, void* result);

// The sum of so many elements, each times the scale.
using ScaledSumKernel = void (*)(const void* elements, std::int64_t count, double scale, void* result);
// Folds rows of `width` columns, at most narrow_columns, which lie one after the other, into one row of results for
// each chunk of rows.
using NarrowReduceKernel = void (*)(const void* elements, std::int64_t rows, std::int64_t width, void* results);
inline constexpr std::int64_t narrow_columns = 8;

// The results up to each element of a row (row_scan of weft/detail/reduce.inc).
using ScanKernel = void (*)(const void* elements, std::int64_t count, void* results);
// The same of up to 128 columns; `stride` elements from row to row.
using ColumnScanKernel = void (*)(const void* elements, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                  void* results);

// Elements first .. first + 16 * vectors of a draw.
using RandomKernel = void (*)(void* result, std::int64_t seed, std::int64_t offset, std::int64_t first,
                              std::int64_t vectors);

// Positions of the table's rows: those of Op.
enum Row : int {
#define WEFT_POINTWISE(name, ...) row_##name,
#define WEFT_STRUCTURAL(name, ...) row_##name,
#include "weft/ops.def"
  row_count
};

// Null where a primitive is not defined on a dtype, or is computed through another one (f16 and bf16 through f32).
struct Kernels {
  PointwiseKernel pointwise[row_count][dtype_count];  // by the operands' dtype; `where`: of its values
  PointwiseKernel cast[dtype_count][dtype_count];     // from, to
  ReduceKernel reduce[row_count][dtype_count];        // f32, f64, i64
  ScaledSumKernel scaled_sum[dtype_count];            // f32, f64
  NarrowReduceKernel narrow_reduce[row_count][dtype_count];
  ScanKernel scan[row_count][dtype_count];  // f32, f64, i64
  ColumnScanKernel column_scan[row_count][dtype_count];
  RandomKernel random_bits[dtype_count];  // i32, i64
};

// What each ISA's files put into its table.
WEFT_FOR_EACH_ISA(void put_arithmetic(Kernels& kernels); void put_functions(Kernels& kernels);
                  void put_logic(Kernels& kernels); void put_casts(Kernels& kernels);
                  void put_reductions(Kernels& kernels); void put_random(Kernels& kernels);)

// Those of the CPU that the process runs on.
const Kernels& kernels();

}  // namespace weft::eager
