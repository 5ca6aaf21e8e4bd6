#include "runtime/host/factorization.hpp"

#include <algorithm>
#include <new>

#include "runtime/factorization.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"
#include "weft/error.hpp"

namespace weft::runtime {

// Null where the program calls no linear algebra (record/linear_algebra.hpp).
WEFT_FOR_EACH_ISA([[gnu::weak]] FactorizeMatrices factorize_directly, factorize_by_eigenvalues;)
[[gnu::weak]] FactorizeMatrices factorize_by_singular_values, factorize_by_general_eigenvalues, transform_rows;

namespace {

FactorizeMatrices* function_of(Factorization::Kind kind) {
  static constexpr FactorizeMatrices* direct[] = {baseline::factorize_directly, avx2::factorize_directly,
                                                  avx512::factorize_directly};
  static constexpr FactorizeMatrices* eigenvalues[] = {
      baseline::factorize_by_eigenvalues, avx2::factorize_by_eigenvalues, avx512::factorize_by_eigenvalues};
  const auto isa = static_cast<std::size_t>(host_isa());
  switch (kind) {
    case Factorization::Kind::eigh: return eigenvalues[isa];
    case Factorization::Kind::eig: return factorize_by_general_eigenvalues;
    case Factorization::Kind::svd: return factorize_by_singular_values;
    case Factorization::Kind::fourier:
    case Factorization::Kind::real_fourier:
    case Factorization::Kind::inverse_real_fourier: return transform_rows;
    default: return direct[isa];
  }
}

constexpr std::int64_t piece_operations = 1 << 14;  // that pay for another thread

struct Work {
  FactorizationCall call;
  FactorizeMatrices* function;
};

}  // namespace

void require_linked(Factorization::Kind kind) {
  if (function_of(kind)) return;
  throw Error(
      "[linalg] the part of Weft that factors matrices and transforms rows is not linked: in C it is that of "
      "weft_step_linear_algebra, and of libweft_run_eigen.so; in C++ it comes with a function of weft/linalg.hpp or "
      "weft/fft.hpp that the program refers to");
}

void factorize(const Factorization& what, const FactorizationSizes<std::int64_t>& sizes, void* const* buffers) {
  require_linked(what.kind);
  Work work{{what, sizes, buffers}, function_of(what.kind)};
  const double each = static_cast<double>(sizes.rows) * static_cast<double>(sizes.columns) *
                      static_cast<double>(std::max(std::min(sizes.rows, sizes.columns), sizes.sides));
  const std::int64_t grain = each >= piece_operations ? 1 : piece_operations / static_cast<std::int64_t>(each + 1);
  parallel_for(
      0, sizes.batch, grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        const Work& it = *static_cast<const Work*>(context);
        try {
          it.function(it.call, begin, end);
        } catch (const std::bad_alloc&) {
          throw OutOfMemory("[linalg] Eigen found no memory");
        }
      },
      &work);
}

}  // namespace weft::runtime
