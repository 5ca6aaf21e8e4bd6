// Graphs run by the eager executor, node by node: bodies of loops, choices and calls outside a trace, and a
// specialization that has no kernels. In: computed values. Out: computed values. The graph stays as it is and can be
// run again.
#pragma once
#include <functional>

#include "ir/graph.hpp"
#include "record/values.hpp"

namespace weft {

// `inputs` by slot, `symbols` by number. Checks throw the user's error. `watch` is called after each node, with its
// results.
using WatchNode = std::function<void(const Node& node, std::span<const Tensor> results)>;
std::vector<Tensor> run_eagerly(const Graph& graph, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> symbols, Loc loc, const WatchNode* watch = nullptr);

// A loop, a choice, a call or a factorization.
bool has_several_results(Op op);
std::vector<Type> types_of(const Node& node);  // of all its results
std::vector<eager::Value> execute_region(const Node& node, std::span<const Type> types,
                                         std::span<const eager::Value> operands, std::span<const std::int64_t> symbols);

}  // namespace weft
