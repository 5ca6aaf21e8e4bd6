// Which pointwise kernels are what a library does at the end of a product. In: a kernel over known sizes that reads a
// product, as codegen::may_be_epilogue takes it. Out: the function, and where its operands are among the buffers.
#pragma once
#include <optional>

#include "loop/kernel.hpp"
#include "runtime/cuda/blas.hpp"

namespace weft::providers {

struct KnownEpilogue {
  runtime::cuda::Epilogue function;
  int bias, aux, result;  // buffers of the kernel; bias, aux: -1 where there is none
};
// `product`: the buffer of the product; `keeps`: it is a value of its own too. The kernel's function is compared with
// the library's at some points. It is made of sums, products and tanh of floats alone, without a branch: two such
// functions that agree there are one.
std::optional<KnownEpilogue> known_epilogue(const loop::Kernel& kernel, int product, bool keeps);

}  // namespace weft::providers
