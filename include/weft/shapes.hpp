// More functions that move elements, beside those of weft/ops.hpp. Names and meanings are PyTorch's. All throw Error on
// shapes that do not fit. Results are values: nothing that is done to them changes the operand.
#pragma once
#include "weft/ops.hpp"

namespace weft {

// Turned k times by 90 degrees, from the first of these two axes to the second.
Tensor rot90(At x, std::int64_t k = 1, Axes axes = {0, 1});

// The last axis on the diagonal of two axes of the result, zeros beside it: element (i, i + offset).
Tensor diag_embed(At x, std::int64_t offset = 0, int first = -2, int second = -1);
// The matrices one after the other along the diagonal, zeros beside them. A vector is a row, a number a matrix of one.
Tensor block_diag(std::span<const Tensor> parts, Loc loc = Loc::current());
Tensor block_diag(std::initializer_list<Tensor> parts, Loc loc = Loc::current());

// For vectors: all combinations of one element of each, [count, vectors]. A single vector stays as it is.
Tensor cartesian_prod(std::span<const Tensor> vectors, Loc loc = Loc::current());
Tensor cartesian_prod(std::initializer_list<Tensor> vectors, Loc loc = Loc::current());
// All choices of r elements of a vector, [count, r], in the order of their positions. Its size becomes a number.
Tensor combinations(At x, std::int64_t r = 2, bool with_replacement = false);

// Parts of the axis, as many as this, of which the first ones are longer by one where it does not divide. The axis
// becomes a number.
std::vector<Tensor> tensor_split(At x, std::int64_t sections, int axis = 0);
// Parts that end before these positions, and the rest: positions as in slice().
std::vector<Tensor> tensor_split(At x, std::initializer_list<std::int64_t> indices, int axis = 0);
std::vector<Tensor> tensor_split(At x, std::span<const std::int64_t> indices, int axis = 0);

Tensor atleast_1d(At x);  // of no axes: [1]
Tensor atleast_2d(At x);  // of no axes: [1, 1]; a vector: [1, n]
Tensor atleast_3d(At x);  // of no axes: [1, 1, 1]; a vector: [1, n, 1]; a matrix: [m, n, 1]
// All in their common shape.
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Loc loc = Loc::current());
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Loc loc = Loc::current());

// x with the source in the place of select(x, axis, index), or of diagonal(x, offset, first, second), whose shape it
// has. A floating source for an x of integers or bools is an error.
Tensor select_scatter(At x, At source, int axis, Dim index);
Tensor diagonal_scatter(At x, At source, std::int64_t offset = 0, int first = 0, int second = 1);

// Rows and columns, [2, count], of the elements of a matrix of these sizes on and below a diagonal, or on and above it.
// The sizes become numbers. Throws where they are negative.
Tensor tril_indices(Dim rows, Dim columns, std::int64_t offset = 0, RangeOptions options = {},
                    Loc loc = Loc::current());
Tensor triu_indices(Dim rows, Dim columns, std::int64_t offset = 0, RangeOptions options = {},
                    Loc loc = Loc::current());
// For positions in a flattened tensor of these sizes the positions along each axis, i64. Negative ones count from the
// end; others out of range are an error.
std::vector<Tensor> unravel_index(At index, Sizes sizes);

}  // namespace weft
