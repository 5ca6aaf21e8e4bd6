// Loops and choices as steps of a plan: the steps of a body, run once for each iteration, on the host and on devices.
// In: bodies as plans, and how the loop's operands and results lie. Out: Runnables. No allocation per iteration; on the
// host none per run either. The workspace of the loop's step holds the arena of a body, with temporaries and the
// workspaces of its steps, the carries between iterations and, on the host, the tables of pointers. A while_loop and a
// cond read the value that decides what runs next back from the device, so a device cannot replay them as one
// recording.
#pragma once
#include "runtime/processes/collective_step.hpp"
#include "runtime/sequence.hpp"
#include "runtime/stored_step.hpp"

namespace weft::runtime {

// An operand or a result: where it begins in its buffer, and the bytes of what a body sees of it, a slice of what is
// sliced or stacked.
struct LoopValue {
  Dim offset = 0, bytes = 0;
  static auto fields(auto& self) { return std::tie(self.offset, self.bytes); }
};

enum class LoopKind : std::uint8_t { scan, while_loop, cond };

struct LoopDescription {
  std::vector<LoopValue> operands, results;  // the step's buffers: operands, then results
  std::size_t carries = 0, scanned = 0;
  std::vector<bool> in_place;  // by carry: the body may write its next value where the carry is
  Dim length = 0;
  bool reverse = false;
  std::int64_t limit = 0;   // while_loop; 0: none
  std::string passed;       // what is thrown then
  std::int64_t asked = -1;  // while_loop: the carry that is its condition, which needs no body then; -1: none
  static auto fields(auto& self) {
    return std::tie(self.operands, self.results, self.carries, self.scanned, self.in_place, self.length, self.reverse,
                    self.limit, self.passed, self.asked);
  }
};

class LoopStep : public Runnable, public DoesCollectives {
 public:
  LoopStep(LoopDescription description, std::span<const Plan> bodies, NumberTable& numbers);
  bool has_workspace() const override { return true; }
  bool is_collective() const override {
    return std::ranges::any_of(bodies_, [](const Sequence& body) { return body.is_collective(); });
  }
  std::vector<std::string> collectives(std::span<const std::int64_t> numbers) const override;
  void settle(std::span<std::int64_t> numbers) const override;
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;

 protected:
  // What a call of the step has at hand.
  struct Frame {
    const StepCall& call;
    std::vector<void*> tables;                  // on a device
    std::span<void*> operands, results, spare;  // first bytes; spare: by carry, memory in the workspace, or null
    std::byte *arena, *condition;
    std::span<void*> pointers[2];       // of each body
    std::span<void*> arguments, given;  // of a body: room for the most that it takes and gives
  };
  Frame begin(const StepCall& call) const;
  // Of a call of these numbers: what a body sees of each operand and result, where all lie in the step's buffers.
  // Operands [first, last) and the results from `stacked` on have `length` of them one after the other.
  struct Seen {
    std::vector<Room> operands, results;
  };
  bool see(std::span<const std::int64_t> numbers, std::span<const Room> rooms, Seen& seen, std::int64_t length = 1,
           std::size_t first = 0, std::size_t last = 0, std::size_t stacked = SIZE_MAX) const;
  void run_body(Frame& frame, std::size_t body) const;
  void copy(const Frame& frame, void* to, const void* from, std::int64_t bytes) const;
  bool read_condition(const Frame& frame, const void* value) const;
  std::int64_t operand_bytes(const StepCall& call, std::size_t i) const { return call.numbers[operands_[i].begin + 1]; }
  std::int64_t result_bytes(const StepCall& call, std::size_t i) const { return call.numbers[results_[i].begin + 1]; }

  const LoopDescription description_;
  const Device device_;
  std::vector<Sequence> bodies_;
  NumberTable::Range length_;

 private:
  std::size_t table_count() const;                      // pointers
  std::vector<NumberTable::Range> operands_, results_;  // offset, bytes
  NumberTable::Range arena_;                            // bytes of the most demanding body
};

// One body, which is run for each slice.
class ScanStep final : public LoopStep {
 public:
  using LoopStep::LoopStep;
  bool can_be_recorded(bool checks_wait) const override { return bodies_[0].can_be_recorded(checks_wait); }
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;
};

// The condition, and the body.
class WhileStep final : public LoopStep {
 public:
  using LoopStep::LoopStep;
  bool can_be_recorded(bool /*checks_wait*/) const override { return false; }
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;
};

// Operand 0 chooses the first body or the second; both take the other operands.
class CondStep final : public LoopStep {
 public:
  using LoopStep::LoopStep;
  bool can_be_recorded(bool /*checks_wait*/) const override { return false; }
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;
};

// One of these.
std::unique_ptr<Runnable> make_loop(LoopKind kind, const LoopDescription& loop, std::span<const Plan> bodies,
                                    NumberTable& numbers);

// A loop on disk: its bodies are plans.
class StoredLoop final : public StoredStep {
 public:
  static constexpr const char* name = "loop";
  static std::shared_ptr<const StoredStep> read(FieldReader& from, const StepReader& inner);
  // What read() reads.
  static void write(FieldWriter& to, LoopKind kind, const LoopDescription& loop, const StepCost& cost,
                    std::span<const Plan> bodies);
  bool runs_others() const override { return true; }
  StepCost cost() const override { return cost_; }
  std::string stored_as() const override { return name; }
  void write(FieldWriter& to, const EntryPoint&) const override { write(to, kind_, loop_, cost_, bodies_); }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;

 private:
  LoopKind kind_ = LoopKind::scan;
  LoopDescription loop_;
  StepCost cost_;
  std::vector<Plan> bodies_;
};

}  // namespace weft::runtime
