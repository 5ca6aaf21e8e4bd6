// Reductions to a few neighbouring columns, as over the middle axis of [n, n, 3]. Runs on a kernel whose axes are
// final, before its loops are made. In: a kernel whose lanes are the columns, most of which stay empty. Out: one whose
// lanes run over rows and columns together, which lie in memory one after the other. Each column keeps the order of a
// column (include/weft/detail/reduce.inc), so the bits are those of the kernel before.
#pragma once
#include "loop/kernel.hpp"

namespace weft::loop {

// Leaves a kernel alone whose columns are many or symbolic, whose rows are few, or that walks its rows again after a
// reduction.
void narrow_columns_on_lanes(Kernel& kernel);

}  // namespace weft::loop
