// Cumulative primitives over [outer, length, inner], length being the axis: rows, or strips of columns, by the kernels
// that generated code has too (weft/detail/reduce.inc). A row is one thread's.
#include <algorithm>

#include "base/fail.hpp"
#include "eager/eager.hpp"
#include "eager/kernels.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {
namespace {

constexpr std::int64_t grain = 1 << 13;  // elements that pay for another thread
constexpr std::int64_t strip = 128;      // columns

struct Job {
  ScanKernel rows;
  ColumnScanKernel columns;
  std::int64_t length, inner;
  std::size_t element;  // bytes
  const std::byte* from;
  std::byte* to;
};

void scan_rows(void* context, std::int64_t begin, std::int64_t end) {
  const Job& it = *static_cast<const Job*>(context);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::size_t at = static_cast<std::size_t>(row * it.length) * it.element;
    it.rows(it.from + at, it.length, it.to + at);
  }
}

void scan_strips(void* context, std::int64_t begin, std::int64_t end) {
  const Job& it = *static_cast<const Job*>(context);
  const std::int64_t strips = (it.inner + strip - 1) / strip;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t column = unit % strips * strip;
    const std::size_t at = static_cast<std::size_t>(unit / strips * it.length * it.inner + column) * it.element;
    it.columns(it.from + at, it.length, std::min(strip, it.inner - column), it.inner, it.to + at);
  }
}

}  // namespace

Value execute_cumulative(Op op, const Along& along, const Type& type, const Value& operand) {
  const DType dtype = accumulated_in(operand.type.dtype);
  Type wide = type;
  wide.dtype = dtype;
  const Value from = make_contiguous(convert(operand, dtype)), to = make_value(wide);
  const std::int64_t count = to.sizes.count(), length = to.sizes.size[along.axis];
  if (count == 0) return convert(to, type.dtype);
  std::int64_t inner = 1;
  for (int axis = along.axis + 1; axis < to.sizes.rank; ++axis) inner *= to.sizes.size[axis];
  const auto row = static_cast<std::size_t>(op), column = static_cast<std::size_t>(dtype);
  Job job{kernels().scan[row][column],
          kernels().column_scan[row][column],
          length,
          inner,
          to.element_bytes(),
          from.as<std::byte>(),
          to.as<std::byte>()};
  WEFT_CHECK(job.rows, info(op).name, " of ", to_string(operand.type));
  const std::int64_t outer = count / length / inner;
  if (inner == 1)
    parallel_for(0, outer, std::max<std::int64_t>(1, grain / length), scan_rows, &job);
  else
    parallel_for(0, outer * ((inner + strip - 1) / strip),
                 std::max<std::int64_t>(1, grain / (length * std::min(inner, strip))), scan_strips, &job);
  return convert(to, type.dtype);
}

}  // namespace weft::eager
