// Merges by score. In: groups as recording order made them: a graph of candidate kernels, whose edges are values that
// one computes and another reads, or that both read. Out: fewer groups. The merge that saves most is made first; what
// it saves is bytes: values read once instead of twice, values read where they are computed, and a launch. What it
// costs is bytes too: parallelism lost to a reduction that leaves few units, and values evicted where too many are
// walked at once. A merge that costs more than it saves is not made. Near-linear: a value links each of its readers
// with few others.
#pragma once
#include "schedule/fit.hpp"
#include "schedule/score.hpp"

namespace weft {

// What one kernel in the place of two saves, less what it costs. `shared`: bytes that it does not read again.
double merit(const Graph& graph, const Score& score, const Group& a, const Group& b, double shared);
void merge_groups(const Graph& graph, Grouping& grouping, Fit& fit, const Score& score);

}  // namespace weft
