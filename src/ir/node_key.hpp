// What tells two computations of a graph apart. Equal keys: one node can serve for both.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ir/node.hpp"

namespace weft {

// What a node with these operands computes, as words, without its bodies: operation, type, attributes, the operands by
// their handles, and the recomputation that it is part of. Draws and effects have equal keys too, and are two.
std::vector<std::uint64_t> key_of(const Node& node, std::span<const Tensor> operands);

}  // namespace weft
