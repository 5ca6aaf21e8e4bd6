#include "runtime/host/scatter.hpp"

#include <algorithm>
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

// A thread owns rows [begin, end) and takes the updates that fall there.
template <class T>
void add_rows(void* context, std::int64_t begin, std::int64_t end) {
  const Scatter& it = *static_cast<const Scatter*>(context);
  const std::int64_t width = it.sizes.width;
  T* table = static_cast<T*>(it.table);
  std::fill(table + begin * width, table + end * width, T(0));
  for (std::int64_t i = 0; i < it.sizes.count; ++i) {
    const std::int64_t row = it.index[i];
    if (row < begin || row >= end) continue;
    T* to = table + row * width;
    const T* from = static_cast<const T*>(it.updates) + i * width;
    if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      for (std::int64_t j = 0; j < width; ++j)
        to[j] = static_cast<T>(static_cast<Wrapping>(to[j]) + static_cast<Wrapping>(from[j]));
    } else {
      for (std::int64_t j = 0; j < width; ++j) to[j] += from[j];
    }
  }
}

using AddRows = void (*)(void*, std::int64_t, std::int64_t);
AddRows add_rows_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return add_rows<float>;
    case DType::f64: return add_rows<double>;
    case DType::i32: return add_rows<std::int32_t>;
    case DType::i64: return add_rows<std::int64_t>;
    case DType::u8: return add_rows<std::uint8_t>;
    default: fail("scatter_add", {}, "not for ", info(dtype).name);
  }
}

constexpr std::int64_t piece_elements = 1 << 15;

}  // namespace

void scatter_add(DType dtype, ScatterSizes sizes, const std::int64_t* index, const void* updates, void* table) {
  const AddRows add = add_rows_of(dtype);
  Scatter scatter{sizes, index, updates, table};
  const std::int64_t work = (sizes.count + sizes.rows) * std::max<std::int64_t>(sizes.width, 1);
  const std::int64_t grain = std::max<std::int64_t>(1, sizes.rows * piece_elements / std::max<std::int64_t>(work, 1));
  parallel_for(0, sizes.rows, grain, add, &scatter);
}

}  // namespace weft::runtime
