// Derivatives of the primitives of kind `factorization`. The gradient of a triangle is read in that triangle; what
// gives factors of a symmetric matrix from its lower triangle has the gradient of the whole matrix.
#pragma once
#include "autograd/rules.hpp"
#include "autograd/tangents.hpp"

namespace weft {

void vjp_cholesky(const Pullback& p);
void vjp_triangular_solve(const Pullback& p);
void vjp_lu(const Pullback& p);
void vjp_ldl(const Pullback& p);
void vjp_qr(const Pullback& p);
void vjp_eigh(const Pullback& p);
void push_eigh(const Pushforward& p);
void vjp_svd(const Pullback& p);
void vjp_eig(const Pullback& p);
void vjp_fourier(const Pullback& p);
void vjp_real_fourier(const Pullback& p);
void vjp_inverse_real_fourier(const Pullback& p);

}  // namespace weft
