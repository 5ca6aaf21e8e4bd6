// Views as functions of indices. In: an element's index in a view's result. Out: its index in the operand.
#pragma once
#include "ir/graph.hpp"

namespace weft {

using IndexVector = std::vector<Dim>;

// The operand's index of element `index` of a reshape, permute, expand, slice, windows or identity node.
IndexVector map_through_view(const Node& view, const IndexVector& index);

// Row-major linear offset of an element in a contiguous value of this shape.
Dim linear_index(const Shape& shape, const IndexVector& index);

}  // namespace weft
