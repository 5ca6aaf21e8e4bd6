// Places the gathers of parameters that are held in parts (distributed::gathered), which are recorded all at once,
// where they are needed. In: a graph with calls inlined, in which such an all_gather, and what is computed for it
// alone, has a Node::recomputation. Out: the same values, in another order of nodes, which is the order of the
// collectives:
// - a gather, and what is a view of it or is computed from it element by element (a cast), comes before the first node
//   that reads it; and once more before one that reads it after two others were read, as the derivative of a layer
//   does. Each has another Node::recomputation: its steps wait for what its readers read besides (schedule/group.cpp).
//   On a device it comes one earlier: before the first node that reads the gather before it. So it is on its way
//   meanwhile, and two are held at once.
// - a reduce_scatter, of the gradients of such parameters, comes as soon as what it adds up is there.
// Invariant: the order depends on operations alone and not on sizes, so it is the same in all processes.
#pragma once
#include "passes/context.hpp"

namespace weft {

Graph place_gathers(const Graph& graph, const PassContext& context = {});

}  // namespace weft
