// Loops. In: a graph with scans and conds as they were recorded. Out: the same, where each loop runs once and gives
// only what is read.
#pragma once
#include "passes/context.hpp"

namespace weft {

// A scan whose results begin with those of another one over the same operands (Node::More::extends), as the derivative
// records them, takes its place. Runs before every other pass: those make new bodies.
Graph merge_loops(const Graph& graph, const PassContext& context = {});

// Results of scans and conds that nobody reads, and operands that no result needs, go; a carry that its body hands on
// as it is becomes a capture.
Graph prune_loops(const Graph& graph, const PassContext& context = {});

}  // namespace weft
