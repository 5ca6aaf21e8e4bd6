// Kernels that reduce rows and columns in one pass. In: a grouping under way. Out: whether two reductions can share
// one, and the marks of what comes after the rows (Placement::column). The axes that are last in memory are the
// rows'; a unit walks many of them and holds its columns.
#pragma once
#include "schedule/group.hpp"

namespace weft {

// Whether a kernel that reduces its inner axes and one that reduces `inner` can be one: one of them reduces rows, the
// other what is left, and rows are long enough to fill vectors and short enough to be held while a unit walks many.
bool rows_and_columns(const Graph& graph, const Grouping& grouping, int group, const bool* inner);
// Whether a kernel's reductions may be done beside those of rows: no position, and nothing that walks the rows again
// reads their results.
bool becomes_columns(const Graph& graph, const Grouping& grouping, int group);
// The kernel's reductions, and what reads them, become those of columns, and `inner` the axes of its rows.
void make_columns(const Graph& graph, Grouping& grouping, int group, const bool* inner);
// Whether a node reads, through views and inlined values, a value that is computed after the kernel's rows.
bool reads_columns(const Grouping& grouping, const Node& node, int group);
// Whether `inner` are the last axes in memory order.
bool is_row(const Group& group, const bool* inner);

}  // namespace weft
