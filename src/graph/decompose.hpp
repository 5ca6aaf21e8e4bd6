// Matrix products of dtypes that no library takes (integers, 16-bit floats) as a product and a sum, which fuse.
#pragma once
#include "graph/graph.hpp"

namespace weft {

Graph decompose_matmul(const Graph& graph);

}  // namespace weft
