// The steps of a plan in their order, ready to run, and the table of pointers that they read: what a plan runs for each
// call, and the step of a loop for each iteration. In: buffers, launches, constants; sizes go into the table of numbers
// that is given. Out: pointers put in place, steps run. Invariant: nothing changes once it is made; the pointers, the
// numbers and the memory are the caller's.
#pragma once
#include <algorithm>

#include "base/gaps.hpp"
#include "runtime/constants.hpp"
#include "runtime/lanes.hpp"
#include "runtime/watch.hpp"

namespace weft::runtime {

// At which multiples a workspace begins, in bytes: libraries of a device want 256.
constexpr std::int64_t workspace_alignment(Device device) {
  return device.type == Device::Type::cpu ? Gaps::alignment : 256;
}

class Sequence {
 public:
  // `in_results`: a workspace may lie in a result until that is written.
  Sequence(const Plan& plan, NumberTable& numbers, bool in_results);

  std::size_t steps() const { return steps_.size(); }
  std::size_t pointers() const { return table_.size(); }
  // The buffer of each pointer.
  std::span<const int> table() const { return table_; }

  // The places of a step's pointers in the table, and what makes the step.
  std::size_t begin_of(std::size_t step) const { return steps_[step].table; }
  std::size_t end_of(std::size_t step) const {
    return step + 1 < steps_.size() ? steps_[step + 1].table : table_.size();
  }
  const Runnable& step(std::size_t step) const { return *steps_[step].step; }
  bool writes(std::size_t place) const { return writes_[place]; }

  bool can_be_recorded(bool checks_wait) const {  // all steps
    return std::ranges::all_of(steps_, [=](const ReadyStep& it) { return it.step->can_be_recorded(checks_wait); });
  }
  bool has_transfers() const { return transfers_; }   // a step begins a copy that a later one waits for
  bool is_collective() const { return collective_; }  // a step is
  std::vector<std::string> collectives(std::span<const std::int64_t> numbers) const;
  bool has_workspace() const { return wants_workspace_; }
  // Once the numbers are computed, and again where a parallel loop has another number of threads: each step's own.
  void settle(std::span<std::int64_t> numbers) const;
  // What the most demanding step wants, and what the temporaries of the arena and those on the host take, in bytes.
  std::size_t workspace(std::span<const std::int64_t> numbers) const;
  std::size_t arena_bytes(std::span<const std::int64_t> numbers) const {
    return static_cast<std::size_t>(numbers[arena_bytes_.begin]);
  }
  std::size_t host_bytes(std::span<const std::int64_t> numbers) const {
    return static_cast<std::size_t>(numbers[host_bytes_.begin]);
  }

  // Whether no step leaves its memory with these numbers, where arguments and results have so much. Before settle().
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> arguments,
            std::span<const Room> results) const;

  // Finds where the workspace of each step that wants one lies, in an arena or in a result that is written later, where
  // no temporary is while the step runs, and writes that into the numbers. Returns the bytes of that arena,
  // arena_bytes() or more.
  std::size_t place_workspaces(std::span<std::int64_t> numbers) const;
  // The workspace of a step, where place_workspaces() has put it.
  std::span<std::byte> workspace_of(std::size_t step, std::span<const std::int64_t> numbers, std::byte* arena,
                                    std::span<void* const> results) const {
    const std::span<const std::int64_t> place = numbers.subspan(steps_[step].workspace.begin, 3);
    if (place[1] == 0) return {};
    std::byte* const memory =
        place[2] < 0 ? arena : static_cast<std::byte*>(results[static_cast<std::size_t>(place[2])]);
    return {memory + place[0], static_cast<std::size_t>(place[1])};
  }

  // Pointers to constants, to temporaries in an arena of arena_bytes() and in the host's of host_bytes().
  void place(std::span<void*> pointers, std::span<const std::int64_t> numbers, std::byte* arena,
             std::byte* host_arena = nullptr) const;
  // Pointers to arguments and results, but those that lie on the host though the plan runs on a device, to temporaries
  // in results, and to this thread's error word of the device.
  void bind(std::span<void*> pointers, std::span<void* const> arguments, std::span<void* const> results) const;
  // `call.pointers` is the table. `packed`: of each place in it, what was made of a constant there; null: of none.
  void run(std::size_t step, const StepCall& call, const std::byte* const* packed = nullptr) const {
    if (call.watch) [[unlikely]]
      call.watch->begin_step(launches_[step], call.queue);
    const ReadyStep& it = steps_[step];
    const StepCall own{call.pointers + it.table, call.numbers, call.workspace, call.queue,
                       call.checks_wait,         call.watch};
    if (packed && it.packs)
      it.packs->run_packed(own, packed + it.table);
    else
      it.step->run(own);
    if (call.watch) [[unlikely]]
      call.watch->end_step(call.queue);
  }
  // All steps, each with its workspace.
  void run(StepCall call, std::byte* arena, std::span<void* const> results) const {
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      call.workspace = workspace_of(step, call.numbers, arena, results);
      run(step, call);
    }
  }
  // Between two calls of the same numbers: the steps of which a pointer differs, or the workspace, which follows the
  // table.
  std::vector<std::size_t> moved_steps(std::span<void* const> before, std::span<void* const> now) const;
  // Between two such calls: whether arguments and results lie to each other as they did wherever two have memory in
  // common. Then the steps depend on each other as they did.
  bool share_alike(std::span<void* const> before, std::span<void* const> now,
                   std::span<const std::int64_t> numbers) const;
  // What each step reads and writes, at these addresses.
  std::vector<std::vector<Touched>> touched(std::span<void* const> pointers,
                                            std::span<const std::int64_t> numbers) const;

 private:
  struct ReadyStep {
    std::unique_ptr<Runnable> step;
    const PackingStep* packs = nullptr;  // the same, where it packs constants
    std::size_t table = 0;               // of its pointers
    NumberTable::Range workspace;        // where it lies: offset, bytes, the result or -1
  };
  // A pointer that each call supplies.
  struct Patch {
    std::size_t at;
    bool is_result;
    int index;
  };
  // A temporary in the memory of a result.
  struct Lodger {
    std::size_t at;
    int result;
    std::int64_t offset;
  };
  void add(const Launch& launch, NumberTable& numbers);

  Device device_;
  std::shared_ptr<const Functions> functions_;
  std::vector<std::unique_ptr<Storage, void (*)(Storage*)>> constants_;
  std::vector<PlanBuffer> buffers_;
  std::vector<Launch> launches_;  // of the steps, for who looks on
  NumberTable::Range arena_bytes_, host_bytes_;
  std::vector<NumberTable::Range> offsets_, elements_;  // by buffer
  std::vector<int> table_;
  std::vector<bool> writes_;  // by pointer: whether its step writes it
  std::vector<Patch> patches_;
  std::vector<Lodger> lodgers_;
  std::vector<std::size_t> errors_;   // where the error word is in the table
  std::vector<std::size_t> outside_;  // where each argument and result is first
  std::vector<Vacancy> vacancies_;
  std::vector<ReadyStep> steps_;
  bool wants_workspace_ = false, collective_ = false, transfers_ = false;
};

}  // namespace weft::runtime
