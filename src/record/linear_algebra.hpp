// Linear algebra and Fourier transforms are a quarter of a program that infers an MLP, and it calls none. So the
// kernels of the host and the derivatives are weak references where they are run, and strong ones in one place,
// src/pipeline/linear_algebra.cpp, which the sources of their public functions refer to: a program that links the
// static library has them where it calls one of these functions, or differentiates an operation that is made of them.
#pragma once

namespace weft {

struct LinearAlgebraParts;
extern const LinearAlgebraParts linear_algebra_parts;  // src/pipeline/linear_algebra.cpp

}  // namespace weft

// In a source that records operations of src/base/factorization.hpp.
#define WEFT_LINKS_LINEAR_ALGEBRA \
  [[gnu::used]] static const void* const links_linear_algebra = &::weft::linear_algebra_parts;
