// A step that runs the program's own code with values in the host's memory. On a device it waits for the queue, and
// copies operands and results. In: how buffers lie, and what to call. Out: a Runnable.
#pragma once
#include <functional>

#include "base/host_value.hpp"
#include "runtime/step.hpp"
#include "weft/dim.hpp"

namespace weft::runtime {

using HostWork = std::function<void(std::span<const HostValue> operands, std::span<const HostValue> results)>;

// Buffers: operands, then results, all row-major.
class HostCallStep final : public Runnable {
 public:
  struct Value {
    DType dtype;
    Shape shape;
  };
  HostCallStep(std::span<const Value> values, std::size_t operands, HostWork work, const Preparation& preparation);
  bool can_be_recorded(bool /*checks_wait*/) const override { return false; }
  void run(const StepCall& call) const override;

 private:
  struct ValueRange {
    DType dtype;
    NumberTable::Range sizes;
  };
  std::vector<ValueRange> values_;
  std::size_t operands_;
  HostWork work_;
  Device device_;
};

}  // namespace weft::runtime
