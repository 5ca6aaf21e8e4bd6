// Sums of which one term at most is not zero: sum over i of (i == u ? x(i) : 0), as a loss has it for its label, is
// x(u). Runs on a kernel whose axes are final, before its loops are made. In: a kernel. Out: the same values; what was
// a comparison for each element is one element that is read. The bits are those of the sum.
#pragma once
#include "loop/kernel.hpp"

namespace weft::loop {

void pick_single_terms(Kernel& kernel);

}  // namespace weft::loop
