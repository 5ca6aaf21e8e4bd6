// Primitives that have no step of their own, in terms of others.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// Matrix products of dtypes that no library takes (integers, 16-bit floats) as a product and a sum, which fuse.
Graph decompose_matmul(const Graph& graph);

// Sums of 16-bit rows by index as such of f32, rounded once, like every other sum.
Graph widen_scatter_add(const Graph& graph);

// In a group of one process the sum over the group is the value itself.
Graph local_collectives(const Graph& graph);

}  // namespace weft
