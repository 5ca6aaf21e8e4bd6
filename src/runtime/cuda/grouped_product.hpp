// Products over groups of rows (weft/groups.hpp) by our own kernels for the tensor cores: Hopper's
// (weft/detail/cuda_groups.inc), or those of any device (weft/detail/cuda_product_by_warps.inc). In: sizes, loaded
// functions. Out: a step that queues one launch on the device's stream, whatever the groups.
#pragma once
#include <optional>

#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// Of Hopper's kernels: the most groups, and bytes of shared memory that a launch gives a block.
inline constexpr int most_groups = 1024;
inline constexpr std::int64_t grouped_shared =
    3 * (128 + 256) * 64 * 2 + 128 * 256 * 2 + 2 * 256 * 4 + 1024 + 2 * most_groups * 4 + 1023;

// x [rows, m] with y [groups, m, n], or y [rows, n]: the result is [rows, n], or [groups, m, n], in order.
struct GroupedProduct {
  DType dtype = DType::bf16;
  bool of_rows = false;  // y is [rows, n]
  bool by_rows = false;  // columns of y[i] lie beside each other, and not its rows
  int warp_stages = 0;   // by warps, with so many stages; 0: by Hopper's kernels
  Dim rows, m, n, groups;
  Dim x_row, y_group, y_row;   // strides; y_row: of what does not lie side by side
  std::array<Dim, 4> offsets;  // of x, y, ends and the result
};

// GroupedProduct::warp_stages of a product, of which m and n are multiples of 8. Nothing where the device is not there.
// Hopper's kernels are faster, but take no product of fewer than 64 rows or columns of a matrix, nor many groups.
std::optional<int> warp_stages_of(Device device, const GroupedProduct& product);

// Buffers: x, y, where groups end, the result.
class DeviceGroupedProduct final : public Runnable {
 public:
  DeviceGroupedProduct(const GroupedProduct& product, const Preparation& preparation);
  void run(const StepCall& call) const override;

 private:
  struct Sizes;
  struct Places;
  void launch_by_groups_of_warps(const Sizes& sizes, const Places& at, const Queue* queue) const;
  void launch_by_warps(const Sizes& sizes, const Places& at, const Queue* queue) const;

  DeviceState& device_;
  DeviceFunction function_;
  DType dtype_;
  bool of_rows_, by_rows_, by_warps_;
  NumberTable::Range sizes_;
};

}  // namespace weft::runtime::cuda
