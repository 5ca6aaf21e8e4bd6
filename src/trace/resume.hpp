// Resumable functions: a value of a tensor flows into host code (item<float>(), data(), printing), so each call runs
// the function's code. What it records is matched with what was recorded when its segments were compiled, and these run
// where a value is read. A call that records something else is traced from there on, and adds a branch.
#pragma once
#include "trace/call_context.hpp"
#include "trace/recording.hpp"

namespace weft::detail {

class Resumption {
 public:
  Resumption(CallContext call, const Specialization& specialization);

  // Goes on to the branch that recorded the same after the last one, if what was read since decided so; null where
  // there is none. `differing`: numbers in which one differs that is the same but for them.
  const Branch* follow(const Recording& now, std::int64_t outcome, std::uint32_t first,
                       std::vector<std::uint32_t>& differing);
  // Runs the segment of the branch that was reached, which ends in a read: its outcome. `lifted`: the numbers that it
  // takes. What it keeps, and what was read, are in the scratch then.
  std::int64_t run(std::span<const Tensor> lifted);
  const Specialization& specialization() const { return specialization_; }
  Scratch& scratch() { return call_.scratch; }
  // The default generator's state, held from here to the end of the call.
  Tensor hold_generator();

 private:
  CallContext call_;
  const Specialization& specialization_;
  std::unique_lock<RecursiveMutex> lock_;  // where the generator is held: who traces takes these in the same order
};

// The whole of a call but its last segment: its code has run, and the scratch's way goes to the end.
void resume(CallContext call, const Specialization& specialization);

// The value of a number of a trace, outside of it.
Tensor number_outside(const Tensor& value);

}  // namespace weft::detail
