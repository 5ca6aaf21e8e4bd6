#include "runtime/host/update_rows.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

constexpr std::int64_t piece_elements = 1 << 15;  // that pay for another thread

struct Job {
  RowSizes sizes;
  const void* updates;
  const std::int64_t* index;
  const std::int64_t* order;  // of the updates by row; null: the order in which they are given
  void* table;
};

// A piece of the work: the rows [first_row, last_row) of the columns [begin, end) of one of the tables.
struct Part {
  std::int64_t table, first_row, last_row, begin, end;
};

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  } else {
    return a + b;
  }
}

template <class T>
void replace(const Job& job, const Part& part) {
  const auto [outer, rows, inner, count] = job.sizes;
  T* const table = static_cast<T*>(job.table) + part.table * rows * inner;
  const T* const updates = static_cast<const T*>(job.updates) + part.table * count * inner;
  const auto bytes = static_cast<std::size_t>(part.end - part.begin) * sizeof(T);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = job.index[i];
    if (row < part.first_row || row >= part.last_row) continue;
    if (inner == 1)
      table[row] = updates[i];
    else
      std::memcpy(table + row * inner + part.begin, updates + i * inner + part.begin, bytes);
  }
}

template <class T>
void add(const Job& job, const Part& part) {
  const auto [outer, rows, inner, count] = job.sizes;
  T* const table = static_cast<T*>(job.table) + part.table * rows * inner;
  const T* const updates = static_cast<const T*>(job.updates) + part.table * count * inner;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = job.index[i];
    if (row < part.first_row || row >= part.last_row) continue;
    T* const to = table + row * inner;
    const T* const from = updates + i * inner;
    for (std::int64_t j = part.begin; j < part.end; ++j) to[j] = sum_of(to[j], from[j]);
  }
}

// T is float16 or bfloat16: all updates of a row are added up before it is rounded.
template <class T>
void add_rounded_once(const Job& job, const Part& part) {
  const auto [outer, rows, inner, count] = job.sizes;
  T* const table = static_cast<T*>(job.table) + part.table * rows * inner;
  const T* const updates = static_cast<const T*>(job.updates) + part.table * count * inner;
  constexpr std::int64_t block = 64;
  float sums[block];
  for (std::int64_t first = 0, last = 0; first < count; first = last) {
    const std::int64_t row = job.index[job.order[first]];
    for (last = first + 1; last < count && job.index[job.order[last]] == row;) ++last;
    if (row < part.first_row || row >= part.last_row) continue;
    for (std::int64_t at = part.begin; at < part.end; at += block) {
      const std::int64_t length = std::min(block, part.end - at);
      T* const to = table + row * inner + at;
      for (std::int64_t j = 0; j < length; ++j) sums[j] = static_cast<float>(to[j]);
      for (std::int64_t i = first; i < last; ++i)
        for (std::int64_t j = 0; j < length; ++j) sums[j] += static_cast<float>(updates[job.order[i] * inner + at + j]);
      for (std::int64_t j = 0; j < length; ++j) to[j] = T(double{sums[j]});
    }
  }
}

using Work = void (*)(const Job&, const Part&);
Work replace_of(DType dtype) {
  switch (storage_bytes(dtype, 1)) {
    case 1: return replace<std::uint8_t>;
    case 2: return replace<std::uint16_t>;
    case 4: return replace<std::uint32_t>;
    default: return replace<std::uint64_t>;
  }
}
Work add_of(DType dtype) {
  switch (dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, type) \
  case DType::name:                                                              \
    if constexpr (std::is_arithmetic_v<type>)                                    \
      return add<type>;                                                          \
    else                                                                         \
      return add_rounded_once<type>;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  return nullptr;
}
bool wants_order(bool adds, DType dtype) { return adds && is_floating(dtype) && storage_bytes(dtype, 1) == 2; }

struct Pieces {
  const Job& job;
  Work work;
};

}  // namespace

std::size_t update_rows_workspace(bool adds, DType dtype, std::int64_t count) {
  return wants_order(adds, dtype) ? static_cast<std::size_t>(count) * sizeof(std::int64_t) : 0;
}

// Wide rows are cut by columns, others by the row that is written: either way one thread alone writes an element.
void update_rows(bool adds, DType dtype, const RowSizes& sizes, const void* updates, const std::int64_t* index,
                 void* table, std::span<std::byte> workspace) {
  const std::int64_t columns = sizes.outer * sizes.inner, elements = columns * sizes.count;
  if (elements <= 0) return;
  auto* order = wants_order(adds, dtype) ? reinterpret_cast<std::int64_t*>(workspace.data()) : nullptr;
  if (order) {
    for (std::int64_t i = 0; i < sizes.count; ++i) order[i] = i;
    std::sort(order, order + sizes.count,
              [index](std::int64_t a, std::int64_t b) { return index[a] != index[b] ? index[a] < index[b] : a < b; });
  }
  const Job job{sizes, updates, index, order, table};
  Pieces pieces{job, adds ? add_of(dtype) : replace_of(dtype)};
  constexpr std::int64_t least_columns = 512;  // so many are worth a thread's own walk over the index
  if (columns >= least_columns) {
    const std::int64_t grain = std::max<std::int64_t>(64, piece_elements / sizes.count);
    parallel_for(
        0, columns, grain,
        [](void* context, std::int64_t begin, std::int64_t end) {
          const auto& [job, work] = *static_cast<const Pieces*>(context);
          for (const std::int64_t inner = job.sizes.inner; begin < end;) {
            const std::int64_t at = begin / inner, first = begin % inner, last = std::min(inner, first + end - begin);
            work(job, {at, 0, job.sizes.rows, first, last});
            begin += last - first;
          }
        },
        &pieces);
  } else {
    const std::int64_t grain = std::max<std::int64_t>(1, sizes.rows * piece_elements / elements);
    parallel_for(
        0, sizes.rows, grain,
        [](void* context, std::int64_t begin, std::int64_t end) {
          const auto& [job, work] = *static_cast<const Pieces*>(context);
          for (std::int64_t at = 0; at < job.sizes.outer; ++at) work(job, {at, begin, end, 0, job.sizes.inner});
        },
        &pieces);
  }
}

}  // namespace weft::runtime
