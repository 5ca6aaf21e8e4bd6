// Products of 8-bit floats with scales through cuBLASLt, whole, for GPUs from sm_89 on. In: a [m, k] and b [n, k] by
// rows, scales in f32. Out: c [m, n] by rows = a b^T times the scales, + bias, with sums in f32, rounded once.
#pragma once
#include <array>
#include <memory>

#include "runtime/cuda/device.hpp"
#include "runtime/step.hpp"

namespace weft::runtime::cuda {

struct ScaledProduct {
  DType a = DType::f8e4m3, b = DType::f8e4m3, result = DType::bf16;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, b_row = 0;  // strides of rows, whose elements lie side by side
  bool by_rows = false;               // a scale for each row of a and of b; else one each
  bool has_bias = false;              // [n], of the result's dtype
  auto operator<=>(const ScaledProduct&) const = default;
};

// Whether the device is there, and the library has a kernel for the product. It is asked once, and what it says is
// kept.
bool has_scaled_product(Device device, const ScaledProduct& product);

// Buffers: a, b, the scales of a and of b, the bias if there is one, c. All begin at multiples of 16 bytes.
class DeviceScaledProduct final : public Runnable {
 public:
  DeviceScaledProduct(const ScaledProduct& product, std::span<const Dim> offsets, const Preparation& preparation);
  void run(const StepCall& call) const override;

 private:
  ScaledProduct product_;
  DeviceState& device_;
  NumberTable::Range offsets_;  // of the buffers, in elements
};

}  // namespace weft::runtime::cuda
