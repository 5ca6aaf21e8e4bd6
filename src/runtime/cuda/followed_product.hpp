// A product of 16-bit matrices and the pointwise kernel that reads it, in one launch of our own kernel for tensor
// cores. In: functions of both, and of the pointwise kernel by itself. Out: what the two steps give, queued on the
// device's stream: by the library and that kernel where an operand is not aligned, or where they were measured to be
// faster.
#pragma once
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/cuda/tensor_core_product.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime::cuda {

// Buffers: a, b, the bias if there is one, then those of the pointwise kernel in its order, without that of the product
// unless the product is kept. Entry point: the launch of both, then that of the kernel, as inner ones.
class FollowedProduct final : public Runnable {
 public:
  FollowedProduct(const FollowedProductFields& what, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  bool has_workspace() const override { return !keeps_; }
  void run(const StepCall& call) const override;

 private:
  ProductNumbers product_;
  DeviceState& device_;
  std::size_t inputs_, buffers_, place_;  // of the product; of the kernel; the product among those
  bool keeps_;
  std::unique_ptr<const TensorCoreProduct> both_;  // null where the library does both
  std::optional<LibraryProduct> library_with_;
  std::size_t bias_, aux_, result_;  // of the library's, among the kernel's buffers
  mutable std::atomic<bool> refused_ = false;
  std::optional<LibraryProduct> library_;
  std::unique_ptr<const DeviceKernel> kernel_;
};

}  // namespace weft::runtime::cuda
