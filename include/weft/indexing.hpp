// Reading by several index tensors and masks, and more functions that write at positions, beside those of weft/ops.hpp.
// Names and meanings are PyTorch's.
#pragma once
#include "weft/ops.hpp"

namespace weft {

// x[indices[0], indices[1], ...]: index(x, {mask, {}, at}) is x[mask, :, at]. An entry is a tensor of integers,
// negative ones from the end; a mask, bool, which takes as many axes as it has and selects the positions where it is
// true; or undefined, {}, the whole axis. Indices broadcast to one shape, which is in the place of the axes that they
// take, or first where these are apart. The size of what a mask selects depends on values, as that of nonzero
// (weft/ops.hpp). Throws, or stops the call, on indices out of range. index_put takes the same entries.
Tensor index(At x, std::span<const Tensor> indices);
Tensor index(At x, std::initializer_list<Tensor> indices);

// x with the elements of the source at these positions in the flattened x, or with `accumulate` plus them; of equal
// positions the last one stays. As many of the one as of the other. Negative positions count from the end. A floating
// source for an x of integers or bools is an error.
Tensor put(At x, At index, At source, bool accumulate = false);
// x with what this reduction makes of the slices of the source that meet at these positions, a vector, along the axis,
// and of the slice of x there (include_self). scatter_reduce by a vector; for sums there is index_add.
Tensor index_reduce(At x, int axis, At index, At source, ScatterReduction reduce, bool include_self = true);

}  // namespace weft
