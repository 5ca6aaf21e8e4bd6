// One tile of a matrix product, compiled once an ISA. Both operands are packed into panels, whose memory the caller
// keeps from tile to tile; a block of the result is accumulated in registers over a slice of the depth.
#include "runtime/host/matmul.hpp"

#include <type_traits>
#include <utility>

#include "weft/detail/lanes.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

using namespace weft::lanes;
using Int = std::int64_t;

#if defined(__AVX512F__)
constexpr int register_bytes = 64, block_columns = 8;  // of 32 registers a block takes 24
#elif defined(__AVX2__)
constexpr int register_bytes = 32, block_columns = 4;  // of 16 registers a block takes 12
#else
constexpr int register_bytes = 16, block_columns = 4;
#endif
constexpr int block_vectors = MatmulRows::most_vectors;

template <class T>
constexpr int width = register_bytes / static_cast<int>(sizeof(T));
template <class T, int count>
using Vector = typename native_vector<T, count>::type;
template <class T, int count>
using Unaligned = typename native_vector<T, count>::unaligned;

// `count` x `count` elements, transposed: to[j * to_step + i] = from[i * from_step + j].
template <class T, int count = 16 / sizeof(T)>
inline void transpose_square(T* to, Int to_step, const T* from, Int from_step) {
  using V = Vector<T, count>;
  const auto row = [&](int i) { return V(*reinterpret_cast<const Unaligned<T, count>*>(from + i * from_step)); };
  const auto store = [&](int i, V x) { *reinterpret_cast<Unaligned<T, count>*>(to + i * to_step) = x; };
  if constexpr (count == 2) {
    const V a = row(0), b = row(1);
    store(0, __builtin_shufflevector(a, b, 0, 2));
    store(1, __builtin_shufflevector(a, b, 1, 3));
  } else {
    const V a = row(0), b = row(1), c = row(2), d = row(3);
    const V ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
            cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(0, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store(1, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store(2, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store(3, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
  }
}

// Code that is not worth a copy for each caller.
#if defined(__clang__)
#define WEFT_ONE_COPY __attribute__((noinline))
#else
#define WEFT_ONE_COPY __attribute__((noinline, noclone))
#endif

// Of `a` and `b` elements first, first + 1 ... of each 16 bytes, one of each in turn, or two.
template <class T, int first, int run, int... i>
inline auto interleaved(Vector<T, width<T>> a, Vector<T, width<T>> b, std::integer_sequence<int, i...>) {
  constexpr int square = 16 / static_cast<int>(sizeof(T));
  return __builtin_shufflevector(
      a, b, (i / square * square + first + i % square / (2 * run) * run + i % run + i / run % 2 * width<T>)...);
}

// Of a block of sums each column, sums[i * columns + j], is a run of the result, result[j * step + i], or is added to
// it. Of the rows there is memory up to a multiple of a square's.
template <class T>
WEFT_ONE_COPY void write_turned(const T* sums, Int rows, Int columns, T* result, Int step, Int rows_left,
                                Int columns_left, bool add) {
  constexpr int square = 16 / static_cast<int>(sizeof(T)), w = width<T>;
  using V = Vector<T, square>;
  for (Int i = 0; i < rows && i < rows_left; i += square) {
    Int j = 0;
    if (i + square <= rows_left)  // squares side by side, as many as a register holds
      for (; j + w <= columns && j + w <= columns_left; j += w) {
        using W = Vector<T, w>;
        const auto row = [&](int r) {
          return W(*reinterpret_cast<const Unaligned<T, w>*>(sums + (i + r) * columns + j));
        };
        constexpr std::make_integer_sequence<int, w> all;
        W turned[square];
        if constexpr (square == 2) {
          const W a = row(0), b = row(1);
          turned[0] = interleaved<T, 0, 1>(a, b, all), turned[1] = interleaved<T, 1, 1>(a, b, all);
        } else {
          const W a = row(0), b = row(1), c = row(2), d = row(3);
          const W ab_low = interleaved<T, 0, 1>(a, b, all), ab_high = interleaved<T, 2, 1>(a, b, all),
                  cd_low = interleaved<T, 0, 1>(c, d, all), cd_high = interleaved<T, 2, 1>(c, d, all);
          turned[0] = interleaved<T, 0, 2>(ab_low, cd_low, all), turned[1] = interleaved<T, 2, 2>(ab_low, cd_low, all);
          turned[2] = interleaved<T, 0, 2>(ab_high, cd_high, all);
          turned[3] = interleaved<T, 2, 2>(ab_high, cd_high, all);
        }
#pragma GCC unroll 1
        for (int c = 0; c < w; ++c) {
          auto* const to = reinterpret_cast<Unaligned<T, square>*>(result + (j + c) * step + i);
          V sum;
          __builtin_memcpy(&sum, reinterpret_cast<const T*>(turned + c % square) + c / square * square, sizeof sum);
          *to = add ? *to + sum : sum;
        }
      }
    for (; j < columns && j < columns_left; j += square) {
      V turned[square], before = {};
      transpose_square(reinterpret_cast<T*>(turned), square, sums + i * columns + j, columns);
      const auto bytes = static_cast<std::size_t>(rows_left - i < square ? rows_left - i : square) * sizeof(T);
      for (Int column = 0; column < square && j + column < columns_left; ++column) {
        T* const to = result + (j + column) * step + i;
        const bool whole = bytes == sizeof(V);
        if (add) whole ? __builtin_memcpy(&before, to, sizeof(V)) : __builtin_memcpy(&before, to, bytes);
        const V sum = add ? before + turned[column] : turned[column];
        whole ? __builtin_memcpy(to, &sum, sizeof(V)) : __builtin_memcpy(to, &sum, bytes);
      }
    }
  }
}

// result (vectors * width<T> rows, `columns` columns) = or += left panel * right panel. Fewer rows or columns are
// written where the result ends. Of a result that lies by rows, `turned`, the step is from row to row.
template <class T, int vectors, int columns>
void block(Int depth, const T* left, const T* right, T* result, Int step, Int rows_left, Int columns_left, bool add,
           bool turned) {
  constexpr int w = width<T>;
  using V = Vector<T, w>;
  V sum[columns][vectors] = {};
#pragma GCC unroll 4
  for (Int k = 0; k < depth; ++k) {
    V a[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) a[i] = *reinterpret_cast<const Unaligned<T, w>*>(left + i * w);
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) {
      const V b = right[j] - V{};
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) sum[j][i] = native_fma(a[i], b, sum[j][i]);
    }
    left += vectors * w;
    right += columns;
  }
  if (!turned && rows_left >= vectors * w && columns_left >= columns) {
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) {
        auto* to = reinterpret_cast<Unaligned<T, w>*>(result + j * step + i * w);
        *to = add ? *to + sum[j][i] : sum[j][i];
      }
    return;
  }
  constexpr int square = 16 / static_cast<int>(sizeof(T));
  T whole[columns < square ? square : columns][vectors * w];
  if constexpr (columns < square) __builtin_memset(whole, 0, sizeof(whole));
  __builtin_memcpy(whole, sum, sizeof(sum));
  if (turned) return write_turned(whole[0], columns, vectors * w, result, step, columns_left, rows_left, add);
  for (int j = 0; j < columns && j < columns_left; ++j)
    for (Int i = 0; i < vectors * w && i < rows_left; ++i) {
      T& to = result[j * step + i];
      to = add ? to + whole[j][i] : whole[j][i];
    }
}

template <class T>
using Block = void (*)(Int, const T*, const T*, T*, Int, Int, Int, bool, bool);
template <class T>
constexpr Block<T> blocks[2][block_vectors] = {
    {block<T, 1, block_columns / 2>, block<T, 2, block_columns / 2>, block<T, 3, block_columns / 2>},
    {block<T, 1, block_columns>, block<T, 2, block_columns>, block<T, 3, block_columns>}};

// How an operand is cut into panels: of the right one whole blocks, the last one half where that is enough.
template <class T>
MatmulRows left_panels_of(Int rows) {
  return {rows, width<T>};
}
struct RightPanels {
  Int columns, panels;
  explicit RightPanels(Int columns) : columns(columns), panels((columns + block_columns - 1) / block_columns) {}
  bool is_half(Int panel) const { return columns - begin(panel) <= block_columns / 2; }
  Int begin(Int panel) const { return panel * block_columns; }
  Int size(Int panel) const { return is_half(panel) ? block_columns / 2 : block_columns; }
};

// One panel: to[k * size + i] = element (i, k), which is at i + k * step, or, `along_depth`, at i * step + k; zeros
// from `present` on.
template <class T, bool along_depth>
void pack_panel(T* to, Int size, Int present, Int depth, const T* from, Int step) {
  const Int here = present < size ? present : size;
  if constexpr (along_depth) {
    if (here < size) __builtin_memset(to, 0, static_cast<std::size_t>(depth * size) * sizeof(T));
    constexpr Int square = 16 / sizeof(T);
    const Int whole = here / square * square, deep = depth / square * square;
    for (Int i = 0; i < whole; i += square)
      for (Int k = 0; k < deep; k += square) transpose_square(to + k * size + i, size, from + i * step + k, step);
    for (Int i = 0; i < here; ++i)
      for (Int k = i < whole ? deep : 0; k < depth; ++k) to[k * size + i] = from[i * step + k];
  } else if (here == size) {
    const auto copy = [&]<int piece>(std::integral_constant<int, piece>) {
      for (Int k = 0; k < depth; ++k)
        for (Int i = 0; i < size; i += piece)
          __builtin_memcpy(to + k * size + i, from + k * step + i, piece * sizeof(T));
    };
    if (size % width<T> == 0)
      copy(std::integral_constant<int, width<T>>());
    else if (size == block_columns)
      copy(std::integral_constant<int, block_columns>());
    else
      copy(std::integral_constant<int, block_columns / 2>());
  } else {
    for (Int k = 0; k < depth; ++k)
      for (Int i = 0; i < size; ++i) to[k * size + i] = i < here ? from[k * step + i] : T(0);
  }
}

// A piece of the depth at a time, so that a line of memory which two panels share is still in the first cache for the
// second one.
template <class T, bool along_depth, class Panels>
void pack(const Panels& panels, T* to, Int count, Int depth, const T* from, Int step) {
  const Int piece = along_depth ? 64 : 8;
  for (Int k = 0; k < depth; k += piece)
    for (Int panel = 0; panel < panels.panels; ++panel) {
      const Int begin = panels.begin(panel), size = panels.size(panel);
      pack_panel<T, along_depth>(to + begin * depth + k * size, size, count - begin,
                                 depth - k < piece ? depth - k : piece,
                                 from + begin * (along_depth ? step : 1) + k * (along_depth ? 1 : step), step);
    }
}

// The depth is walked in equal slices: which part of it one of them is.
constexpr Int slices_of(Int depth) { return (depth + MatmulPanels::slice_depth - 1) / MatmulPanels::slice_depth; }
struct Slice {
  Int begin, depth;
  bool is_first;
  Slice(Int whole, Int slice)
      : begin(slice * whole / slices_of(whole)),
        depth((slice + 1) * whole / slices_of(whole) - begin),
        is_first(slice == 0) {}
};
template <class Run>
void for_each_slice(Int depth, Run run) {
  for (Int slice = 0; slice < slices_of(depth); ++slice) run(Slice(depth, slice));
}

// A slice lies after the ones before it, each of a whole number of vectors in width.
template <class T>
void pack_whole(const MatmulPacking& packing, const void* from, std::byte* memory) {
  const bool along_depth = packing.size_step != 1;
  const Int step = along_depth ? packing.size_step : packing.depth_step;
  for_each_slice(packing.depth, [&](Slice slice) {
    T* const to = reinterpret_cast<T*>(memory) + slice.begin * MatmulPanels::width(packing.size);
    const T* const at = static_cast<const T*>(from) + slice.begin * packing.depth_step;
    const auto all = [&](const auto& panels) {
      using Panels = std::remove_cvref_t<decltype(panels)>;
      (along_depth ? pack<T, true, Panels> : pack<T, false, Panels>)(panels, to, packing.size, slice.depth, at, step);
    };
    if (packing.is_left)
      all(left_panels_of<T>(packing.size));
    else
      all(RightPanels(packing.size));
  });
}

// The sums of block(), to the same bits, where rows of the left operand are read where they lie, an element at a time,
// and vectors are of columns. Of one vector a block has more rows, so that there are enough sums at once.
template <int vectors>
constexpr int direct_rows = vectors == 1 ? 8 : block_columns;
template <class V>
inline V fma_of(V a, V b, V c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == register_bytes / 2)
    return __builtin_ia32_vfmaddps256(a, b, c);
  else
#endif
    return native_fma(a, b, c);
}
template <class T, int w, int vectors>
void direct_block(Int depth, const T* left, Int left_step, Int rows_left, const T* right, T* sums) {
  constexpr int rows = direct_rows<vectors>;
  using V = Vector<T, w>;
  const T* at[rows];
#pragma GCC unroll 8
  for (int j = 0; j < rows; ++j) at[j] = left + (j < rows_left ? j : rows_left - 1) * left_step;
  V sum[rows][vectors] = {};
  constexpr Int line = 64 / sizeof(T);
  for (Int begin = 0; begin < depth; begin += line) {
#pragma GCC unroll 8
    for (int j = 0; j < rows; ++j) __builtin_prefetch(at[j] + rows * left_step + begin, 0, 2);  // of the block below
    const Int end = begin + line < depth ? begin + line : depth;
#pragma GCC unroll 1
    for (Int k = begin; k < end; ++k) {
      V b[vectors];
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) b[i] = *reinterpret_cast<const Unaligned<T, w>*>(right + i * w);
#pragma GCC unroll 8
      for (int j = 0; j < rows; ++j) {
        const V a = at[j][k] - V{};
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) sum[j][i] = fma_of(a, b[i], sum[j][i]);
      }
      right += vectors * w;
    }
  }
  __builtin_memcpy(sums, sum, sizeof sum);
}

// Few columns and a left operand whose rows lie along the depth: to pack it would take as long as to multiply it. So
// the right operand takes the place of the left one in blocks, and each row is read once, from its begin to its end.
// Other ISAs and dtypes have no code for it, which is kept small.
template <class T>
constexpr bool has_direct = std::is_same_v<T, float> && (register_bytes > 16);
template <class T>
constexpr Int direct_columns = has_direct<T> ? 64 : 0;  // that are few
template <class T, int w>
constexpr decltype(&direct_block<T, w, 1>) direct_blocks[] = {direct_block<T, w, 1>, direct_block<T, w, 2>,
                                                              direct_block<T, w, 3>};
template <class T>
void multiply_direct(const MatmulTile& tile) {
  // Vectors of half a register, where 1 or 3 of them hold the columns and whole ones would be half empty.
  constexpr int half = register_bytes == 64 ? width<T> / 2 : width<T>;
  const Int halves = (tile.columns + half - 1) / half;
  const bool by_halves = halves == 1 || halves == 3;
  const MatmulRows panels(tile.columns, by_halves ? half : width<T>);
  const auto* const blocks = by_halves ? direct_blocks<T, half> : direct_blocks<T, width<T>>;
  const bool kept = tile.depth <= MatmulPanels::kept_depth;
  const Int rows = panels.vectors == 1 ? direct_rows<1> : block_columns, right_step = tile.right_step;
  const Int slices = slices_of(tile.depth), together = kept ? slices : 1;
  for (Int first = 0; first < slices; first += together) {
    const auto panels_at = [&](Slice slice) {
      return reinterpret_cast<T*>(tile.right_panel) + (kept ? slice.begin * MatmulPanels::width(tile.columns) : 0);
    };
    for (Int s = first; s < first + together && !(kept && tile.right_packed); ++s) {
      const Slice slice(tile.depth, s);
      const T* const from = static_cast<const T*>(tile.right) + slice.begin * (tile.right_by_rows ? right_step : 1);
      (tile.right_by_rows ? pack<T, false, MatmulRows> : pack<T, true, MatmulRows>)(panels, panels_at(slice),
                                                                                    tile.columns, slice.depth, from,
                                                                                    right_step);
    }
    for (Int row = 0; row < tile.rows; row += rows)
      for (Int s = first; s < first + together; ++s) {
        const Slice slice(tile.depth, s);
        for (Int i = 0; i < panels.panels; ++i) {
          const Int column = panels.begin(i);
          T sums[block_vectors * block_columns * width<T>];
          blocks[panels.vectors_of(i) - 1](
              slice.depth, static_cast<const T*>(tile.left) + row * tile.left_step + slice.begin, tile.left_step,
              tile.rows - row, panels_at(slice) + column * slice.depth, sums);
          write_turned(sums, rows, panels.size(i), static_cast<T*>(tile.result) + column * tile.result_step + row,
                       tile.result_step, tile.rows - row, tile.columns - column, !slice.is_first);
        }
      }
  }
}

template <class T>
void multiply(const MatmulTile& tile) {
  const MatmulTile::Whole &whole_left = tile.left_whole, &whole_right = tile.right_whole;
  const Int left_size = whole_left.panels ? whole_left.size : tile.rows,
            right_size = whole_right.panels ? whole_right.size : tile.columns;
  const MatmulRows left_panels = left_panels_of<T>(left_size);
  const RightPanels right_panels(right_size);
  const Int first_i = whole_left.first, end_i = whole_left.panels ? first_i + whole_left.count : left_panels.panels,
            first_j = whole_right.first, end_j = whole_right.panels ? first_j + whole_right.count : right_panels.panels;
  const Int first_row = left_panels.begin(first_i), first_column = right_panels.begin(first_j);
  const bool kept = tile.depth <= MatmulPanels::kept_depth;
  const Int row_step = tile.turned ? tile.result_step : 1, column_step = tile.turned ? 1 : tile.result_step;
  const Int left_width = MatmulPanels::width(left_size), right_width = MatmulPanels::width(right_size);
  for_each_slice(
      tile.depth, [&](Slice slice) __attribute__((always_inline)) {
        const Int k = slice.begin, depth = slice.depth;
        const auto own = [&](std::byte* panel, Int width) {
          return reinterpret_cast<T*>(panel) + (kept ? k : 0) * width;
        };
        const T *left = static_cast<const T*>(whole_left.panels) + k * left_width,
                *right = static_cast<const T*>(whole_right.panels) + k * right_width;
        if (!whole_left.panels) {
          T* const to = own(tile.left_panel, left_width);
          left = to;
          if (!kept || !tile.left_packed)
            (tile.left_by_rows ? pack<T, true, MatmulRows>
                               : pack<T, false, MatmulRows>)(left_panels, to, tile.rows, depth,
                                                             static_cast<const T*>(tile.left) +
                                                                 k * (tile.left_by_rows ? 1 : tile.left_step),
                                                             tile.left_step);
        }
        if (!whole_right.panels) {
          T* const to = own(tile.right_panel, right_width);
          right = to;
          if (!kept || !tile.right_packed)
            (tile.right_by_rows ? pack<T, false, RightPanels>
                                : pack<T, true, RightPanels>)(right_panels, to, tile.columns, depth,
                                                              static_cast<const T*>(tile.right) +
                                                                  k * (tile.right_by_rows ? tile.right_step : 1),
                                                              tile.right_step);
        }
        const auto one = [&](Int i, Int j) {
          const Int row = left_panels.begin(i), column = right_panels.begin(j);
          blocks<T>[!right_panels.is_half(j)][left_panels.vectors_of(i) - 1](
              depth, left + row * depth, right + column * depth,
              static_cast<T*>(tile.result) + (column - first_column) * column_step + (row - first_row) * row_step,
              tile.result_step, tile.rows - (row - first_row), tile.columns - (column - first_column), !slice.is_first,
              tile.turned);
        };
        for (Int j = first_j; j < end_j; ++j)
          for (Int i = first_i; i < end_i; ++i) one(i, j);
      });
}

// A matrix times a vector, which streams the matrix once: `right` is the vector.
template <class T>
void multiply_vector(const MatmulTile& tile) {
  constexpr int w = width<T>;
  using V = Vector<T, w>;
  const auto load = [](const T* from) { return V(*reinterpret_cast<const Unaligned<T, w>*>(from)); };
  const T* vector = static_cast<const T*>(tile.right);
  const T* const matrix = static_cast<const T*>(tile.left);
  T* const result = static_cast<T*>(tile.result);
  const Int rows = tile.rows, depth = tile.depth, step = tile.left_step;
  if (const Int across = tile.right_by_rows ? tile.right_step : 1; across != 1) {
    T* packed = reinterpret_cast<T*>(tile.left_panel);
    for (Int k = 0; k < depth; ++k) packed[k] = vector[k * across];
    vector = packed;
  }
  if (tile.left_by_rows) {
    // `count` rows at a time, a vector of partial sums each.
    const auto some = [&]<int count>(Int i, std::integral_constant<int, count>) __attribute__((always_inline)) {
      V sum[count] = {};
      Int k = 0;
      for (; k + w <= depth; k += w) {
        const V x = load(vector + k);
#pragma GCC unroll 8
        for (int r = 0; r < count; ++r) sum[r] = native_fma(load(matrix + (i + r) * step + k), x, sum[r]);
      }
      for (int r = 0; r < count; ++r) {
        T total = reduce_add(vec<T, w>(sum[r]));
        for (Int last = k; last < depth; ++last) total += matrix[(i + r) * step + last] * vector[last];
        result[i + r] = total;
      }
    };
    Int i = 0;
    for (; i + 4 <= rows; i += 4) some(i, std::integral_constant<int, 4>());
    for (; i < rows; ++i) some(i, std::integral_constant<int, 1>());
    return;
  }
  constexpr Int some_columns = 128;  // so many runs of memory are walked at once
  for (Int begin = 0; begin < depth; begin += some_columns) {
    const Int end = begin + some_columns < depth ? begin + some_columns : depth;
    const auto some = [&]<int count>(Int i, std::integral_constant<int, count>) __attribute__((always_inline)) {
      V sum[count] = {};
      for (Int k = begin; k < end; ++k) {
        const V x = vector[k] - V{};
#pragma GCC unroll 8
        for (int r = 0; r < count; ++r) sum[r] = native_fma(load(matrix + k * step + i + r * w), x, sum[r]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < count; ++r) {
        auto* to = reinterpret_cast<Unaligned<T, w>*>(result + i + r * w);
        *to = begin > 0 ? *to + sum[r] : sum[r];
      }
    };
    Int i = 0;
    for (; i + 8 * w <= rows; i += 8 * w) some(i, std::integral_constant<int, 8>());
    for (; i + w <= rows; i += w) some(i, std::integral_constant<int, 1>());
    for (; i < rows; ++i) {
      T sum = begin > 0 ? result[i] : T(0);
      for (Int k = begin; k < end; ++k) sum += matrix[k * step + i] * vector[k];
      result[i] = sum;
    }
  }
}

template <class T>
void run_tile(const MatmulTile& tile) {
  if (tile.depth == 0) {
    for (Int j = 0; j < tile.columns; ++j)
      for (Int i = 0; i < tile.rows; ++i)
        static_cast<T*>(tile.result)[tile.turned ? i * tile.result_step + j : j * tile.result_step + i] = T(0);
  } else if (tile.columns == 1) {
    multiply_vector<T>(tile);
  } else {
    if constexpr (has_direct<T>)
      if (tile.left_is_read) return multiply_direct<T>(tile);
    multiply<T>(tile);
  }
}

}  // namespace

const MatmulKernels matmul_kernels{
    {run_tile<float>, pack_whole<float>, width<float>, block_columns, direct_columns<float>},
    {run_tile<double>, pack_whole<double>, width<double>, block_columns, direct_columns<double>}};

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
