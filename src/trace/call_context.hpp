// What one call of a compiled function has: its buffers, which a thread keeps for its next call, and what is handed to
// everything that works for it.
#pragma once
#include "record/random.hpp"
#include "trace/function.hpp"
#include "weft/stance.hpp"

namespace weft::detail {

// Counts the calls of specializations for Check. The first 64 of each are counted one by one. From then on each thread
// keeps its own count, and adds it to the common one when it is 64: threads that call at once do not wait for each
// other.
class CallCounter {
 public:
  // Which one the next call is, about: exactly, where one thread calls.
  std::uint64_t next(const Specialization& specialization) const {
    const Own& own = own_[specialization.id % std::size(own_)];
    const bool known = own.id == specialization.id;
    return (known ? own.common + own.calls : specialization.calls.load(std::memory_order_relaxed)) + 1;
  }
  // Counts it.
  std::uint64_t count(const Specialization& specialization) {
    Own& own = own_[specialization.id % std::size(own_)];
    if (own.id != specialization.id) [[unlikely]] {
      const std::uint64_t common = specialization.calls.load(std::memory_order_relaxed);
      if (common < batch) {
        specialization.calls.store(common + 1, std::memory_order_relaxed);
        return common + 1;
      }
      own = {specialization.id, 0, common};
    }
    if (++own.calls == batch) {
      own.common = specialization.calls.fetch_add(batch, std::memory_order_relaxed) + batch;
      own.calls = 0;
    }
    return own.common + own.calls;
  }

 private:
  static constexpr std::uint64_t batch = 64;
  struct Own {
    std::uint64_t id = 0, calls = 0, common = 0;  // calls since then
  };
  Own own_[8];  // by Specialization::id
};

// A thread's buffers for one call; kept for the next one.
struct alignas(cache_lines) Scratch {
  LeafList arguments, results;
  Words words;
  LineVector<std::int64_t> symbols;
  LineVector<Tensor> pending, values, outputs;
  LineVector<void*> argument_pointers, result_pointers;
  LineVector<const void*> constants;                // keys of the plan's constant arguments
  LineVector<std::uint64_t> numbers;                // constants that have no memory of their own
  LineVector<Storage*> held;                        // argument copies, released when the call ends
  LineVector<Storage*> blocks;                      // of arguments and results on a device
  std::shared_ptr<const Specialization> temporary;  // in no list (beyond the recompile limit, dropped): for this call
  LineVector<const LeafRun*> runs;                  // of the arguments, by address
  LineVector<std::uint8_t> overlaps;                // an argument each: shares an object with another argument
  // The way that the call has taken through the tree: branches, the outcome of each but the last, and what the last
  // decision's segment kept.
  LineVector<const Branch*> path;
  LineVector<std::int64_t> outcomes;
  LineVector<Tensor> kept;
  std::int64_t rounds = 1;  // that the next segment may run
  std::int64_t answers[2];  // of the last segment: how many rounds it has run, and its decision
  HeldGenerator generator;  // the default generator, where the call draws from it
  Tensor generator_state;   // its state as the call has read it
  // Of a resumable function, whose code runs in each call: the arguments' tensors meanwhile, the value that was read
  // last, and what the function gives besides tensors.
  std::vector<Tensor> originals;
  Tensor asked;
  std::vector<std::int64_t> counts;  // sizes that depend on values, in the order of their symbols
  bool resumed = false;
  std::uint64_t level = UINT64_MAX;  // where the levels around the call began; of a question none
  bool differentiated = false;       // an argument depends on a variable of a level around the call
  std::shared_ptr<void> prototype;
  std::vector<StateNumbers> state_numbers;
  std::optional<CallLayout> layout;  // see CallContext::layout
  CallCounter counter;
  const std::uint64_t thread = this_thread();
  Readers::Count* reader = nullptr;  // in which the call is counted
  void clear();
};

// Nested calls of a thread take one each. Throws Error where there are too many.
Scratch* take_scratch(const Function& function, Loc loc);
void give_back(Scratch* scratch) noexcept;
// Of the innermost call of this thread, which there is.
Scratch& innermost_scratch();

struct CallContext {
  Function& function;
  const CallSignature& signature;
  TraceBody body;
  void* body_context;
  Loc loc;
  Scratch& scratch;
  Stance stance;
  // Made when it is asked for first.
  const CallLayout& layout() const {
    if (!scratch.layout) scratch.layout.emplace(signature, scratch.arguments, scratch.words);
    return *scratch.layout;
  }
};

// That of the thread, else of the process.
Stance stance();

}  // namespace weft::detail
