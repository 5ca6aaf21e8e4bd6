// Derivatives of calls of disabled functions (weft/effects.hpp) inside a differentiation level of a trace. In: the call
// ran outside of the trace, in a level of its own. Out: a node of the trace over its arguments whose value is what
// entered the trace, with a tape: what was computed outside. The derivative leaves the trace as the call did, pulls the
// gradients back over the tape, and is such a call itself.
#pragma once
#include "record/record.hpp"

namespace weft {

// A level that is open outside of traces, until the last tape of it is gone.
class OutsideLevel {
 public:
  explicit OutsideLevel(std::uint64_t start);
  ~OutsideLevel();
  OutsideLevel(const OutsideLevel&) = delete;
  std::uint64_t start() const { return start_; }

 private:
  std::uint64_t start_;
};

// Values outside of the trace. `variables`: in the order of recording, one for each of the node's first operands;
// `results`: one for each result of the node.
struct DisabledTape {
  std::shared_ptr<const OutsideLevel> level;
  std::vector<Tensor> variables, results;
};

// A computed value outside of traces as a value of the thread's trace, which each call gives anew.
Tensor entered(const Tensor& outside, Loc loc);
// The entered results of a tape, as values of the trace that depend on `operands`, one for each variable.
std::vector<Tensor> with_tape(DisabledTape tape, std::span<const Tensor> operands, std::span<const Tensor> results,
                              Loc loc);
// That of the node; null where it is another call, or none.
const DisabledTape* disabled_tape(const Node& node);
// At the end of a trace.
void drop_tapes(std::uint32_t trace);

}  // namespace weft
