// Products over groups of rows (weft/groups.hpp) by our own kernels for the tensor cores (weft/detail/cuda_groups.inc).
// In: sizes, loaded functions. Out: a step that queues one launch on the device's stream, whatever the groups.
#pragma once
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

inline constexpr int most_groups = 1024;
// Bytes of shared memory that a launch gives a block.
inline constexpr std::int64_t grouped_shared =
    3 * (128 + 256) * 64 * 2 + 128 * 256 * 2 + 2 * 256 * 4 + 1024 + 2 * most_groups * 4 + 1023;

// x [rows, m] with y [groups, m, n], or y [rows, n]: the result is [rows, n], or [groups, m, n], in order.
struct GroupedProduct {
  DType dtype = DType::bf16;
  bool of_rows = false;  // y is [rows, n]
  bool by_rows = false;  // columns of y[i] lie beside each other, and not its rows
  Dim rows, m, n, groups;
  Dim x_row, y_group, y_row;   // strides; y_row: of what does not lie side by side
  std::array<Dim, 4> offsets;  // of x, y, ends and the result
};

// Whether the device is there, and one that the kernels are written for.
bool has_grouped_products(Device device);

// Buffers: x, y, where groups end, the result.
class DeviceGroupedProduct final : public Runnable {
 public:
  DeviceGroupedProduct(const GroupedProduct& product, const Preparation& preparation);
  void run(const StepCall& call) const override;

 private:
  DeviceState& device_;
  DeviceFunction function_;
  DType dtype_;
  bool of_rows_, by_rows_;
  NumberTable::Range sizes_;
};

}  // namespace weft::runtime::cuda
