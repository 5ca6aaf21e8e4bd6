// Roundings to bf16 and f16 on the way through a kernel. In: a kernel as it is lowered, in which every operation on
// 16-bit floats is rounded, and what has memory is cast to its own dtype (Lowering::kept). Out: one in which only that
// and what is compared or used as an index is rounded; everything else goes on in f32. So all kernels compute a value
// alike from what has memory, and a comparison has the same bits on both sides wherever these are computed. Runs where
// Precision::fused asks for it, before loops are made.
#pragma once
#include <vector>

#include "loop/kernel.hpp"

namespace weft::loop {

// bf16 and f16.
bool is_half(DType dtype);

// Returns the numbers that instructions of the given body had whose results are not rounded any more, in order.
std::vector<int> elide_roundings(Kernel& kernel);

}  // namespace weft::loop
