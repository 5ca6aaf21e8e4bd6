// A product of 16-bit matrices and the pointwise kernel that reads it, where that is what cuBLASLt does at the end of a
// product (Epilogue of blas.hpp). In: operands of both, and the kernel by itself. Out: what the two steps give, queued
// on the device's stream: one after the other where an operand is not aligned, or the library has no kernel for both.
#pragma once
#include <atomic>

#include "runtime/cuda/steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime::cuda {

inline constexpr std::size_t most_followed_buffers = 16;

// What a call is. No plan on disk has one: only where there is a device is it known whether both are one kernel.
struct FollowedProductCall {
  Contraction product;
  std::size_t buffers = 0, place = 0;  // of the pointwise kernel, and which of them is the product
  bool keeps = false;                  // the product is a value of its own too
  std::vector<Dim> sizes;              // the slots of the pointwise kernel
  Epilogue epilogue = Epilogue::none;
  std::size_t bias = 0, aux = 0, result = 0;  // its operands among the kernel's buffers; `buffers`: there is none
};

// Buffers: a, b, the bias if there is one, then those of the pointwise kernel in its order, without that of the product
// unless the product is kept.
class FollowedProduct final : public Runnable {
 public:
  FollowedProduct(const FollowedProductCall& what, const Preparation& preparation);
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  bool has_workspace() const override { return !what_.keeps; }
  void run(const StepCall& call) const override;

 private:
  const FollowedProductCall what_;
  ProductNumbers product_;
  std::size_t inputs_;  // of the product
  std::optional<LibraryProduct> both_, alone_;
  DeviceKernel kernel_;
  mutable std::atomic<bool> refused_ = false;  // by the library: it has no kernel for both
};

}  // namespace weft::runtime::cuda
