// Depthwise convolutions of 16-bit images with their channels last, by our own kernel (weft/detail/cuda_depthwise.inc).
// In: sizes, a loaded function. Out: a step that queues it on the device's stream.
#pragma once
#include <array>

#include "runtime/convolution.hpp"
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// Whether the kernel does it: one kernel for each channel, channels in packs of 8, images and result with their
// channels last.
bool is_depthwise(const ConvolutionSizes& sizes);

// Positions of a thread, down and across.
inline constexpr std::array<std::int64_t, 2> depthwise_tile = {1, 7};

// Buffers: images, weights, the result.
class DeviceDepthwise final : public Runnable {
 public:
  // `offsets`: of the three, in elements.
  DeviceDepthwise(ConvolutionDims dims, std::span<const Dim> offsets, const Preparation& preparation);
  void run(const StepCall& call) const override;

 private:
  DeviceState& device_;
  DeviceFunction function_;
  ConvolutionDims dims_;
  NumberTable::Range values_, offsets_;
};

}  // namespace weft::runtime::cuda
