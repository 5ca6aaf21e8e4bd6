// Realization: which values get memory, and which are computed again where they are read. In: a graph while it is
// grouped; at the end its groups. Out: Placement::realized of grouped values. Invariant: what a kernel does not hold
// itself it reads from memory, or computes from what is realized. A copied value (Placement::copied) has no memory yet
// for kernels that are not deeper than its own: they read what it is made of.
#pragma once
#include "schedule/group.hpp"

namespace weft {

// By node: values that are read through expansions alone, such as the scale of a norm. A cheap one is computed where it
// is read, and no kernel waits for it.
std::vector<bool> read_through_expansions(const Graph& graph);
// Pointwise operations for an element of a node, those of its inlined operands included.
int operations_where_read(const Grouping& grouping, const Node& node);
// More than a division or a square root, or a read at an index that a value decides: not computed twice.
bool is_slow(const Node& node);
// Whether whoever does `node` reads an operand well as a view of `base`, which has memory.
bool reads_in_place(const Grouping& grouping, const Providers& providers, Device device, const Node& node,
                    const Tensor& operand, const Tensor& base);
// The gather, along axis 0 of a table that has memory, of which an operand of a product is a permutation that leaves
// axis 0 where it is: the product may read the matrices in the table, by the gather's index. Null where nobody does
// that, or not well.
const Node* chosen_matrices(const Grouping& grouping, const Providers& providers, Device device, const Node& node,
                            const Tensor& operand);
// Grouped values that somebody outside their kernel reads get memory, unless it takes less, in bytes (score.hpp), to
// compute them again there: from what is in memory, most of which the reader often loads anyway, and from reductions
// and slow values, which then get memory instead. Never done twice: reductions, and what is slow.
// `borders`: what is read by a kernel beyond the border of a region (group.hpp) gets memory.
void realize(const Graph& graph, Grouping& grouping, Device device, bool borders);

}  // namespace weft
