// Times of operations, measured for a memory budget at Level::O3 (passes/rematerialize.hpp). In: a graph that runs on
// the CPU. Out: how long its nodes take on memory of our own. An operation is measured once in a process for its dtypes
// and sizes, so a graph has the same times whenever it asks.
#pragma once
#include <vector>

#include "pipeline.hpp"

namespace weft {

// By node, as the bytes that memory could move meanwhile; negative where it is not measured. Products, convolutions,
// reductions and cumulative operations are timed as they are. A function of elements, as exp, is timed on operands in
// the cache, and counts for what it takes beyond an addition, as it is part of a larger kernel. What takes as long as
// its operands' numbers say (by index, by order, factorizations) is not measured, nor what runs once.
std::vector<double> measured_times(const Graph& graph, const PipelineOptions& options);

}  // namespace weft
