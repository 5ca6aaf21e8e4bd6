// Eager kernels that fold a chunk of a row, in the order that weft/detail/reduce.inc fixes.
#include "eager/kernels.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::eager::WEFT_ISA_NAMESPACE {
namespace {
using namespace weft::lanes;

template <class Operation, class T>
void fold_chunk(const void* elements, std::int64_t count, void* result) {
  const auto* row = static_cast<const T*>(elements);
  *static_cast<T*>(result) = reduce_row<Operation, T>(
      count, [row](long i, long n)
                 __attribute__((always_inline)) { return n == lane_count ? load(row + i) : load_n(row + i, n); });
}

}  // namespace

void put_reductions(Kernels& kernels) {
  auto put = [&]<class Operation>(int row, Operation) {
    kernels.reduce[row][static_cast<int>(DType::f32)] = fold_chunk<Operation, float>;
    kernels.reduce[row][static_cast<int>(DType::f64)] = fold_chunk<Operation, double>;
    kernels.reduce[row][static_cast<int>(DType::i64)] = fold_chunk<Operation, long>;
  };
  put(row_sum, sum_operation());
  put(row_prod, prod_operation());
  put(row_amax, amax_operation());
  put(row_amin, amin_operation());
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
