// Gathers of parameters, just before a graph is scheduled. The pass place_gathers has put them where they are needed;
// passes after it make what is computed anew, and gathers, which read arguments alone, come before all of that again.
// In: an optimized graph. Out: the same values, where
// - what a gather gives (the nodes of its Node::recomputation) comes before the first node that reads it, and the
//   collectives are in the order that they had;
// - a small part of a gather that may be read again long after, as a bias is where a derivative computes again what it
//   was added to, is copied (Op::cast to its own dtype, which gets memory): the copy is held, and the rest is not.
#pragma once
#include "ir/graph.hpp"

namespace weft {

Graph with_late_gathers(const Graph& graph);
// Such a copy.
bool is_copied_part(const Node& node);

}  // namespace weft
