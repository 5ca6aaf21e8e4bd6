// Bodies: graphs held by nodes. In: a graph and a pass. Out: the graph with the pass applied to every body, nested ones
// through the pass itself. Invariant: a body keeps its inputs and the types of its outputs.
#pragma once
#include "ir/graph.hpp"
#include "passes/context.hpp"

namespace weft {

// Each pass begins with this on itself, so that what holds for a graph holds for what its nodes hold.
Graph in_bodies(const Graph& graph, const std::function<Graph(const Graph&)>& pass);
Graph in_bodies(const Graph& graph, Pass pass, const PassContext& context);

// Replaces every Op::call by the nodes of its body, which take the place of the call, except calls that a provider
// takes whole. What is inlined costs nothing afterwards: no pass below has to look through a call.
// Nested calls are inlined from the inside out.
Graph inline_calls(const Graph& graph, const PassContext& context = {});

}  // namespace weft
