// Linear algebra on matrices in the last two axes; the axes before them are a batch, and batches broadcast. Names and
// meanings are those of torch.linalg. Operands are f32 or f64; others throw, as do shapes that do not fit, with the
// caller's line. A matrix that is not what a function needs (singular, not positive definite) is an error when it is
// computed. All are differentiable, some only where the factors are unique: derivatives of eigenvectors and singular
// vectors want distinct values, and do not depend on signs only if the loss does not (Giles 2008; Townsend 2016). What
// reads one triangle of a symmetric matrix has a symmetric gradient.
#pragma once
#include "weft/fft.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::linalg {

// The lower triangular L [...,n,n] with a = L L^T, or with `upper` its transpose. Reads the lower triangle of a
// symmetric positive definite matrix; others are an error.
Tensor cholesky(At a, bool upper = false);

struct TriangularOptions {     // of solve_triangular
  bool upper = false;          // which triangle of a is read; PyTorch has no default
  bool left = true;            // else x a = b
  bool unitriangular = false;  // the diagonal counts as ones, and is not read
};
// x [...,n,k] with a x = b for a triangular a [...,n,n]. A zero on the diagonal gives infinities.
Tensor solve_triangular(At a, At b, TriangularOptions options = {});

// x with a x = b, for a [...,n,n] and b [...,n,k], or b [...,n] where it has one axis, or the batch of a and one axis
// more; without `left` x a = b. A singular matrix is an error.
Tensor solve(At a, At b, bool left = true);
// A singular matrix is an error.
Tensor inv(At a);
// 0 for a singular matrix, at which the derivative is that of its cofactors, finite.
Tensor det(At a);
struct SignAndLogAbsDet {  // of a determinant
  Tensor sign;             // [...]: 1, -1, or 0 of a singular matrix
  Tensor logabsdet;        // [...]: logarithm of the magnitude, -infinity of a singular matrix
  WEFT_MEMBERS(sign, logabsdet)
};
// det(a) = sign exp(logabsdet); for a singular matrix 0 and -infinity, and no derivative.
SignAndLogAbsDet slogdet(At a);

// log(det(a)): NaN where the determinant is negative, -infinity where it is 0.
Tensor logdet(At a);
// x with a x = b [...,n,k], from the triangle that cholesky(a, upper) gave.
Tensor cholesky_solve(At b, At triangle, bool upper = false);

struct LU {  // P L U
  Tensor p;  // [...,n,n]: the permutation, of ones and zeros
  Tensor l;  // [...,n,n]: lower triangle, with ones on its diagonal
  Tensor u;  // [...,n,n]: upper triangle
  WEFT_MEMBERS(p, l, u)
};
// a = p l u for a square matrix: a permutation, a lower triangle with ones on its diagonal, an upper triangle. The
// largest element of a column is the pivot.
LU lu(At a);

struct LUFactors {  // what lu_solve solves with
  Tensor lu;        // [...,n,n]: U, and below its diagonal L without its own of ones
  Tensor pivots;  // [...,n] i64: row i of L U is row pivots[i] of the matrix. PyTorch's are LAPACK's exchanges, from 1
  WEFT_MEMBERS(lu, pivots)
};
// The factors of lu() as one matrix, and its rows as numbers. A singular matrix is an error.
LUFactors lu_factor(At a);
struct LUSolveOptions {  // of lu_solve
  bool left = true;      // else x a = b
  bool adjoint = false;  // with the transpose of a in the place of a
};
// x [...,n,k] with a x = b, from what lu_factor(a) gave; batches broadcast. A pivot outside of [0, n) is an error.
Tensor lu_solve(At lu, At pivots, At b, LUSolveOptions options = {});

struct LDLFactors {  // what ldl_solve solves with
  Tensor ld;         // [...,n,n]: D on the diagonal and, in blocks of two, below it; L elsewhere below; 0 above
  Tensor pivots;  // [...,n] i64: row i of L D L^T is row pivots[i] of the matrix, written as -1 - row in the first row
                  // of a block of two. PyTorch's are LAPACK's exchanges, from 1
  WEFT_MEMBERS(ld, pivots)
};
// The factors P^T L D L^T P of a symmetric matrix, of which the lower triangle is read: a permutation, a lower triangle
// with ones on its diagonal, and D with blocks of one and two on its diagonal (Bunch and Kaufman 1977). The matrix need
// not be positive definite; a singular one is an error. It is computed on the host, of a device's memory on copies.
LDLFactors ldl_factor(At a);
// x [...,n,k] with a x = b, from what ldl_factor(a) gave; batches broadcast. A pivot of no row is an error.
Tensor ldl_solve(At ld, At pivots, At b);

// The product of two vectors that is at right angles to both, along an axis of 3, of operands of as many axes; the
// other axes broadcast.
Tensor cross(At a, At b, int axis = -1);

struct QR {  // Q R
  Tensor q;  // [...,m,k]: orthonormal columns
  Tensor r;  // [...,k,n]: upper triangle
  WEFT_MEMBERS(q, r)
};
// a [...,m,n] = q [...,m,k] r [...,k,n] with orthonormal columns and an upper triangle, k the lesser of m and n.
QR qr(At a);

struct Eigh {           // eigenvalues and vectors of a symmetric matrix
  Tensor eigenvalues;   // [...,n], ascending
  Tensor eigenvectors;  // [...,n,n], in columns, of length 1
  WEFT_MEMBERS(eigenvalues, eigenvectors)
};
// Of a symmetric matrix, of which the lower (or upper) triangle is read: eigenvalues [...,n] in ascending order and
// eigenvectors in the columns of [...,n,n]. NaN where there is no finite answer.
Eigh eigh(At a, bool upper = false);
Tensor eigvalsh(At a, bool upper = false);  // the eigenvalues alone, [...,n], ascending

struct Eig {             // eigenvalues and vectors of any square matrix
  fft::Complex values;   // [...,n], in no order but that conjugates are neighbours
  fft::Complex vectors;  // [...,n,n], in columns, of length 1
  WEFT_MEMBERS(values, vectors)
};
// The complex eigenvalues [...,n] of a real square matrix, and eigenvectors in the columns of [...,n,n]: a vectors =
// vectors diag(values). A vector's greatest element is real, its sign is free; the vectors of a defective matrix are
// not independent. NaN where there is no finite answer. It is computed on the host, of a device's memory on copies. The
// derivative wants distinct eigenvalues, and a loss that does not depend on the phases of vectors, which is not
// checked.
Eig eig(At a);
fft::Complex eigvals(At a);  // the eigenvalues alone

struct SVD {  // U diag(S) V^H
  Tensor u;   // [...,m,m], or [...,m,k] without full_matrices: orthonormal columns
  Tensor s;   // [...,k]: the singular values, descending
  Tensor vh;  // [...,n,n], or [...,k,n] without full_matrices: orthonormal rows
  WEFT_MEMBERS(u, s, vh)
};
// a [...,m,n] = u diag(s) vh, s [...,k] in descending order, k the lesser of m and n. u is [...,m,m] and vh [...,n,n],
// or without full_matrices [...,m,k] and [...,k,n]. NaN where there is no finite answer. Vectors of full_matrices of a
// matrix that is not square have no derivative.
SVD svd(At a, bool full_matrices = true);
Tensor svdvals(At a);  // the singular values alone, [...,k], descending

// The x [...,n,k] of least norm among those that make a x - b [...,m,k] least, for an a [...,m,n] of full rank.
Tensor lstsq(At a, At b);
// The pseudoinverse [...,n,m] by singular values; those below rtol times the greatest count as 0. A negative rtol
// means max(m, n) times the spacing of the dtype at 1. The derivative holds the rank constant, and is finite at every
// rank.
Tensor pinv(At a, double rtol = -1);
// How many singular values are above rtol times the greatest, i64 [...].
Tensor matrix_rank(At a, double rtol = -1);
// exp(a) = I + a + a^2 / 2 + ... of a square matrix: 18 powers of a / 2^s, and s squarings (Bader and others 2019). Its
// derivative is that of PyTorch: a corner of the exponential of a matrix of 2n x 2n (Mathias 1996). A second
// derivative is an error: how often it squares is known only when it runs.
Tensor matrix_exp(At a);
// norm(a) norm(a^-1) [...], in the norm that matrix_norm calls ord, by default 2: the greatest singular value by the
// least, and -2 the least by the greatest. Others want a square matrix, and are infinite where it is singular.
Tensor cond(At a, double ord = 2);
Tensor cond(At a, const char* ord);
// The inverse of a as a map from its axes from `ind` on to those before, of which the products of sizes are equal:
// [a.shape[ind:]..., a.shape[:ind]...]. A singular map is an error.
Tensor tensorinv(At a, int ind = 2);
// x with tensordot(a, x, x.rank()) = b: the first axes of a are those of b, the rest are those of x. `axes` of a are
// moved to its end before. Throws where the products of sizes differ; a singular map is an error.
Tensor tensorsolve(At a, At b, Axes axes = {});
// [..., n] to [..., n, count]: the powers 0, 1, ..., count - 1 of each element. A negative count means n. Integers
// stay integers.
Tensor vander(At x, std::int64_t count = -1);
// The first n columns of H_1 H_2 ... H_k, of a [...,m,n] and tau [...,k] with k <= n <= m: H_i = I - tau_i v v^T, where
// v is column i of a below its diagonal, 1 on it and 0 above (LAPACK's orgqr).
Tensor householder_product(At a, At tau);
struct SVDLowrank {  // about U diag(S) V^T
  Tensor u;          // [...,m,q]: orthonormal columns
  Tensor s;          // [...,q], descending
  Tensor v;          // [...,n,q]: orthonormal columns
  WEFT_MEMBERS(u, s, v)
};
// The q greatest singular values and their vectors, about, from a product with random numbers and niter rounds of
// subspace iteration (Halko and others 2011, algorithm 5.1). Throws where q is not in [1, min(m, n)].
SVDLowrank svd_lowrank(At a, std::int64_t q = 6, int niter = 2, Generator& generator = default_generator());
// A negative exponent takes the inverse; 0 gives the identity.
Tensor matrix_power(At a, std::int64_t exponent);

// Of matrices: "fro" (the root of the sum of squares) and "nuc" (the sum of singular values); 1 and infinity (the
// greatest sum of magnitudes of a column, of a row), 2 (the greatest singular value), and with a minus the least
// instead.
Tensor matrix_norm(At a, const char* ord = "fro", bool keepdim = false);
Tensor matrix_norm(At a, double ord, bool keepdim = false);
// A number for keepdim is refused with a sentence.
template <class Ord, class Number>
requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>) Tensor matrix_norm(At, Ord, Number) {
  static_assert(!sizeof(Number), "weft: keepdim is a bool, as in matrix_norm(a, 2, true)");
  return {};
}
// (sum |x|^ord)^(1/ord) over axes, by default all; infinity: the greatest, -infinity: the least magnitude, 0: how many
// are not 0. Where the norm is 0 its derivative is 0, and so is that by an element that is 0, as in PyTorch.
Tensor vector_norm(At x, double ord = 2, Axes axes = {}, bool keepdim = false);
// As of sum: two axes are a list.
template <class Number>
requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>) Tensor vector_norm(At, double, Axes, Number) {
  static_assert(!sizeof(Number), "weft: keepdim is a bool, as in vector_norm(x, 2, 0, true); two axes are a list");
  return {};
}

}  // namespace weft::linalg
