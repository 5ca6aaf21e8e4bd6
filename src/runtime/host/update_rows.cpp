#include "runtime/host/update_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "runtime/host/row_join.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

using Int = std::int64_t;

constexpr Int piece_elements = 1 << 15;  // that pay for another thread

// What one thread does: updates [first_update, last_update) of rows [first_row, last_row), columns [begin, end) of
// table number `outer`.
struct Part {
  Int outer, first_row, last_row, begin, end, first_update, last_update;
};

struct Job {
  RowSizes sizes;
  const void* updates;
  const Int* index;
  Int of_rows(Int outer) const { return outer * sizes.rows * sizes.inner; }
  Int of_updates(Int outer) const { return outer * sizes.count * sizes.inner; }
};

struct NoPrefetch {
  static constexpr Int distance = 0;
  void operator()(Int, Int) const {}
};
// Fetches what an update some places further on reads: rows of a table, and of updates where a part leaves some out,
// lie where the CPU does not expect them.
struct Prefetch {
  static constexpr Int distance = 16, line = 64, most = 1024;  // bytes: the CPU finds the rest of a long row
  std::uintptr_t table, updates;
  Int row_bytes, update_bytes, length;
  void operator()(Int row, Int i) const {
    const std::uintptr_t to = table + static_cast<std::uintptr_t>(row) * static_cast<std::uintptr_t>(row_bytes),
                         from = updates + static_cast<std::uintptr_t>(i * update_bytes);
    for (Int at = 0; at < std::min(length, most); at += line) {
      __builtin_prefetch(reinterpret_cast<const void*>(to + static_cast<std::uintptr_t>(at)), 1);
      __builtin_prefetch(reinterpret_cast<const void*>(from + static_cast<std::uintptr_t>(at)));
    }
  }
};

// f(row, i) for each update i of the part.
template <class Fetch, class Function>
void for_each_update(const Job& job, const Part& part, Fetch fetch, Function f) {
  const Int* const index = job.index;
  const auto rows = static_cast<std::uint64_t>(part.last_row - part.first_row);
  if (part.last_row - part.first_row == job.sizes.rows) {
    for (Int i = part.first_update; i < part.last_update; ++i) {
      if (Fetch::distance && i + Fetch::distance < part.last_update)
        fetch(index[i + Fetch::distance], i + Fetch::distance);
      if (static_cast<std::uint64_t>(index[i]) < rows) f(index[i], i);
    }
    return;
  }
  // Which updates are this part's can't be predicted: those of a block are picked without a branch.
  constexpr Int block = 512;
  std::uint16_t picked[block];
  for (Int first = part.first_update; first < part.last_update; first += block) {
    const Int length = std::min(block, part.last_update - first);
    Int count = 0;
    for (Int i = 0; i < length; ++i) {
      picked[count] = static_cast<std::uint16_t>(i);
      count += static_cast<std::uint64_t>(index[first + i]) - static_cast<std::uint64_t>(part.first_row) < rows;
    }
    for (Int i = 0; i < count; ++i) {
      if (Fetch::distance && i + Fetch::distance < count) {
        const Int later = first + picked[i + Fetch::distance];
        fetch(index[later], later);
      }
      f(index[first + picked[i]], first + picked[i]);
    }
  }
}

// The table is of T, its updates of From.
template <class Join, class T, class From>
void join_rows(const Job& job, const Part& part, void* tables) {
  T* const table = static_cast<T*>(tables) + job.of_rows(part.outer);
  const From* const updates = static_cast<const From*>(job.updates) + job.of_updates(part.outer);
  const Int inner = job.sizes.inner, length = part.end - part.begin, bytes = length * static_cast<Int>(sizeof(T));
  const auto join_row = [&](Int row, Int i) {
    T* const to = table + row * inner + part.begin;
    const From* const from = updates + i * inner + part.begin;
    if constexpr (std::is_same_v<Join, rows::Replace>)
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    else
      for (Int j = 0; j < length; ++j) to[j] = Join()(to[j], static_cast<T>(from[j]));
  };
  if (inner == 1)
    for_each_update(job, part, NoPrefetch(),
                    [&](Int row, Int i) { table[row] = Join()(table[row], static_cast<T>(updates[i])); });
  else if (bytes < least_row_bytes)
    for_each_update(job, part, NoPrefetch(), join_row);
  else
    for_each_update(job, part,
                    Prefetch{reinterpret_cast<std::uintptr_t>(table + part.begin),
                             reinterpret_cast<std::uintptr_t>(updates + part.begin),
                             inner * static_cast<Int>(sizeof(T)), inner * static_cast<Int>(sizeof(From)), bytes},
                    join_row);
}

// Joins elements [begin, end) of a table with those of another.
template <class Join, class T>
void join_tables(void* table, const void* other, Int begin, Int end) {
  T* const to = static_cast<T*>(table);
  const T* const from = static_cast<const T*>(other);
  for (Int i = begin; i < end; ++i) to[i] = Join()(to[i], from[i]);
}
template <class Join, class T>
void begin_table(void* table, Int size) {
  std::fill_n(static_cast<T*>(table), size, Join::template identity<T>());
}

struct Kernels {
  void (*rows)(const Job&, const Part&, void* table);
  std::size_t element_bytes;  // of the table
  // Null where the order of an element's updates counts.
  void (*tables)(void* table, const void* other, Int begin, Int end) = nullptr;
  void (*begin)(void* table, Int size) = nullptr;
};

template <class Join, class T>
constexpr Kernels kernels_of() {
  constexpr bool any_order =
      !std::is_same_v<Join, rows::Replace> && (std::is_integral_v<T> || std::is_same_v<Join, rows::Greatest>);
  if constexpr (any_order)
    return {join_rows<Join, T, T>, sizeof(T), join_tables<Join, T>, begin_table<Join, T>};
  else
    return {join_rows<Join, T, T>, sizeof(T)};
}
Kernels replace_kernels(DType dtype) {
  switch (storage_bytes(dtype, 1)) {
    case 1: return kernels_of<rows::Replace, std::uint8_t>();
    case 2: return kernels_of<rows::Replace, std::uint16_t>();
    case 4: return kernels_of<rows::Replace, std::uint32_t>();
    default: return kernels_of<rows::Replace, std::uint64_t>();
  }
}
// Of floats of 16 bits: into a table of f32.
Kernels add_kernels(DType dtype) {
  switch (dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    if constexpr (std::is_arithmetic_v<type>)                                              \
      return kernels_of<rows::Add, type>();                                                \
    else                                                                                   \
      return {join_rows<rows::Add, float, type>, sizeof(float)};
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  return {};
}
Kernels greatest_kernels(DType dtype) {
  switch (dtype) {
    case DType::f32: return kernels_of<rows::Greatest, float>();
    case DType::f64: return kernels_of<rows::Greatest, double>();
    case DType::i32: return kernels_of<rows::Greatest, std::int32_t>();
    case DType::i64: return kernels_of<rows::Greatest, std::int64_t>();
    case DType::u8: return kernels_of<rows::Greatest, std::uint8_t>();
    default: fail("scatter", {}, "not for ", info(dtype).name);
  }
}
Kernels kernels_of(RowJoin join, DType dtype) {
  switch (join) {
    case RowJoin::replace: return replace_kernels(dtype);
    case RowJoin::add: return add_kernels(dtype);
    case RowJoin::greatest: break;
  }
  return greatest_kernels(dtype);
}

template <class Body>
void in_parallel(Int count, Int grain, Body body) {
  parallel_for(
      0, count, grain, [](void* context, Int begin, Int end) { (*static_cast<Body*>(context))(begin, end); }, &body);
}

// Each thread joins the updates that it takes into a table of its own, the first one into the result.
struct CopiesJob {
  const Job& job;
  const Kernels& kernels;
  void* table;
  std::byte* copies;
  std::size_t copy_bytes;
  std::array<std::uint8_t, workers::most_threads> begun = {};  // by thread
};
void join_copy(void* context, Chunks& chunks) {
  auto& [job, kernels, table, copies, copy_bytes, begun] = *static_cast<CopiesJob*>(context);
  const auto place = static_cast<std::size_t>(chunks.place());
  void* const own = place == 0 ? table : copies + (place - 1) * copy_bytes;
  for (Int begin, end; chunks.next(begin, end);) {
    if (place > 0 && !begun[place]) kernels.begin(own, job.of_rows(job.sizes.outer));
    begun[place] = 1;
    for (Int outer = 0; outer < job.sizes.outer; ++outer)
      kernels.rows(job, {outer, 0, job.sizes.rows, 0, job.sizes.inner, begin, end}, own);
  }
}
void join_copies(const Job& job, const Kernels& kernels, const RowParts& parts, void* table) {
  const Int size = job.of_rows(job.sizes.outer);
  const auto copy_bytes = static_cast<std::size_t>(size) * kernels.element_bytes,
             threads = static_cast<std::size_t>(parts.threads);
  const std::unique_ptr<Storage, void (*)(Storage*)> memory(allocate(Device::cpu(), (threads - 1) * copy_bytes),
                                                            [](Storage* storage) { release(storage); });
  std::byte* const copies = static_cast<std::byte*>(memory->data);
  CopiesJob context{job, kernels, table, copies, copy_bytes};
  parallel_for(0, job.sizes.count, parts.grain, parts.threads, join_copy, &context);
  for (std::size_t i = 1; i < threads; ++i)
    if (context.begun[i])
      in_parallel(size, piece_elements,
                  [&](Int begin, Int end) { kernels.tables(table, copies + (i - 1) * copy_bytes, begin, end); });
}

void join_in_parallel(const Job& job, const Kernels& kernels, void* table) {
  const auto [outer, rows, inner, count] = job.sizes;
  const RowParts parts = row_parts(job.sizes, kernels.element_bytes, kernels.tables,
                                   {job.index, static_cast<std::size_t>(count)}, num_threads());
  if (parts.split == RowSplit::columns) {
    in_parallel(outer * inner, parts.grain, [&](Int begin, Int end) {
      while (begin < end) {
        const Int at = begin / inner, first = begin % inner, last = std::min(inner, first + end - begin);
        kernels.rows(job, {at, 0, rows, first, last, 0, count}, table);
        begin += last - first;
      }
    });
  } else if (parts.split == RowSplit::copies) {
    join_copies(job, kernels, parts, table);
  } else if (parts.split == RowSplit::rows) {
    in_parallel(parts.threads, 1, [&](Int begin, Int end) {
      for (Int at = 0; at < outer; ++at)
        kernels.rows(job, {at, parts.bounds[begin], parts.bounds[end], 0, inner, 0, count}, table);
    });
  } else {
    for (Int at = 0; at < outer; ++at) kernels.rows(job, {at, 0, rows, 0, inner, 0, count}, table);
  }
}

// Sums of T, f16 or bf16, in a table of f32. An element whose sum has the same bits keeps its own, NaN or not.
template <class T>
void add_in_wide_table(const Job& job, T* table, float* sums) {
  const Int size = job.of_rows(job.sizes.outer);
  in_parallel(size, piece_elements, [&](Int begin, Int end) {
    for (Int i = begin; i < end; ++i) sums[i] = static_cast<float>(table[i]);
  });
  join_in_parallel(job, {join_rows<rows::Add, float, T>, sizeof(float)}, sums);
  in_parallel(size, piece_elements, [&](Int begin, Int end) {
    for (Int i = begin; i < end; ++i)
      if (std::bit_cast<std::uint32_t>(static_cast<float>(table[i])) != std::bit_cast<std::uint32_t>(sums[i]))
        table[i] = T(double{sums[i]});
  });
}

// The same of a table that has many more rows than are updated: all updates of a row are added up before it is rounded.
template <class T>
void add_in_order(const Job& job, T* tables, Int* order) {
  const auto [outer, rows, inner, count] = job.sizes;
  const Int* const index = job.index;
  for (Int i = 0; i < count; ++i) order[i] = i;
  std::sort(order, order + count, [index](Int a, Int b) { return index[a] != index[b] ? index[a] < index[b] : a < b; });
  const auto begins = [&](Int i) { return i == 0 || index[order[i]] != index[order[i - 1]]; };
  in_parallel(count, std::max<Int>(1, piece_elements / (outer * inner)), [&](Int begin, Int end) {
    constexpr Int block = 64;
    float sums[block];
    for (Int first = begin, last; first < end; first = last) {  // a row is the piece's where its first update is
      for (last = first + 1; last < count && !begins(last);) ++last;
      const Int row = index[order[first]];
      if (!begins(first) || row < 0 || row >= rows) continue;
      for (Int column = 0; column < outer * inner;) {
        const Int at = column / inner, from = column % inner, length = std::min(block, inner - from);
        T* const to = tables + job.of_rows(at) + row * inner + from;
        const T* const updates = static_cast<const T*>(job.updates) + job.of_updates(at) + from;
        for (Int j = 0; j < length; ++j) sums[j] = static_cast<float>(to[j]);
        for (Int i = first; i < last; ++i)
          for (Int j = 0; j < length; ++j) sums[j] += static_cast<float>(updates[order[i] * inner + j]);
        for (Int j = 0; j < length; ++j) to[j] = T(double{sums[j]});
        column += length;
      }
    }
  });
}

bool rounds_once(RowJoin join, DType dtype) {
  return join == RowJoin::add && is_floating(dtype) && storage_bytes(dtype, 1) == 2;
}
// Ordering an update takes as long as about so many elements of the table are converted in.
bool wants_wide_table(const RowSizes& sizes) {
  return sizes.rows <= sizes.count || sizes.rows * sizes.outer * sizes.inner <= 32 * sizes.count;
}

template <class T>
void add_rounded_once(const Job& job, void* table, std::span<std::byte> workspace) {
  if (wants_wide_table(job.sizes))
    add_in_wide_table(job, static_cast<T*>(table), reinterpret_cast<float*>(workspace.data()));
  else
    add_in_order(job, static_cast<T*>(table), reinterpret_cast<Int*>(workspace.data()));
}

}  // namespace

std::size_t update_rows_workspace(RowJoin join, DType dtype, const RowSizes& sizes) {
  if (!rounds_once(join, dtype)) return 0;
  return wants_wide_table(sizes) ? static_cast<std::size_t>(sizes.outer * sizes.rows * sizes.inner) * sizeof(float)
                                 : static_cast<std::size_t>(sizes.count) * sizeof(Int);
}

void update_rows(RowJoin join, DType dtype, const RowSizes& sizes, const void* updates, const Int* index, void* table,
                 std::span<std::byte> workspace) {
  if (sizes.outer * sizes.inner * sizes.count * sizes.rows <= 0) return;
  const Job job{sizes, updates, index};
  if (!rounds_once(join, dtype)) return join_in_parallel(job, kernels_of(join, dtype), table);
  if (dtype == DType::f16)
    add_rounded_once<float16>(job, table, workspace);
  else
    add_rounded_once<bfloat16>(job, table, workspace);
}

}  // namespace weft::runtime
