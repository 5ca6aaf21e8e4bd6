// Select: a segment in the place of a decision. In: a decision whose two sides lead to results, are cheap and have no
// effects. Out: a branch whose segment computes what comes before the decision and both sides, and selects each result
// and each changed state by the value that was asked for. Invariant: results and state have the bits of the side that
// the decision would have taken.
#pragma once
#include "trace/decisions.hpp"
#include "trace/call_context.hpp"

namespace weft::detail {

// After a trace, along the call's way, from the last decision to the first: makes a branch for one of which both
// outcomes are in the tree now, whose segment `job` compiles. The function's mutex is held.
void add_selected(CallContext call, const Specialization& to, Backend backend, const std::shared_ptr<KernelJob>& job);

// For explain(): `both sides are cheap: auto_select would compute both`, `both sides are computed, 3 calls`, or
// nothing. `way`: from the root to the branch of the decision.
std::string select_text(CallContext call, const Specialization& of, std::span<const Branch* const> way);

// The ways that a call has taken, for a trace that is to compare: through a selected branch they are those of each
// side.
std::vector<TakenWay> ways_of_sides(TakenWay way);

}  // namespace weft::detail
