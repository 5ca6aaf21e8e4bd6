// Factorizations of matrices, by Eigen, and Fourier transforms on the host. In: operands over contiguous row-major
// memory. Out: results over the same. Matrices of a batch are shared out over threads, each is done on one: results do
// not depend on threads.
#pragma once
#include "base/factorization.hpp"
#include "runtime/host/isa_namespaces.hpp"

namespace weft::runtime {

// Buffers: the operands, then the results, as the primitive has them (weft/ops.def).
void factorize(const Factorization& what, const FactorizationSizes<std::int64_t>& sizes, void* const* buffers);

// ---- the parts of it, of matrices [begin, end) of a batch -----------------------------------------------------------

struct FactorizationCall {
  const Factorization& what;
  const FactorizationSizes<std::int64_t>& sizes;
  void* const* buffers;
};
using FactorizeMatrices = void(const FactorizationCall& call, std::int64_t begin, std::int64_t end);
// Once for each ISA: cholesky, triangular_solve, lu, ldl, qr; eigenvalues.
WEFT_FOR_EACH_ISA(FactorizeMatrices factorize_directly, factorize_by_eigenvalues;)
FactorizeMatrices factorize_by_singular_values;
FactorizeMatrices factorize_by_general_eigenvalues;
FactorizeMatrices transform_rows;

}  // namespace weft::runtime
