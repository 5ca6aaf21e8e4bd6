// A collective as a step on the host: over the process group's own way (process_group.hpp).
#pragma once
#include "base/collective.hpp"
#include "runtime/step.hpp"

namespace weft::runtime {

// Buffers: the operand and the result, which may be one.
class HostCollective final : public Runnable {
 public:
  // `count`: elements of the operand, which begins at `offset` of its buffer.
  HostCollective(const CollectiveOperation& what, Dim count, Dim offset, const Preparation& preparation);
  bool is_collective() const override { return true; }
  void run(const StepCall& call) const override;

 private:
  CollectiveOperation what_;
  NumberTable::Range numbers_;
};

}  // namespace weft::runtime
