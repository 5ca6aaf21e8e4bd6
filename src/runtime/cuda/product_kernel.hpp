// Which of our own kernels for tensor cores does a product of 16-bit matrices on a device, and how: Hopper's
// (weft/detail/cuda_product.inc), or the one of all devices (weft/detail/cuda_whole_by_warps.inc). In: a contraction,
// what the device has, the process's options. Out: the kernel, or nothing.
#pragma once
#include <array>
#include <optional>

#include "runtime/contraction.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/product_cut.hpp"

namespace weft::runtime::cuda {

// A product of known sizes in the terms of the kernels: c lies by rows, of an operand what does not lie side by side is
// a multiple of 8 elements apart.
struct KnownProduct {
  static constexpr std::size_t axes = 3;  // of the batch; those that one stride continues are one
  using Axes = std::array<std::int64_t, axes>;
  DType dtype = DType::bf16;
  bool is_wide = false, has_bias = false;
  bool is_turned =
      false;  // c lies by columns: this is its transpose, of which the contraction's b is the first operand
  bool a_by_rows = false, b_by_rows = false;  // k goes along the rows: a lies [k, m], b lies [k, n]
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_row = 0, b_row = 0, c_row = 0;
  Axes batch{1, 1, 1}, a_batch{}, b_batch{}, c_batch{};  // sizes and strides, the last inside
  std::int64_t items() const { return batch[0] * batch[1] * batch[2]; }
  auto operator<=>(const KnownProduct&) const = default;
};

struct ProductKernel {
  KnownProduct product;
  bool by_warps = false;  // else Hopper's
  int stages = 0;         // by warps: tiles of operands in shared memory
  Cut cut{};
  bool is_cut() const { return cut.groups > 0; }
  std::int64_t workspace() const;  // bytes: sums of segments
  ProductTiles tiles() const;
};

// How many tiles of operands the kernels by warps have in shared memory.
int warp_stages(const DeviceState& state);

// Nothing where no kernel takes the product, or the device is not there.
std::optional<ProductKernel> product_kernel(Device device, const Contraction& contraction);
// The same; nothing where the kernel is not wanted (ProcessOptions::own_kernels) either. It is wanted where there is no
// library; else it may have to be timed against the library.
std::optional<ProductKernel> wanted_product_kernel(Device device, const Contraction& contraction);

}  // namespace weft::runtime::cuda
