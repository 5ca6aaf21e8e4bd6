#include "runtime/processes/sum.hpp"

#include <type_traits>

#include "base/fail.hpp"

namespace weft::runtime {

namespace {

// In which elements are added.
template <class T>
struct Added {
  using Type = float;
};
template <class T>
requires std::is_floating_point_v<T>
struct Added<T> {
  using Type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Added<T> {
  using Type = std::uint64_t;
};

template <class T>
void sum_of(std::int64_t count, std::span<const void* const> parts, void* result) {
  using Sum = typename Added<T>::Type;
  T* const to = static_cast<T*>(result);
  for (std::int64_t i = 0; i < count; ++i) {
    Sum sum = static_cast<Sum>(static_cast<const T*>(parts[0])[i]);
    for (std::size_t rank = 1; rank < parts.size(); ++rank)
      sum += static_cast<Sum>(static_cast<const T*>(parts[rank])[i]);
    to[i] = static_cast<T>(sum);
  }
}

}  // namespace

void sum_in_order(DType dtype, std::int64_t count, std::span<const void* const> parts, void* result) {
  if (dtype != DType::boolean) switch (dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    return sum_of<type>(count, parts, result);
#include "weft/dtypes.def"
#undef WEFT_DTYPE
    }
  WEFT_CHECK(false, "no sum of ", info(dtype).name);
}

}  // namespace weft::runtime
