// Eager kernels that fold a chunk of a row, or scan a row, in the order that weft/detail/reduce.inc fixes.
#include <type_traits>

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

template <class Operation, class T>
void scan_row(const void* elements, std::int64_t count, void* results) {
  const auto* from = static_cast<const T*>(elements);
  auto* to = static_cast<T*>(results);
  weft::lanes::row_scan<Operation, T> scan;  // not the row of the table
  for (long i = 0; i < count; i += lane_count) {
    const long n = count - i < lane_count ? count - i : long(lane_count);
    store_n(to + i, scan.add(load_n(from + i, n), n), n);
  }
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
  auto put_scan = [&]<class Operation>(int row, Operation) {
    kernels.scan[row][static_cast<int>(DType::f32)] = scan_row<Operation, float>;
    kernels.scan[row][static_cast<int>(DType::f64)] = scan_row<Operation, double>;
    if constexpr (!std::is_same_v<Operation, logcumsumexp_operation>)
      kernels.scan[row][static_cast<int>(DType::i64)] = scan_row<Operation, long>;
  };
  put_scan(row_cumsum, sum_operation());
  put_scan(row_cumprod, prod_operation());
  put_scan(row_cummax, amax_operation());
  put_scan(row_cummin, amin_operation());
  put_scan(row_logcumsumexp, logcumsumexp_operation());
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
