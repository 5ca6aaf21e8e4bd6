// See record/linear_algebra.hpp: what refers to this has the kernels of factorizations and transforms, and their
// derivatives.
#include "record/linear_algebra.hpp"

#include "autograd/linalg.hpp"
#include "runtime/host/factorization.hpp"

namespace weft {

// One function of each object file.
struct LinearAlgebraParts {
  runtime::FactorizeMatrices* kernels[9];
  Rule rule;
};
extern const LinearAlgebraParts linear_algebra_parts{
    {runtime::baseline::factorize_directly, runtime::avx2::factorize_directly, runtime::avx512::factorize_directly,
     runtime::baseline::factorize_by_eigenvalues, runtime::avx2::factorize_by_eigenvalues,
     runtime::avx512::factorize_by_eigenvalues, runtime::factorize_by_singular_values,
     runtime::factorize_by_general_eigenvalues, runtime::transform_rows},
    vjp_cholesky};

}  // namespace weft
