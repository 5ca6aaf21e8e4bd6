#include "runtime/host/scatter.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "base/fail.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

struct Scatter {
  ScatterSizes sizes;
  const std::int64_t* index;
  const void* updates;
  void* table;
};

template <class T>
constexpr T least() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  } else {
    return a + b;
  }
}
template <class T>
T greatest_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {  // without a branch, so that it becomes vector instructions
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const auto mask = [](bool holds) { return Bits{0} - static_cast<Bits>(holds); };
    const auto first = std::bit_cast<Bits>(a), second = std::bit_cast<Bits>(b);
    const Bits takes_first = mask(a > b) | mask(a != a);
    const Bits joined = (first & takes_first) | (second & ~takes_first);
    return std::bit_cast<T>(joined & ~(mask(a == b) & (first ^ second)));  // -0 < +0
  } else {
    return a > b ? a : b;
  }
}

// Takes the updates that fall into rows [begin, end).
template <Meeting meeting, class T>
void join_rows(void* context, std::int64_t begin, std::int64_t end) {
  const Scatter& it = *static_cast<const Scatter*>(context);
  const std::int64_t width = it.sizes.width;
  T* table = static_cast<T*>(it.table);
  std::fill(table + begin * width, table + end * width, meeting == Meeting::add ? T(0) : least<T>());
  for (std::int64_t i = 0; i < it.sizes.count; ++i) {
    const std::int64_t row = it.index[i];
    if (row < begin || row >= end) continue;
    T* to = table + row * width;
    const T* from = static_cast<const T*>(it.updates) + i * width;
    for (std::int64_t j = 0; j < width; ++j)
      to[j] = meeting == Meeting::add ? sum_of(to[j], from[j]) : greatest_of(to[j], from[j]);
  }
}

using JoinRows = void (*)(void*, std::int64_t, std::int64_t);
template <Meeting meeting>
JoinRows join_rows_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return join_rows<meeting, float>;
    case DType::f64: return join_rows<meeting, double>;
    case DType::i32: return join_rows<meeting, std::int32_t>;
    case DType::i64: return join_rows<meeting, std::int64_t>;
    case DType::u8: return join_rows<meeting, std::uint8_t>;
    default: fail("scatter", {}, "not for ", info(dtype).name);
  }
}

constexpr std::int64_t piece_elements = 1 << 15;

}  // namespace

void scatter(Meeting meeting, DType dtype, ScatterSizes sizes, const std::int64_t* index, const void* updates,
             void* table) {
  const JoinRows join =
      meeting == Meeting::add ? join_rows_of<Meeting::add>(dtype) : join_rows_of<Meeting::greatest>(dtype);
  Scatter job{sizes, index, updates, table};
  const std::int64_t work = (sizes.count + sizes.rows) * std::max<std::int64_t>(sizes.width, 1);
  const std::int64_t grain = std::max<std::int64_t>(1, sizes.rows * piece_elements / std::max<std::int64_t>(work, 1));
  // Each piece looks at all updates: there are no more of them than threads.
  const std::int64_t piece = (sizes.rows - 1) / num_threads() + 1;
  parallel_for(0, sizes.rows, std::max(grain, piece), join, &job);
}

}  // namespace weft::runtime
