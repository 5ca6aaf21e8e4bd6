// What is computed again for a derivative, and when. In: a graph. Out: ranks, by which order_steps()
// (schedule/order.hpp) orders the steps of the nodes.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// By node, how many nodes come before it at least, where those of a recomputation (Node::recomputation) wait for all
// that the recomputation reads: for the gradient that reaches it. Empty where nothing is computed again.
std::vector<std::uint32_t> ranks_of_recomputations(const Graph& graph);

}  // namespace weft
