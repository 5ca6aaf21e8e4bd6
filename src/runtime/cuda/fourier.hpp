// Fourier transforms of rows on a device, by cuFFT.
#pragma once
#include "base/factorization.hpp"
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// Buffers: the real and imaginary parts of the operand, and of the result; real points are one buffer. The function
// makes pairs of the two parts and takes these apart again: the library wants them side by side.
class DeviceFourier final : public Runnable {
 public:
  DeviceFourier(const Factorization& what, Dim rows, Dim points, const Preparation& preparation);
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  struct Plan;
  std::shared_ptr<Plan> find(std::int64_t rows, std::int64_t points) const;

  DeviceState& device_;
  DeviceFunction function_;
  Factorization what_;
  NumberTable::Range sizes_;
};

}  // namespace weft::runtime::cuda
