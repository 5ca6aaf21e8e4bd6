// One operation on a device for many calls whose numbers differ. In: an operation whose sizes are numbers. Out: its
// graph with symbols in their place, and what they are in this call. A kernel is compiled once for all of them.
#pragma once
#include "ir/graph.hpp"

namespace weft::eager {

struct GeneralGraph {
  Graph graph;
  std::vector<std::int64_t> symbols;  // their values in this call
};

// What has a symbol. The start of a slice nearly always differs from the last one's; sizes of tensors often do not, and
// a kernel that knows them is faster.
enum class Symbolic { starts, starts_and_sizes };

// The graph of one operation. Sizes from 2 on that are equal have the same symbol. `conditions` of the graph hold in
// this call; others that share its structure are to be asked (conditions_hold).
GeneralGraph general_graph(Op op, const Attributes& attributes, const Type& type, std::span<const Type> operands,
                           Symbolic symbolic, Loc loc);

bool conditions_hold(const Graph& graph, std::span<const std::int64_t> symbols);

// Whether generated kernels compute it. Libraries are asked for each size anyway.
bool is_generated(Op op);

}  // namespace weft::eager
