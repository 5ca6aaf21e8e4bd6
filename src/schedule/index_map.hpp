// Views, pads and concatenations as functions of indices. In: an element's index in the result. Out: its index in an
// operand.
#pragma once
#include "ir/graph.hpp"

namespace weft {

using IndexVector = std::vector<Dim>;

// The operand's index of element `index` of a reshape, permute, expand, slice, windows or identity node.
IndexVector map_through_view(const Node& view, const IndexVector& index);

// Where element `index` of a pad or a concatenation lies in operand `part`: only where none of the tests is negative.
struct PartElement {
  IndexVector index;
  std::vector<Dim> tests;
};
PartElement map_into_part(const Node& node, std::size_t part, const IndexVector& index);

// Row-major linear offset of an element in a contiguous value of this shape.
Dim linear_index(const Shape& shape, const IndexVector& index);

}  // namespace weft
