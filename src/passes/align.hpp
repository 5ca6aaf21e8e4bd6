// Sizes of large products as a library's fast kernels want them. In: a graph whose products are those that somebody
// does. Out: the same values, where operands have zeros after their last elements along sizes that are no multiples of
// PassContext::size_multiple, and the results are parts of what is multiplied. Kernels write such an operand where it
// lies, with the zeros beside it; a part is a view.
#pragma once
#include "passes/context.hpp"

namespace weft {

// A product is left as it is where it takes less time than copies of its operands and its result would.
Graph align_products(const Graph& graph, const PassContext& context);

}  // namespace weft
