// The first few places of the order of rows on a CUDA device, without an order of the rest
// (weft/detail/cuda_select.inc). In: rows. Out: a part of their order.
#pragma once
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// Places of the order from the first one on, at most so many; rows that a sort finishes in one launch are left to it.
inline constexpr std::int64_t most_selected = 1024, least_selected_from = 1025;
bool selects(const SortFields& what);
// A sort, or a selection where only a part of the order is wanted.
std::unique_ptr<Runnable> device_order(const SortFields& what, const Preparation& preparation);

// Buffers: values, a part of their order.
class DeviceSelection final : public Runnable {
 public:
  DeviceSelection(const SortFields& what, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return host_.fits(numbers, rooms);
  }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  bool has_workspace() const override { return true; }
  void run(const StepCall& call) const override;

 private:
  HostSort host_;  // what it reaches
  DeviceFunction function_;
  bool descending_;
  NumberTable::Range sizes_;
};

}  // namespace weft::runtime::cuda
