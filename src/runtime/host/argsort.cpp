#include "runtime/host/argsort.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>

#include "base/fail.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

struct Sort {
  SortSizes sizes;
  bool descending;
  const void* values;
  std::int64_t* order;
};

template <class T>
bool is_less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a < b || (b != b && a == a);
  else
    return a < b;
}

// Rows [begin, end). Of equal elements the position decides, so that any sort will do.
template <class T>
void sort_rows(void* context, std::int64_t begin, std::int64_t end) {
  const Sort& it = *static_cast<const Sort*>(context);
  const std::int64_t size = it.sizes.size;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* const values = static_cast<const T*>(it.values) + row * size;
    std::int64_t* const order = it.order + row * size;
    std::iota(order, order + size, std::int64_t{0});
    const auto by = [&](auto precedes) {
      std::sort(order, order + size, [&](std::int64_t a, std::int64_t b) {
        return precedes(values[a], values[b]) || (!precedes(values[b], values[a]) && a < b);
      });
    };
    if (it.descending)
      by([](T a, T b) { return is_less(b, a); });
    else
      by([](T a, T b) { return is_less(a, b); });
  }
}

using SortRows = void (*)(void*, std::int64_t, std::int64_t);
SortRows sort_rows_of(DType dtype) {
  switch (dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, type)                           \
  case DType::name:                                                                                        \
    if constexpr (DType::computed == DType::name && DType::name != DType::boolean) return sort_rows<type>; \
    break;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  fail("argsort", {}, "not for ", info(dtype).name);
}

constexpr std::int64_t piece_elements = 1 << 11;  // that pay for another thread

}  // namespace

void argsort(DType dtype, SortSizes sizes, bool descending, const void* values, std::int64_t* order) {
  Sort sort{sizes, descending, values, order};
  const std::int64_t grain = std::max<std::int64_t>(1, piece_elements / std::max<std::int64_t>(sizes.size, 1));
  parallel_for(0, sizes.rows, grain, sort_rows_of(dtype), &sort);
}

}  // namespace weft::runtime
