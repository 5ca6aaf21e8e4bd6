// Taking a trace: the user's function runs once with its tensors bound to inputs. In: the call's leaves and a body that
// runs the function. Out: a graph, and where results and changed state come from; of a function that decides on values,
// one for each piece between decisions. Invariant: the caller's objects are as they were, and so is the thread's state,
// also when the function throws.
#pragma once
#include "trace/decisions.hpp"

namespace weft::detail {

// Refuses what cannot be replayed (a tensor from outside, a handle that outlives the trace, a length that changed) with
// the user's line.
// Whether the trace has the tensors of arguments on a device though they lie on the host; asked before it begins.
bool moves_to_device(const Function& function, const LeafList& arguments);
// Where it has one of them then. Numbers, which are Scalars and Indices, stay on the host.
Device traced_device(bool moves, const Leaf& leaf);

TracedPath take_trace(const CallContext& call, std::span<const Guards::Symbol> symbols, const TakenWay& followed);

}  // namespace weft::detail
