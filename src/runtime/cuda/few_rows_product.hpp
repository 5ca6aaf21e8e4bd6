// Products of up to 16 rows with many weights by our own kernel, which reads the weights once at the speed of memory
// (weft/detail/cuda_few_rows.inc). In: sizes, a loaded function. Out: a step that queues it on the device's stream.
#pragma once
#include "runtime/cuda/steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime::cuda {

inline constexpr std::int64_t few_rows_most = 16, few_rows_warps = 16;

// How the kernel's blocks share k. It follows from sizes alone, and so do the roundings.
struct DepthParts {
  std::int64_t slices, k_of_warp;
};
// `depth`: of k that a warp has at most.
DepthParts depth_parts(std::int64_t k, std::int64_t depth);

// Buffers: x [m, k], weights [n, k], the bias if there is one, the result; all sizes are known. Where an operand does
// not begin at a multiple of 16 bytes the library multiplies.
class FewRowsProduct final : public Runnable {
 public:
  FewRowsProduct(const Contraction& contraction, std::int64_t depth, bool begins_early, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  ProductNumbers product_;
  DeviceState& device_;
  Compiled function_;
  std::int64_t depth_;
  bool begins_early_;
  NumberTable::Range offsets_;  // of x and the weights
  std::optional<LibraryProduct> library_;
};

}  // namespace weft::runtime::cuda
