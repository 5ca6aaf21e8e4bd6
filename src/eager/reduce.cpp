// Reductions, in the order of weft/detail/reduce.inc. The operand's axes are taken in the order kept, reduced and,
// where the last axis is kept, its run of kept axes last: [outer, length] are rows, [outer, length, inner] columns.
// Work is cut into chunks by the shape alone; partial results are joined in order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/fail.hpp"
#include "eager/blocks.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {
namespace {

constexpr std::int64_t column_block = 1024;
constexpr std::int64_t grain = 1 << 15;  // elements that pay for another thread

struct Reduction {
  std::int64_t outer = 1, length = 1, inner = 1;
  Walk walk;           // over [outer, length, inner] in this order
  Walk kept, reduced;  // over [outer, inner], and over [length]
};

Reduction reduction_of(const Value& operand, const Reduce& reduce) {
  const Sizes& sizes = operand.sizes;
  int tail = sizes.rank;  // axes from here on are kept and come last
  while (tail > 0 && (!reduce.axes[tail - 1] || sizes.size[tail - 1] == 1)) --tail;
  Reduction reduction;
  Sizes permuted;
  Layout layout;
  layout.offset = operand.layout.offset;
  auto take = [&](int begin, int end, bool reduced, std::int64_t& count) {
    for (int axis = begin; axis < end; ++axis) {
      if (reduce.axes[axis] != reduced) continue;
      layout.strides[permuted.rank] = operand.layout.strides[axis];
      permuted.size[permuted.rank++] = sizes.size[axis];
      count *= sizes.size[axis];
    }
  };
  take(0, tail, false, reduction.outer);
  take(0, sizes.rank, true, reduction.length);
  take(tail, sizes.rank, false, reduction.inner);
  reduction.walk = make_walk(permuted, layout);
  for (const bool reduced : {false, true}) {
    Sizes some;
    Layout part;
    part.offset = reduced ? 0 : operand.layout.offset;
    for (int axis = 0; axis < sizes.rank; ++axis) {
      if (reduce.axes[axis] != reduced) continue;
      part.strides[some.rank] = operand.layout.strides[axis];
      some.size[some.rank++] = sizes.size[axis];
    }
    (reduced ? reduction.reduced : reduction.kept) = make_walk(some, part);
  }
  return reduction;
}

// Blocks of the operand in the dtype of the accumulation.
struct Blocks {
  Walk walk;
  const void* data;
  DType stored, wanted;
  struct alignas(64) Scratch {
    std::byte packed[row_chunk * 8], converted[row_chunk * 8];
  };
  const void* fetch(std::int64_t begin, std::int64_t count, Scratch& scratch) const {
    std::size_t bytes = storage_bytes(stored, 1);
    const void* elements = gather_block(walk, data, bytes, begin, count, scratch.packed);
    if (stored == wanted) return elements;
    cast_elements(stored, wanted, scratch.converted, elements, count);
    return scratch.converted;
  }
};

// The type in which partial results are joined: double for floats.
template <class T>
struct TotalOf {
  using type = double;
};
template <>
struct TotalOf<std::int64_t> {
  using type = std::int64_t;
};

double join(Op op, double a, double b) {
  switch (op) {
    case Op::sum: return a + b;
    case Op::prod: return a * b;
    default: break;
  }
  if (a != a || b != b) return NAN;
  bool first = a < b || (a == b && std::signbit(a));  // -0 < +0
  return (op == Op::amin) == first ? a : b;
}
std::int64_t join(Op op, std::int64_t a, std::int64_t b) {
  auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case Op::sum: return static_cast<std::int64_t>(x + y);
    case Op::prod: return static_cast<std::int64_t>(x * y);
    case Op::amax: return std::max(a, b);
    default: return std::min(a, b);
  }
}
template <class Total>
Total start(Op op) {
  if (op == Op::sum) return 0;
  if (op == Op::prod) return 1;
  if constexpr (std::is_integral_v<Total>)
    return op == Op::amax ? INT64_MIN : INT64_MAX;
  else
    return op == Op::amax ? -INFINITY : INFINITY;
}

// Of an element of a walk, from its beginning.
std::int64_t offset_of(const Walk& walk, std::int64_t element) {
  std::int64_t offset = walk.offset;
  for (int axis = walk.sizes.rank; axis-- > 0; element /= walk.sizes.size[axis])
    offset += element % walk.sizes.size[axis] * walk.strides[axis];
  return offset;
}

struct Job {
  Op op;
  Reduction reduction;
  Blocks blocks;
  DType dtype;              // of partial results
  std::int64_t chunks = 1;  // a row or column
  std::byte* partial;       // [outer, chunks, inner]
};

void fold_rows(const Job& job, std::int64_t begin, std::int64_t end) {
  Blocks::Scratch scratch;
  const ReduceKernel kernel = reduce_kernel(job.op, job.dtype);
  std::size_t bytes = storage_bytes(job.dtype, 1);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t row = unit / job.chunks, first = unit % job.chunks * row_chunk;
    std::int64_t count = std::min(row_chunk, job.reduction.length - first);
    kernel(job.blocks.fetch(row * job.reduction.length + first, count, scratch), count,
           job.partial + static_cast<std::size_t>(unit) * bytes);
  }
}

void fold_columns(const Job& job, std::int64_t begin, std::int64_t end) {
  Blocks::Scratch scratch;
  const Reduction& reduction = job.reduction;
  std::size_t bytes = storage_bytes(job.dtype, 1);
  std::int64_t columns = (reduction.inner - 1) / column_block + 1;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t column = unit % columns * column_block, chunk = unit / columns % job.chunks;
    std::int64_t outer = unit / columns / job.chunks;
    std::int64_t count = std::min(column_block, reduction.inner - column);
    std::int64_t first = chunk * column_chunk, last = std::min(first + column_chunk, reduction.length);
    std::byte* total =
        job.partial + static_cast<std::size_t>((outer * job.chunks + chunk) * reduction.inner + column) * bytes;
    fill_start(job.op, job.dtype, total, count);
    for (std::int64_t row = first; row < last; ++row) {
      const void* elements =
          job.blocks.fetch((outer * reduction.length + row) * reduction.inner + column, count, scratch);
      combine(combining(job.op), job.dtype, total, total, elements, count);
    }
  }
}

// Columns of one chunk, of many short runs: a block of columns takes in the first row of each, then the second, and so
// on. The bits are those of fold_columns, whose runs would be too short to be worth a kernel's call.
void fold_short(const Job& job, std::int64_t begin, std::int64_t end) {
  Blocks::Scratch scratch;
  const Reduction& reduction = job.reduction;
  const std::size_t bytes = storage_bytes(job.dtype, 1);
  const std::int64_t all = reduction.outer * reduction.inner;
  std::vector<std::int64_t> offsets;
  for (std::int64_t row = 0; row < reduction.length; ++row) offsets.push_back(offset_of(reduction.reduced, row));
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t first = unit * column_block, count = std::min(column_block, all - first);
    std::byte* total = job.partial + static_cast<std::size_t>(first) * bytes;
    fill_start(job.op, job.dtype, total, count);
    Blocks row = job.blocks;
    for (const std::int64_t offset : offsets) {
      row.walk = reduction.kept;
      row.walk.offset += offset;
      combine(combining(job.op), job.dtype, total, total, row.fetch(first, count, scratch), count);
    }
  }
}

// Rows of few elements: many of them lie on the lanes, and their elements are joined in the order in which a row's own
// lanes are: by halves.
constexpr std::int64_t short_row = 8, rows_at_once = 512;

void fold_short_rows(const Job& job, std::int64_t begin, std::int64_t end) {
  Blocks::Scratch scratch;
  alignas(64) std::byte lanes[short_row][rows_at_once * 8];
  const Reduction& reduction = job.reduction;
  const std::size_t bytes = storage_bytes(job.dtype, 1);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t first = unit * rows_at_once, count = std::min(rows_at_once, reduction.outer - first);
    Blocks column = job.blocks;
    for (std::int64_t i = 0; i < reduction.length; ++i) {
      column.walk = reduction.kept;
      column.walk.offset += offset_of(reduction.reduced, i);
      fill_start(job.op, job.dtype, lanes[i], count);
      combine(combining(job.op), job.dtype, lanes[i], lanes[i], column.fetch(first, count, scratch), count);
    }
    for (std::int64_t half = short_row / 2; half > 0; half /= 2)
      for (std::int64_t i = 0; i < half && i + half < reduction.length; ++i)
        combine(combining(job.op), job.dtype, lanes[i], lanes[i], lanes[i + half], count);
    std::memcpy(job.partial + static_cast<std::size_t>(first) * bytes, lanes[0],
                static_cast<std::size_t>(count) * bytes);
  }
}

// Columns that are narrow, as many rows at a time as a block holds of whole chunks.
constexpr std::int64_t narrow_chunks = row_chunk / (column_chunk * narrow_columns);

void fold_narrow(const Job& job, std::int64_t begin, std::int64_t end) {
  Blocks::Scratch scratch;
  const Reduction& reduction = job.reduction;
  const NarrowReduceKernel kernel = kernels().narrow_reduce[static_cast<int>(job.op)][static_cast<int>(job.dtype)];
  const std::int64_t blocks = (job.chunks + narrow_chunks - 1) / narrow_chunks;
  const std::size_t bytes = storage_bytes(job.dtype, 1);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t outer = unit / blocks, chunk = unit % blocks * narrow_chunks;
    const std::int64_t first = chunk * column_chunk;
    const std::int64_t rows = std::min(narrow_chunks * column_chunk, reduction.length - first);
    kernel(job.blocks.fetch((outer * reduction.length + first) * reduction.inner, rows * reduction.inner, scratch),
           rows, reduction.inner,
           job.partial + static_cast<std::size_t>((outer * job.chunks + chunk) * reduction.inner) * bytes);
  }
}

template <class T>
void join_chunks(Op op, const void* partials, void* results, std::int64_t outer, std::int64_t chunks,
                 std::int64_t inner) {
  using Total = typename TotalOf<T>::type;
  const T* partial = static_cast<const T*>(partials);
  T* result = static_cast<T*>(results);
  std::vector<Total> totals(static_cast<std::size_t>(inner));
  for (std::int64_t i = 0; i < outer; ++i) {
    std::fill(totals.begin(), totals.end(), start<Total>(op));
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      for (Total& total : totals) total = join(op, total, static_cast<Total>(*partial++));
    for (Total total : totals) *result++ = static_cast<T>(total);
  }
}

// The first greatest element's position in each row; a NaN is greatest.
template <class T>
void fold_argmax(const Job& job, std::int64_t begin, std::int64_t end) {
  Blocks::Scratch scratch;
  auto* result = reinterpret_cast<std::int64_t*>(job.partial);
  for (std::int64_t row = begin; row < end; ++row) {
    T best{};
    std::int64_t position = -1;
    for (std::int64_t first = 0; first < job.reduction.length; first += row_chunk) {
      std::int64_t count = std::min(row_chunk, job.reduction.length - first);
      const T* x = static_cast<const T*>(job.blocks.fetch(row * job.reduction.length + first, count, scratch));
      for (std::int64_t i = 0; i < count; ++i) {
        if (position >= 0 && !(x[i] > best || (x[i] != x[i] && best == best))) continue;
        best = x[i];
        position = first + i;
      }
    }
    result[row] = position;
  }
}

void run_parallel(const Job& job, std::int64_t units, std::int64_t unit_elements,
                  void (*body)(const Job& job, std::int64_t begin, std::int64_t end)) {
  struct Context {
    const Job& job;
    void (*body)(const Job& job, std::int64_t begin, std::int64_t end);
  } context{job, body};
  parallel_for(
      0, units, std::max<std::int64_t>(1, grain / std::max<std::int64_t>(1, unit_elements)),
      [](void* context, std::int64_t begin, std::int64_t end) {
        const Context& c = *static_cast<Context*>(context);
        c.body(c.job, begin, end);
      },
      &context);
}

Value execute_argmax(const Type& type, const Value& operand, const Reduce& reduce) {
  // Rows, also where the last axis is kept: the walk gathers each.
  Value result = make_value(type);
  Job job{Op::argmax, reduction_of(operand, reduce), {}, accumulated_in(operand.type.dtype), 1, result.as<std::byte>()};
  Reduction& reduction = job.reduction;
  if (reduction.inner != 1) {  // [outer, length, inner] becomes [outer, inner, length]
    Sizes sizes;
    Layout layout;
    layout.offset = operand.layout.offset;
    for (bool reduced : {false, true})
      for (int axis = 0; axis < operand.sizes.rank; ++axis) {
        if (reduce.axes[axis] != reduced) continue;
        layout.strides[sizes.rank] = operand.layout.strides[axis];
        sizes.size[sizes.rank++] = operand.sizes.size[axis];
      }
    reduction.walk = make_walk(sizes, layout);
    reduction.outer *= reduction.inner;
    reduction.inner = 1;
  }
  job.blocks = {reduction.walk, operand.storage->data, operand.type.dtype, job.dtype};
  auto body = job.dtype == DType::f32   ? fold_argmax<float>
              : job.dtype == DType::f64 ? fold_argmax<double>
                                        : fold_argmax<std::int64_t>;
  run_parallel(job, reduction.outer, reduction.length, body);
  return result;
}

}  // namespace

ReduceKernel reduce_kernel(Op op, DType accumulated) {
  return kernels().reduce[static_cast<int>(op)][static_cast<int>(accumulated)];
}
Op combining(Op op) {
  return op == Op::sum ? Op::add : op == Op::prod ? Op::mul : op == Op::amax ? Op::maximum : Op::minimum;
}
void fill_start(Op op, DType accumulated, void* totals, std::int64_t count) {
  auto fill = [&]<class T>(T value) { std::fill_n(static_cast<T*>(totals), count, value); };
  if (accumulated == DType::f32)
    fill(start<float>(op));
  else if (accumulated == DType::f64)
    fill(start<double>(op));
  else
    fill(start<std::int64_t>(op));
}
void join_partials(Op op, DType accumulated, const void* partial, void* result, std::int64_t outer, std::int64_t chunks,
                   std::int64_t inner) {
  const auto join = accumulated == DType::f32   ? join_chunks<float>
                    : accumulated == DType::f64 ? join_chunks<double>
                                                : join_chunks<std::int64_t>;
  join(op, partial, result, outer, chunks, inner);
}

Value execute_reduction(Op op, const Reduce& reduce, const Type& type, const Value& operand) {
  if (op == Op::argmax) return execute_argmax(type, operand, reduce);
  Reduction reduction = reduction_of(operand, reduce);
  Type accumulated = type;
  accumulated.dtype = accumulated_in(operand.type.dtype);
  Value total = make_value(accumulated);
  if (reduction.outer * reduction.inner == 0) return convert(total, type.dtype);

  Job job{
      op, reduction, {reduction.walk, operand.storage->data, operand.type.dtype, accumulated.dtype}, accumulated.dtype,
      1,  nullptr};
  bool rows = reduction.inner == 1;
  std::int64_t chunk = rows ? row_chunk : column_chunk;
  job.chunks = (reduction.length + chunk - 1) / chunk;
  Type partial_type = accumulated;
  partial_type.shape = Shape::of(reduction.outer * job.chunks * reduction.inner);
  Value partial = job.chunks == 1 ? total : make_value(partial_type);
  job.partial = partial.as<std::byte>();
  if (rows && 1 < reduction.length && reduction.length <= short_row && reduction.outer >= 64)
    run_parallel(job, (reduction.outer - 1) / rows_at_once + 1, rows_at_once * reduction.length, fold_short_rows);
  else if (rows)
    run_parallel(job, reduction.outer * job.chunks, std::min(chunk, reduction.length), fold_rows);
  else if (job.chunks == 1 && reduction.inner < column_block / 4 && reduction.outer > 1 &&
           (reduction.inner > narrow_columns || !reduction.walk.contiguous()))
    run_parallel(job, (reduction.outer * reduction.inner - 1) / column_block + 1, column_block * reduction.length,
                 fold_short);
  else if (reduction.inner <= narrow_columns)
    run_parallel(job, reduction.outer * ((job.chunks + narrow_chunks - 1) / narrow_chunks),
                 std::min(narrow_chunks * chunk, reduction.length) * reduction.inner, fold_narrow);
  else
    run_parallel(job, reduction.outer * job.chunks * ((reduction.inner - 1) / column_block + 1),
                 std::min(chunk, reduction.length) * std::min(reduction.inner, column_block), fold_columns);
  if (job.chunks != 1)
    join_partials(op, accumulated.dtype, job.partial, total.data(), reduction.outer, job.chunks, reduction.inner);
  return convert(total, type.dtype);
}

}  // namespace weft::eager
