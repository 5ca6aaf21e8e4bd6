// Collectives of a device's memory, by NCCL: one device a process. In: the operand in the device's memory. Out: the
// result there; the work is put on the queue of the call, and may be recorded as any other.
#pragma once
#include "base/collective.hpp"
#include "runtime/processes/collective_step.hpp"

namespace weft::runtime::cuda {

struct DeviceState;

// Buffers: the operand and the result, which may be one.
class DeviceCollective final : public Runnable, public DoesCollectives {
 public:
  // `count`: elements of the operand, which begins at `offset` of its buffer. Throws Error where NCCL is not found.
  DeviceCollective(const CollectiveOperation& what, Dim count, Dim offset, const Preparation& preparation);
  bool is_collective() const override { return true; }
  std::vector<std::string> collectives(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  CollectiveOperation what_;
  DeviceState& device_;
  NumberTable::Range numbers_;
};

}  // namespace weft::runtime::cuda
