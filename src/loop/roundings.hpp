// Roundings to bf16 and f16 on the way through a kernel. In: a kernel as it is lowered, in which every operation on
// 16-bit floats is rounded. Out: one in which only what is stored, reduced, compared or used as an index is rounded;
// everything else goes on in f32. Runs where Precision::fused asks for it, before loops are made.
#pragma once
#include "loop/kernel.hpp"

namespace weft::loop {

// Kernel::elided counts the values that are not rounded any more.
void elide_roundings(Kernel& kernel);

}  // namespace weft::loop
