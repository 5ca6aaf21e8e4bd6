// Which pointwise kernels are what a library, or our own kernel of two products, does at the end. In: a pointwise
// kernel that reads products. Out: the function, and where its operands are among the buffers.
#pragma once
#include <optional>

#include "loop/kernel.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/convolution.hpp"

namespace weft::providers {

struct KnownEpilogue {
  runtime::cuda::Epilogue function;
  int bias, aux, result;  // buffers of the kernel; bias, aux: -1 where there is none
};
// `product`: the buffer of the product, of so many elements in rows of `columns`; `keeps`: it is a value of its own
// too. The kernel's function is compared with the library's at some points. It is made of sums, products,
// quotients, tanh and exp of floats alone, without a branch: two such functions that agree there are one.
std::optional<KnownEpilogue> known_epilogue(const loop::Kernel& kernel, int product, Dim elements, Dim columns,
                                            bool keeps);

// What a kernel adds to an image whose channels are its columns, and the activation of the sum.
struct KnownImageEpilogue {
  runtime::cuda::ConvolutionEpilogue epilogue;
  std::vector<int> added;  // buffers of the kernel: the image if there is one, the vectors of a number a channel
  int result;
};
// As known_epilogue, of relu, silu and gelu. An activation is compared at some points, but relu, which has a branch:
// the kernel is the operation itself.
std::optional<KnownImageEpilogue> known_image_epilogue(const loop::Kernel& kernel, int image, Dim elements,
                                                       Dim channels);

struct KnownGate {
  int gate, result;  // buffers of the kernel
};
// Whether the kernel is silu(gate) * other of two products, each of so many elements, and nothing else.
std::optional<KnownGate> known_gate(const loop::Kernel& kernel, int first, int second, Dim elements);

}  // namespace weft::providers
