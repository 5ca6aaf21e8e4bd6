// Names a graph by all that a compilation of it may see: what is computed, from which data, over which sizes and by
// which decisions, where the user wrote it. Equal in every process for equal graphs.
#pragma once
#include <optional>

#include "base/hash.hpp"
#include "ir/graph.hpp"

namespace weft {

// Nothing where the graph holds data that can't be read in order: on a device, or in strides.
std::optional<Digest> full_digest(const Graph& graph);

}  // namespace weft
