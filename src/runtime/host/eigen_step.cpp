// Who names this step has the kernels of factorizations and transforms, which are weak references elsewhere
// (factorization.cpp).
#include "runtime/factorization.hpp"
#include "runtime/host/factorization.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

// One function of each object file.
[[gnu::used]] static FactorizeMatrices* const kernels[] = {
    baseline::factorize_directly,       avx2::factorize_directly,         avx512::factorize_directly,
    baseline::factorize_by_eigenvalues, avx2::factorize_by_eigenvalues,   avx512::factorize_by_eigenvalues,
    factorize_by_singular_values,       factorize_by_general_eigenvalues, transform_rows};

const NamedStep steps::linear_algebra{StoredFactorization::name, StoredFactorization::read};

}  // namespace weft::runtime
