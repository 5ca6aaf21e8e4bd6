// Rematerialization: values that are computed again, so that they are not held meanwhile. In: a graph whose nodes are
// in the order of their recording, a whole training step for example. Out: the same graph, in which what is read late
// is computed again from what ir/partition.hpp saves. The graph is cut where it holds the most at once, which in a
// training step is where the derivative begins: nothing need be known of derivatives. Invariants: what reads a value
// again reads the same bits where a comparison depends on them; a value is computed again once at most, and all that is
// computed again for one reader has one Node::recomputation, which waits for that reader's other operands
// (schedule/group.cpp).
#pragma once
#include "passes/context.hpp"

namespace weft {

// At a budget of 1 nothing is computed again. Below, a few choices are planned (PassContext::planned), at most 14
// with the graph as it is. Of those, the one of the least time that meets the goal is taken, or else the one that takes
// the least: the goal is what the graph takes where nothing expensive is computed again, less the part of the saved
// bytes that the budget leaves out. Never more than the graph as it is, and never more than at a larger budget.
Graph rematerialize(const Graph& graph, const PassContext& context);

// The most bytes that the graph holds at once beside its inputs and outputs, in the order of its nodes: an estimate,
// as what a kernel computes on its way takes no memory. `at`: the first node after which it holds them.
struct HeldBytes {
  std::int64_t most = 0;
  std::size_t at = 0;
};
HeldBytes held_bytes(const Graph& graph);

// For explain(): what is computed again, by memory_budget or checkpoint. A line for each reader, with the estimated
// share of the graph's time; below it, indented, the values that are not held until then.
std::vector<std::string> recomputed_texts(const Graph& graph);

}  // namespace weft
