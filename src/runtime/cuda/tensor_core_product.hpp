// Products of 16-bit matrices by our own kernel for the tensor cores (weft/detail/cuda_product.inc). In: operands with
// unit stride along an axis, in memory that the copy engine reads. Out: c = a b, or a b + bias, queued on the device's
// stream.
#pragma once
#include <atomic>
#include <optional>

#include "runtime/contraction.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/matmul.hpp"

namespace weft::runtime::cuda {

// Bytes of shared memory that a launch gives a block.
inline constexpr std::int64_t product_shared = 3 * (128 + 256) * 64 * 2 + 128 * 256 * 2 + 2 * 256 * 4 + 1024 + 1023;

// How b lies: [k, n] or [n, k]. Nothing where the kernel does not take the product, or the device is not there or none
// that it is written for.
std::optional<bool> tensor_cores_take(Device device, const Contraction& product);
// The same; nothing where the kernel is not wanted (ProcessOptions::own_kernels) either.
std::optional<bool> tensor_cores_read_by_rows(Device device, const Contraction& product);
class TensorCoreProduct {
 public:
  // Of one that the kernel takes. The first run, where that is not recorded, times it against the library.
  TensorCoreProduct(DeviceState& device, const Contraction& product, DeviceFunction function);
  // False, and nothing is queued, where an operand does not begin at a multiple of 16 bytes or the library is faster.
  bool run(const void* a, const void* b, const void* bias, void* c, const LibraryProduct& library,
           const Queue* queue) const;

 private:
  bool launch(const void* a, const void* b, const void* bias, void* c, const Queue* queue) const;
  bool is_slower(const void* a, const void* b, const void* bias, void* c, const LibraryProduct& library,
                 const Queue* queue) const;

  DeviceState& device_;
  Matmul product_;
  bool by_rows_;
  DeviceFunction function_;
  mutable std::atomic<std::int8_t> slower_{-1};  // not known
};

}  // namespace weft::runtime::cuda
