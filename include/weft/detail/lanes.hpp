// The lanes of lanes.inc and what follows it, for code that is compiled with the host program: the eager kernels and
// scalar expressions in user files. The inner namespace says which ISA the file is compiled for, so that files of one
// program compiled with different flags never share a function.
#pragma once

namespace weft::lanes {
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
inline namespace avx512 {
#elif defined(__AVX2__) && defined(__FMA__)
inline namespace avx2 {
#else
inline namespace baseline {
#endif
// Each needs those before it. g++ 12 calls the int that a template has for a number of lanes a change of sign where it
// is the length of an array.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
// clang-format off
#include "weft/detail/lanes_native.inc"
#include "weft/detail/lanes.inc"
#include "weft/detail/lanes_memory.inc"
#include "weft/detail/lanes_functions.inc"
#include "weft/detail/lanes_math.inc"
#include "weft/detail/lanes_trig.inc"
#include "weft/detail/lanes_special.inc"
#include "weft/detail/lanes_power.inc"
#include "weft/detail/lanes_random.inc"
#include "weft/detail/reduce_chunks.inc"
#include "weft/detail/reduce.inc"
#pragma GCC diagnostic pop
// clang-format on
}  // namespace
}  // namespace weft::lanes

#undef WEFT_VECTOR_BYTES
#undef WEFT_INLINE
#undef WEFT_FRIEND
#undef WEFT_SPLIT
#undef WEFT_FLOATS_THROUGH_DOUBLE
#undef WEFT_ALL16
#undef WEFT_ALL8
