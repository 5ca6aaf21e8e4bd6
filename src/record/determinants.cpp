// Determinants, and their derivatives, of singular matrices too.
#include <limits>

#include "record/composite.hpp"
#include "record/linalg.hpp"
#include "record/linear_algebra.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"

namespace weft::linalg {

WEFT_LINKS_LINEAR_ALGEBRA

namespace {

// 1 or -1: even or odd permutations.
Tensor parity(const Tensor& rows, DType dtype) {
  const Shape shape = type_of(rows).shape;
  const Dim n = shape[shape.rank() - 1];
  const Device device = type_of(rows).device;
  const Tensor before = positions(0, Shape::of(n, n), device, {}) < positions(1, Shape::of(n, n), device, {});
  const Tensor inversions = sum((unsqueeze(rows, -1) > unsqueeze(rows, -2)) & before, {-2, -1});
  return cast(1 - (inversions % 2) * 2, dtype);
}

Tensor determinant(const Tensor& a) {
  const Tensor lu = lu_of(a), diagonal = diagonal_of(lu);
  // The last factor is 1, and has the derivatives of the determinant over its value: those of a product want its size
  // as a number.
  const Tensor logarithm = sum(log(abs(where(diagonal == 0, 1, diagonal))), -1);
  return parity(result_of(lu, 1), type_of(a).dtype) * prod(stop_gradient(diagonal), -1) *
         exp(logarithm - stop_gradient(logarithm));
}

// Of a = U S V^T: det(U) det(V) U C V^T, element i of the diagonal C the product of the other singular values.
Tensor cofactors(const Tensor& a) {
  const Tensor parts = record(Op::svd, {a}, Spectrum{}, {}, {});
  const Tensor &s = parts, u = result_of(parts, 1), vt = result_of(parts, 2);
  const Tensor diagonal = on_diagonal(size_at(a, 1), type_of(a).device);
  const Tensor others = prod(where(diagonal, 1, unsqueeze(s, -2)), -1);
  const Tensor turn = determinant(stop_gradient(u)) * determinant(stop_gradient(vt));
  return matmul(u * unsqueeze(others, -2), vt) * unsqueeze(unsqueeze(turn, -1), -1);
}

// The gradient times the matrix of cofactors: det(a) a^-T, and of a singular matrix by its singular values.
void differentiate_det(const CallValues& p, std::span<Tensor> gradients) {
  const Tensor& a = p.operands[0];
  const Tensor none = unsqueeze(unsqueeze(any(diagonal_of(lu_of(a)) == 0, -1), -1), -1);
  const auto wide = [](const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); };
  const Tensor identity = identity_like(a), lu = lu_of(where(none, identity, a));
  const Tensor inverse = solve_by_lu(lu, result_of(lu, 1), identity, true);
  const Tensor distinct = cumsum(identity, -1) * identity;
  const auto singular = [&](const Tensor& a, const Tensor& regular) {
    return where(none, cofactors(where(none, a, distinct)), regular);
  };
  const Tensor found = cond(
      any(none), singular, [](const Tensor&, const Tensor& regular) { return regular; }, a,
      inverse * wide(p.results[0]));
  gradients[0] = found * wide(p.gradients[0]);
}

}  // namespace

Tensor det(At given) {
  LooseComposite call("det", given.loc);
  const Tensor a = matrix("det", given, call.loc(), true);
  return composite_with(differentiate_det, called("det"), call.loc(), determinant, a);
}

SignAndLogAbsDet slogdet(At given) {
  LooseComposite call("slogdet", given.loc);
  const Tensor a = matrix("slogdet", given, call.loc(), true), lu = lu_of(a), diagonal = diagonal_of(lu);
  const Tensor signs = prod(sign(stop_gradient(diagonal)), -1);
  return {parity(result_of(lu, 1), type_of(a).dtype) * signs, sum(log(abs(diagonal)), -1)};
}

Tensor logdet(At given) {
  LooseComposite call("logdet", given.loc);
  const SignAndLogAbsDet parts = slogdet(given);
  return where(parts.sign < 0, std::numeric_limits<double>::quiet_NaN(), parts.logabsdet);
}

}  // namespace weft::linalg
