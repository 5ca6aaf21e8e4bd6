// One element as the reference interpreter computes it: pointwise primitives by the `reference` column of weft/ops.def,
// casts, and the bits of each dtype. In: numbers that have their dtype's precision. Out: exact or float64 results,
// which the caller rounds to the dtype.
#pragma once
#include "interpret/reference_math.hpp"
#include "ir/table.hpp"

namespace weft::reference {

// `real` for floating dtypes, `integer` for the others.
struct Number {
  double real = 0;
  Integer integer = 0;
};

// The integer in its dtype, modulo 2^bits; bool is true for all but 0.
std::int64_t wrap(DType dtype, Integer value);

// `dtype` is that of the operands x[0], x[1], x[2] (of `where`: of its values).
Number pointwise(Op op, DType dtype, const Number* x);

// Floats truncate to integers and saturate, NaN gives 0; integers wrap; anything but zero is true.
Number cast(DType to, DType from, Number x);

Number decode(DType dtype, std::uint64_t bits);
std::uint64_t encode(DType dtype, Number x);

}  // namespace weft::reference
