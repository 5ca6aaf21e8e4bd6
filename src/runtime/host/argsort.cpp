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

// Numbers in the order of the elements: equal ones for 0 and -0 and for all NaN.
template <class T>
std::uint32_t key_of(T value) {
  constexpr std::uint32_t sign = std::uint32_t{1} << 31;
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return ~std::uint32_t{0};
    const auto bits = value == 0 ? 0 : std::bit_cast<std::uint32_t>(value);
    return bits & sign ? ~bits : bits | sign;
  } else {
    return static_cast<std::uint32_t>(value) ^ (std::is_signed_v<T> ? sign : 0);
  }
}

// A row of elements of at most 32 bits: key and position as one number, in the place of the result. Comparing these
// reaches for no element.
template <class T>
void sort_keys(const T* values, std::int64_t size, bool descending, std::int64_t* order) {
  auto* const keys = reinterpret_cast<std::uint64_t*>(order);
  const std::uint32_t flip = descending ? ~std::uint32_t{0} : 0;
  for (std::int64_t i = 0; i < size; ++i)
    keys[i] = std::uint64_t{key_of(values[i]) ^ flip} << 32 | static_cast<std::uint64_t>(i);
  std::sort(keys, keys + size);
  for (std::int64_t i = 0; i < size; ++i) keys[i] &= ~std::uint32_t{0};
}

// Rows [begin, end). Of equal elements the position decides, so that any sort will do.
template <class T>
void sort_rows(void* context, std::int64_t begin, std::int64_t end) {
  const Sort& it = *static_cast<const Sort*>(context);
  const std::int64_t size = it.sizes.size;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* const values = static_cast<const T*>(it.values) + row * size;
    std::int64_t* const order = it.order + row * size;
    if constexpr (sizeof(T) <= sizeof(std::uint32_t)) {
      if (size <= std::int64_t{1} << 32) {
        sort_keys(values, size, it.descending, order);
        continue;
      }
    }
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
