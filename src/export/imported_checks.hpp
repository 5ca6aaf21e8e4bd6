// What an imported graph must have before inference may look at it. Recorders give no other graphs.
#pragma once
#include "ir/graph.hpp"

namespace weft::detail {

// Throws Error: ranges of symbols, counts of operands, axes, carried and scanned values, slots of inputs.
void check_imported(const Graph& graph, const char* operation, Loc loc);

}  // namespace weft::detail
