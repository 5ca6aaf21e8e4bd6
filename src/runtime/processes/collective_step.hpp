// A collective as a step on the host: over the process group's own way (process_group.hpp).
#pragma once
#include <atomic>
#include <span>
#include <string>

#include "base/collective.hpp"
#include "runtime/step.hpp"

namespace weft::runtime {

// ProcessGroup::agree of the group that this process is in; null: it is alone. A program without collectives links
// none.
inline std::atomic<void (*)(std::span<const std::string> collectives)> compare_collectives = nullptr;

// A step that does something together with the other processes, or a loop whose bodies have such steps.
class DoesCollectives {
 public:
  // Each in its order, as describe() says it; what a loop's body does, once.
  virtual std::vector<std::string> collectives(std::span<const std::int64_t> numbers) const = 0;

 protected:
  ~DoesCollectives() = default;
};

// Buffers: the operand and the result, which may be one.
class HostCollective final : public Runnable, public DoesCollectives {
 public:
  // `count`: elements of the operand, which begins at `offset` of its buffer.
  HostCollective(const CollectiveOperation& what, Dim count, Dim offset, const Preparation& preparation);
  bool is_collective() const override { return true; }
  std::vector<std::string> collectives(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  CollectiveOperation what_;
  NumberTable::Range numbers_;
};

}  // namespace weft::runtime
