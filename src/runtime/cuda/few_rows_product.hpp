// Products of up to 16 rows with many weights by our own kernel, which reads the weights once at the speed of memory
// (weft/detail/cuda_few_rows.inc). In: sizes, a loaded function. Out: a step that queues it on the device's stream.
#pragma once
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime::cuda {

inline constexpr std::int64_t few_rows_most = 16, few_rows_warps = 16;

// How the kernel's blocks share k. It follows from sizes alone, and so do the roundings.
struct DepthParts {
  std::int64_t slices, k_of_warp;
};
// `depth`: of k that a warp has at most.
DepthParts depth_parts(std::int64_t k, std::int64_t depth);

// Whether both read the same rows, and one kernel does both.
bool same_rows(const Contraction& first, const Contraction& other);
// Whether the results of two products may be gated in their kernel.
bool can_be_gated(std::span<const Contraction> products, std::int64_t depth);

// Buffers, of each product: x [m, k], weights [n, k], the bias if there is one, the result; all sizes are known. Where
// an operand does not begin at a multiple of 16 bytes the library multiplies; where one product gates another, Error.
class FewRowsProduct final : public Runnable {
 public:
  FewRowsProduct(const FewRowsFields& what, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  struct Part {
    ProductNumbers product;
    std::size_t buffer, buffers;  // of the step's: the first, and how many
    NumberTable::Range offsets;   // of x and the weights
    std::optional<LibraryProduct> library;
  };
  std::vector<Part> parts_;
  DeviceState& device_;
  DeviceFunction function_;
  std::int64_t depth_;
  bool begins_early_, is_gated_;
};

}  // namespace weft::runtime::cuda
