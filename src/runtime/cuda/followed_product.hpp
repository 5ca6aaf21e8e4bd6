// A product of 16-bit matrices and the pointwise kernel that reads it, where that is what cuBLASLt does at the end of a
// product (Epilogue of blas.hpp). In: operands of both, and the kernel by itself. Out: what the two steps give, queued
// on the device's stream: one after the other where an operand is not aligned, or the library has no kernel for both.
#pragma once
#include <atomic>

#include "runtime/cuda/steps.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime::cuda {

// Buffers: a, b, the bias if there is one, then those of the pointwise kernel in its order, without that of the product
// unless the product is kept.
class FollowedProduct final : public Runnable {
 public:
  FollowedProduct(const FollowedProductFields& what, const Preparation& preparation);
  // Of a plan of this machine's cache, where nothing else is asked of a generated kernel.
  bool fits(std::span<const std::int64_t>, std::span<const Room> rooms) const override {
    return rooms.size() == inputs_ + what_.buffers - (what_.keeps ? 0 : 1);
  }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  bool has_workspace() const override { return !what_.keeps; }
  void run(const StepCall& call) const override;

 private:
  const FollowedProductFields what_;
  ProductNumbers product_;
  std::size_t inputs_;  // of the product
  std::optional<LibraryProduct> both_, alone_;
  DeviceKernel kernel_;
  mutable std::atomic<bool> refused_ = false;  // by the library: it has no kernel for both
};

}  // namespace weft::runtime::cuda
