// Products over groups of rows, as a mixture of experts has them.
#pragma once
#include "weft/ops.hpp"

namespace weft {

// Rows that lie by group, each times the matrix of its group: x [rows, k], weights [groups, k, n] and ends [groups],
// integers, to [rows, n] in the dtype to which x and weights promote. A group has the rows from where the one in front
// of it ends to its own end. An end that is less than the one in front of it leaves its group empty, one beyond the
// rows counts as their number, and rows after the last end belong to the last group. No size depends on the values of
// ends. PyTorch's torch._grouped_mm, JAX's ragged_dot. Throws where dtypes or sizes do not fit, or where there is no
// group.
Tensor grouped_matmul(At x, At weights, At ends);

}  // namespace weft
