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

template <class T>
void sum_scaled_chunk(const void* elements, std::int64_t count, double scale, void* result) {
  const auto* row = static_cast<const T*>(elements);
  const weft::lanes::lanes<T> factor(static_cast<T>(scale));  // not the namespace
  *static_cast<T*>(result) = reduce_row<sum_operation, T>(
      count, [ row, factor ](long i, long n) __attribute__((always_inline)) {
        return (n == lane_count ? load(row + i) : load_n(row + i, n)) * factor;
      });
}

template <class Operation, class T>
void fold_narrow(const void* elements, std::int64_t rows, std::int64_t width, void* results) {
  const auto* from = static_cast<const T*>(elements);
  auto* to = static_cast<T*>(results);
  const auto put = [&](const T* chunk) __attribute__((always_inline)) {
    for (long column = 0; column < width; ++column) to[column] = chunk[column];
    to += width;
  };
  if (width <= 4)
    narrow_chunks<Operation, T, 4>::each(from, rows * width, width, put);
  else
    narrow_chunks<Operation, T, 8>::each(from, rows * width, width, put);
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

template <class Operation, class T>
void scan_columns(const void* elements, std::int64_t rows, std::int64_t columns, std::int64_t stride, void* results) {
  weft::lanes::column_scan<Operation, T, 128> scan;
  scan.clear();
  for (long row = 0; row < rows; ++row) {
    const auto* from = static_cast<const T*>(elements) + row * stride;
    auto* to = static_cast<T*>(results) + row * stride;
    for (long at = 0; at < columns; at += lane_count) {
      const long n = columns - at < lane_count ? columns - at : long(lane_count);
      auto strip = scan.open(at);
      store_n(to + at, strip.add(load_n(from + at, n)), n);
      scan.keep(at, strip);
    }
  }
}

}  // namespace

void put_reductions(Kernels& kernels) {
  auto put = [&]<class Operation>(int row, Operation) {
    kernels.reduce[row][static_cast<int>(DType::f32)] = fold_chunk<Operation, float>;
    kernels.narrow_reduce[row][static_cast<int>(DType::f32)] = fold_narrow<Operation, float>;
    kernels.reduce[row][static_cast<int>(DType::f64)] = fold_chunk<Operation, double>;
    kernels.narrow_reduce[row][static_cast<int>(DType::f64)] = fold_narrow<Operation, double>;
    kernels.reduce[row][static_cast<int>(DType::i64)] = fold_chunk<Operation, long>;
    kernels.narrow_reduce[row][static_cast<int>(DType::i64)] = fold_narrow<Operation, long>;
  };
  put(row_sum, sum_operation());
  put(row_prod, prod_operation());
  put(row_amax, amax_operation());
  put(row_amin, amin_operation());
  kernels.scaled_sum[static_cast<int>(DType::f32)] = sum_scaled_chunk<float>;
  kernels.scaled_sum[static_cast<int>(DType::f64)] = sum_scaled_chunk<double>;
  auto put_scan = [&]<class Operation>(int row, Operation) {
    const auto put_for = [&]<class T>(DType dtype, T) {
      kernels.scan[row][static_cast<int>(dtype)] = scan_row<Operation, T>;
      kernels.column_scan[row][static_cast<int>(dtype)] = scan_columns<Operation, T>;
    };
    put_for(DType::f32, 0.0f);
    put_for(DType::f64, 0.0);
    if constexpr (!std::is_same_v<Operation, logcumsumexp_operation>) put_for(DType::i64, 0L);
  };
  put_scan(row_cumsum, sum_operation());
  put_scan(row_cumprod, prod_operation());
  put_scan(row_cummax, amax_operation());
  put_scan(row_cummin, amin_operation());
  put_scan(row_logcumsumexp, logcumsumexp_operation());
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
