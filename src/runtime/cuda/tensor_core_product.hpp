// Products of 16-bit matrices by our own kernels for the tensor cores (weft/detail/cuda_product.inc,
// cuda_whole_by_warps.inc). In: how the kernel takes the product, a loaded function. Out: c = a b, or a b + bias,
// queued on the device's stream.
#pragma once
#include <atomic>

#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/product_kernel.hpp"
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// Bytes of shared memory that a launch of Hopper's kernel gives a block.
inline constexpr std::int64_t product_shared = 3 * (128 + 256) * 64 * 2 + 128 * 256 * 2 + 2 * 256 * 4 + 1024 + 1023;

class TensorCoreProduct {
 public:
  // `measures`: the first run, where that is not recorded, times it against the library.
  TensorCoreProduct(DeviceState& device, const ProductKernel& kernel, DeviceFunction function, bool measures);
  struct Operands {
    const void *a, *b, *bias;
    void* c;
    void* workspace;  // ProductKernel::workspace()
  };
  // False, and nothing is queued, where an operand does not begin at a multiple of 16 bytes or the library is faster.
  // `library`: null where there is none.
  bool run(const Operands& at, const LibraryProduct* library, const Queue* queue) const;

 private:
  bool launch(const Operands& at, const Queue* queue) const;
  bool launch_by_groups_of_warps(const Operands& at, const Queue* queue) const;
  void launch_by_warps(const Operands& at, const Queue* queue) const;
  bool is_slower(const Operands& at, const LibraryProduct& library, const Queue* queue) const;

  DeviceState& device_;
  ProductKernel kernel_;
  DeviceFunction function_;
  mutable std::atomic<std::int8_t> slower_{-1};  // not known
};

}  // namespace weft::runtime::cuda
