// A convolution of 16-bit images with their channels last and the pointwise kernel that reads it, where that is what
// cuDNN does with the sums (ConvolutionEpilogue). In: operands of both, and the kernel by itself. Out: what the two
// steps give, but rounded once, queued on the device's stream: one after the other where an operand is not aligned, or
// the library has no kernel for both.
#pragma once
#include "runtime/cuda/convolution.hpp"
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// What a call is. No plan on disk has one: only where there is a device is it known whether both are one kernel.
struct FollowedConvolutionCall {
  ConvolutionDims dims;      // all known
  std::vector<Dim> offsets;  // of DeviceConvolution
  bool measures = false;     // which of the library's kernels is fastest
  std::size_t buffers = 0;   // of the pointwise kernel
  std::size_t place = 0;     // which of them is the convolution
  std::vector<Dim> sizes;    // the slots of the pointwise kernel
  ConvolutionEpilogue epilogue;
  // Among the kernel's buffers: the image that is added if there is one, the vectors; the result.
  std::vector<std::size_t> added;
  std::size_t result = 0;
};

// Buffers: both operands of the convolution, its bias if there is one, then those of the pointwise kernel in its order,
// without that of the convolution.
class FollowedConvolution final : public Runnable {
 public:
  FollowedConvolution(FollowedConvolutionCall what, const Preparation& preparation);
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  std::size_t between() const;  // bytes of the convolution's result, where it has memory

  const FollowedConvolutionCall what_;
  const ConvolutionSizes sizes_;
  Device device_;
  std::shared_ptr<const LibraryConvolution> both_;  // null: the library has no kernel for both after all
  DeviceConvolution alone_;
  DeviceKernel kernel_;
};

}  // namespace weft::runtime::cuda
