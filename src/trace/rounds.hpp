// Rounds: a segment that follows itself, as the body of a loop does, run many times in one step. In: such a segment,
// and the outcome after which it comes again. Out: a while_loop around it, as a segment of its own.
#pragma once
#include <optional>

#include "trace/specialization.hpp"

namespace weft::detail {

// What the loop is given besides leaves and kept values: how many rounds it may run, at least 1. Its first output is
// how many it has run. Its decision is that of the last round; it stops after another outcome than `outcome`. Nothing
// where the segment can't be run so: its decision is no bool, it checks, it is on a device, or what it keeps changes
// its type.
std::optional<TraceResult> rounds_of(const TraceResult& segment, bool outcome);

// Where `first` computes what a round does, but for values that come from elsewhere than from the round before: what a
// round would have to be given as kept to be `first`. A value each: a leaf, or a constant where the tensor is defined.
std::optional<std::vector<FirstKept>> kept_before_first(const TraceResult& first, const TraceResult& round);

}  // namespace weft::detail
