#include "runtime/host/scatter.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "runtime/host/row_join.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

struct Beginning {
  bool greatest;
  void* table;
};

template <class T>
void begin_elements(void* context, std::int64_t begin, std::int64_t end) {
  const auto& [greatest, table] = *static_cast<const Beginning*>(context);
  std::fill(static_cast<T*>(table) + begin, static_cast<T*>(table) + end,
            greatest ? rows::Greatest::identity<T>() : rows::Add::identity<T>());
}

using BeginElements = void (*)(void*, std::int64_t, std::int64_t);
BeginElements begin_elements_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return begin_elements<float>;
    case DType::f64: return begin_elements<double>;
    case DType::i32: return begin_elements<std::int32_t>;
    case DType::i64: return begin_elements<std::int64_t>;
    case DType::u8: return begin_elements<std::uint8_t>;
    default: fail("scatter", {}, "not for ", info(dtype).name);
  }
}

constexpr std::int64_t piece_elements = 1 << 15;

}  // namespace

void scatter(RowJoin join, DType dtype, ScatterSizes sizes, const std::int64_t* index, const void* updates,
             void* table) {
  Beginning beginning{join == RowJoin::greatest, table};
  parallel_for(0, sizes.rows * sizes.width, piece_elements, begin_elements_of(dtype), &beginning);
  update_rows(join, dtype, {1, sizes.rows, sizes.width, sizes.count}, updates, index, table, {});
}

}  // namespace weft::runtime
