// Replaying a traced graph without generated kernels: by the eager executor, node by node, or by the reference
// interpreter. In: the graph, the values of its inputs and size symbols. Out: its outputs, computed.
#pragma once
#include "ir/graph.hpp"
#include "weft/compile_options.hpp"

namespace weft::detail {

std::vector<Tensor> replay(const Graph& graph, std::span<const Tensor> inputs, std::span<const std::int64_t> symbols,
                           Backend backend, Loc loc);

}  // namespace weft::detail
