// Cumulative primitives: rows along the axis, by the kernel that generated code has too (row_scan of
// weft/detail/reduce.inc), so that bits are the same. A row is one thread's.
#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "eager/eager.hpp"
#include "eager/kernels.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {
namespace {

constexpr std::int64_t grain = 1 << 13;  // elements that pay for another thread

// The same elements with two axes swapped: no copy.
Value swapped(Value value, int a, int b) {
  std::swap(value.type.shape[a], value.type.shape[b]);
  std::swap(value.sizes.size[a], value.sizes.size[b]);
  std::swap(value.layout.strides[a], value.layout.strides[b]);
  return value;
}

struct Rows {
  ScanKernel kernel;
  std::int64_t length;
  std::size_t bytes;  // of a row
  const std::byte* from;
  std::byte* to;
};

}  // namespace

Value execute_cumulative(Op op, const Along& along, const Type& type, const Value& operand) {
  const int last = operand.sizes.rank - 1;
  const DType dtype = accumulated_in(operand.type.dtype);
  const Value from = make_contiguous(swapped(convert(operand, dtype), along.axis, last)), to = make_value(from.type);
  const std::int64_t count = to.sizes.count(), length = to.sizes.size[last];
  if (count > 0) {
    Rows rows{kernels().scan[static_cast<int>(op)][static_cast<int>(dtype)], length,
              static_cast<std::size_t>(length) * to.element_bytes(), from.as<std::byte>(), to.as<std::byte>()};
    WEFT_CHECK(rows.kernel, info(op).name, " of ", to_string(operand.type));
    parallel_for(
        0, count / length, std::max<std::int64_t>(1, grain / length),
        [](void* context, std::int64_t begin, std::int64_t end) {
          const Rows& it = *static_cast<const Rows*>(context);
          for (std::int64_t row = begin; row < end; ++row) {
            const std::size_t at = static_cast<std::size_t>(row) * it.bytes;
            it.kernel(it.from + at, it.length, it.to + at);
          }
        },
        &rows);
  }
  return make_contiguous(convert(swapped(to, along.axis, last), type.dtype));
}

}  // namespace weft::eager
