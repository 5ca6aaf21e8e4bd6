// What the public functions of weft/linalg.hpp and the derivatives of factorizations share.
#pragma once
#include "record/record.hpp"

namespace weft::linalg {

// The result of a factorization.
inline Tensor result_of(const Tensor& value, unsigned i) { return Tensor(value.node(), i); }

Tensor triangular(const Tensor& a, const Tensor& b, const Triangle& triangle);
// a^-1 b from the factors of a, or with `transposed` (a^T)^-1 b.
Tensor solve_by_lu(const Tensor& lu, const Tensor& rows, const Tensor& b, bool transposed);
// Row i of the result is row rows[i] of x, in each matrix of a batch.
Tensor take_rows(const Tensor& x, const Tensor& rows);
// bool [n,n]: true on the diagonal.
Tensor on_diagonal(Dim n, Device device);
// The identity, in the type of a value.
Tensor identity_like(const Tensor& value);
// A matrix of zeros but for its diagonal, for each row.
Tensor diagonal_matrix(const Tensor& rows);

}  // namespace weft::linalg
