// Eigenvalues and singular values of a matrix, in float64: Jacobi's rotations, the QR algorithm with shifts, Hestenes.
// The results are those of matrix i of a batch.
#pragma once
#include "interpret/reference_matrix.hpp"

namespace weft::reference {

void put_eigh(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i);
// Results: real and imaginary parts of the values, and of the vectors.
void put_eig(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i);
void put_svd(const Spectrum& spectrum, const Matrix& a, std::vector<Literal>& results, std::size_t i);

}  // namespace weft::reference
