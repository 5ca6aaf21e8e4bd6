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

// A floating matrix, or a batch of them; throws where it is none, or is not square and has to be.
Tensor matrix(const char* name, const At& given, Loc loc, bool square = false);
// Of the axis that is the `from_end`-th from the last.
Dim size_at(const Tensor& value, int from_end);
// Batches of two operands of at least two axes, broadcast. Throws where they do not fit.
void broadcast_batches(const char* name, Tensor& a, Tensor& b, Loc loc);
// The user's error when the value is computed, unless all are true: fine [..., n] of a matrix [..., n, n], or of each
// of a batch. It says that the matrix `what`: "is singular"; of a batch which one, where values are known at once.
void require_all(const Tensor& fine, const char* name, const char* what, const Tensor& of, Loc loc);
// x with a x = b; a singular matrix is the user's error when it is computed.
Tensor solve_checked(const char* name, const Tensor& a, const Tensor& b, Loc loc);
Tensor diagonal_of(const Tensor& a);
// LU with its rows as a second result.
Tensor lu_of(const Tensor& a);
// Throws unless pivots are integers, a row for each row of the factors.
void require_pivots(const char* name, const Tensor& factors, const Tensor& pivots, Loc loc);

// The factors that ldl_factor gives, taken apart.
struct LDLParts {
  Tensor l;              // below its diagonal it is L, whose own diagonal is 1
  Tensor diagonal;       // [...,n]: of D
  Tensor below;          // [...,n]: of D, the element below the diagonal; 0 outside of blocks of two
  Tensor rows;           // [...,n]: row i of L D L^T is this row of the matrix
  Tensor first, second;  // bool [...,n]: the rows of blocks of two
  Tensor in_block;       // bool [...,n,n]: where the factors hold `below`
};
LDLParts parts_of_ldl(const Tensor& ld, const Tensor& pivots);
// D^-1 y, for y [...,n,k].
Tensor divide_by_blocks(const LDLParts& parts, const Tensor& y);

}  // namespace weft::linalg
