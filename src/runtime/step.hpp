// A step of a plan: work on buffers that is done whole, by whoever has offered to do it (src/providers). In: the step's
// description. Out: a Runnable, which every call of the plan runs. The plan knows nothing else of a step.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage.hpp"
#include "runtime/fields.hpp"
#include "runtime/plan_number.hpp"
#include "runtime/room.hpp"

namespace weft::runtime {

// Functions that were compiled for one target. They stay loaded as long as somebody holds this.
class Functions {
 public:
  virtual ~Functions() = default;
  // On the host the address, on a device the driver's handle. Throws InternalError where none has the name.
  virtual void* entry(const std::string& name) const = 0;
};

// The compiled function that a step calls. The name is empty where it calls none.
struct EntryPoint {
  std::string name;
  Dim units = 1;            // pieces of its work; on a device the blocks that it wants. Over the plan's symbols
  int threads = 0;          // on a device: of a block
  std::int64_t shared = 0;  // on a device: bytes of shared memory of a block, besides what the function declares
  bool strides = true;  // on a device: blocks beyond what it can hold at once are not launched, the others stride on
  std::vector<EntryPoint> inner = {};  // of the steps that the step runs, one after the other
  std::vector<Dim> sets = {};          // on a device: the blocks of each set of buffers, where it takes a table of them
  static auto fields(auto& self) {
    return std::tie(self.name, self.units, self.threads, self.shared, self.strides, self.inner, self.sets);
  }
};

// What a step has while it is made ready.
struct Preparation {
  Device device;
  NumberTable& numbers;                        // sizes go in, places in the table of each call come out
  std::shared_ptr<const Functions> functions;  // null where nothing was compiled
  const EntryPoint& entry;
  void* function() const { return entry.name.empty() || !functions ? nullptr : functions->entry(entry.name); }
};

class Watch;

// What a step has while it runs.
struct StepCall {
  void* const* pointers;  // to the first elements of the step's buffers, in their order
  std::span<const std::int64_t> numbers;
  std::span<std::byte> workspace;
  Queue* queue;              // null on the CPU
  bool checks_wait = false;  // a check that fails is thrown when somebody waits for the device, not here
  Watch* watch = nullptr;    // who looks on
  std::span<const std::int64_t> part(NumberTable::Range range) const {
    return numbers.subspan(range.begin, range.count);
  }
};

// Several threads may run one at once.
class Runnable {
 public:
  virtual ~Runnable() = default;
  // Writes the numbers of its own that follow from the others, once these are computed, and again where a parallel loop
  // has another number of threads. Before workspace().
  virtual void settle(std::span<std::int64_t> /*numbers*/) const {}
  // Bytes that a call wants besides its buffers, on as many threads as a parallel loop has now.
  virtual std::size_t workspace(std::span<const std::int64_t> /*numbers*/) const { return 0; }
  virtual bool has_workspace() const { return false; }
  // Whether a call of these numbers stays within its buffers, whose memory these are, in their order. Asked before
  // settle() of a plan that a file gave.
  virtual bool fits(std::span<const std::int64_t> /*numbers*/, std::span<const Room> /*rooms*/) const { return false; }
  // Whether what it puts on a queue is the same in every call: false where it waits for a value of the device, or in a
  // call whose checks do not wait for one of them.
  virtual bool can_be_recorded(bool /*checks_wait*/) const { return true; }
  // Whether the other processes of a group do it too: such steps never run side by side.
  virtual bool is_collective() const { return false; }
  // Throws the user's Error where a check fails.
  virtual void run(const StepCall& call) const = 0;
};

class Preparable {
 public:
  virtual ~Preparable() = default;
  virtual std::unique_ptr<Runnable> prepare(const Preparation& preparation) const = 0;
  // On disk a step is the name of who reads it back, and fields (runtime/plan_file.hpp). Empty where it can't be kept.
  virtual std::string stored_as() const { return {}; }
  virtual void write(FieldWriter& /*to*/, const EntryPoint& /*entry*/) const {}
};

}  // namespace weft::runtime
