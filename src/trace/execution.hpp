// A segment of a call runs. In: the call's arguments and what the segment before kept, in the scratch. Out: the outcome
// of its decision and what it keeps, or the results and the state. By its kernels, or where there are none by an
// executor.
#pragma once
#include "trace/call_context.hpp"

namespace weft::detail {

// Holds the default generator from here to the end of the call. False where another thread has drawn since the call
// read its state.
bool hold_generator(Scratch& scratch);

// The last segment: results and state get their tensors.
void run_to_results(CallContext call, const Specialization& specialization, const Segment& segment);
// The same without them: the values of its results.
std::vector<Tensor> run_to_values(CallContext call, const Specialization& specialization, const Segment& segment);
// What the first round of a loop is given as kept, into the scratch.
void keep_for_first(CallContext call, const FirstRound& first);
// The outcome of the decision that the segment ends in. What it keeps is in the scratch then, and of a loop how many
// rounds it has run.
std::int64_t run_to_decision(CallContext call, const Specialization& specialization, const Segment& segment);

}  // namespace weft::detail
