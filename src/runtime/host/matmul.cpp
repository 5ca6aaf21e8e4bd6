#include "runtime/host/matmul.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

using Int = std::int64_t;

struct Matrix {
  const std::byte* data = nullptr;
  Int row, column;  // strides
  std::span<const Int> batch;
  Matmul::Chosen chosen = {};
  Matmul::Packed whole = {};
  Int packed_step = 0;  // of a packed operand, whose matrices lie one after the other: its distance from item to item

  void transpose() { std::swap(row, column); }
};

Int offset_of(Int item, std::span<const Int> sizes, std::span<const Int> strides) {
  Int offset = 0;
  for (std::size_t axis = sizes.size(); axis-- > 0; item /= sizes[axis]) offset += item % sizes[axis] * strides[axis];
  return offset;
}
Int offset_of(Int item, std::span<const Int> sizes, const Matrix& operand) {
  if (operand.packed_step) return item * operand.packed_step;
  if (operand.chosen.numbers) return operand.chosen[item] * operand.batch[0];
  return offset_of(item, sizes, operand.batch);
}

// How the tiles of one shape are cut: tall, since neighbours in a row of tiles share the packed left operand; the
// result is halved, across first, while there are few tiles and each is worth a thread's while. Measured with
// AVX-512 on the products of an MLP's training step (64 and 1024 rows, 784-256-128-10): 16 tiles keep 96% to 102% of
// the speed of the whole product on one thread; square ones that each pack for themselves kept 91%. Parts are equal to
// within one vector, so that threads end together: parts of whole panels of 48 rows cut 256 rows into 96, 96 and 64 and
// made the whole step 1.28 times (batch 64) and 1.10 times (batch 1024) as long on two threads. The cut does not depend
// on the number of threads, so neither do the results.
struct Tiling {
  Int rows, columns;
};
constexpr Int tiles_wanted = 16;
constexpr Int tile_work = 1 << 19;  // multiplications: about 10 us

Int count_of(Int size, Int tile) { return (size + tile - 1) / tile; }

// Equal parts, of a multiple of what a tile's kernel does at once.
Int part_of(Int size, Int parts, Int multiple) {
  return std::min(size, count_of(count_of(size, parts), multiple) * multiple);
}

Tiling tiling_of(Int rows, Int columns, Int depth, Int batch_count, bool left_by_rows, bool turned) {
  // A matrix times a vector: memory is read in runs along a row, or of as many rows as the tile has.
  if (columns == 1) return {std::max<Int>(left_by_rows ? 64 : 1024, (1 << 17) / std::max<Int>(depth, 1) / 64 * 64), 1};
  const Int least_rows = turned ? 48 : 96;  // turned, the left operand is the large one
  Int down = count_of(rows, 512), across = count_of(columns, 256);
  for (;;) {
    const Tiling tiling{part_of(rows, down, 16), part_of(columns, across, 16)};
    const bool enough = batch_count * down * across >= tiles_wanted;
    const bool small =
        tiling.rows * tiling.columns * depth < 2 * tile_work || (tiling.rows <= least_rows && tiling.columns <= 64);
    if (enough || small) return tiling;
    (tiling.columns > 64 ? across : down) *= 2;
  }
}

const MatmulKernels::OfDType& host_kernels(DType dtype) {
  static const MatmulKernels* const table[] = {&baseline::matmul_kernels, &avx2::matmul_kernels,
                                               &avx512::matmul_kernels};
  const MatmulKernels& own = *table[static_cast<int>(host_isa())];
  return dtype == DType::f64 ? own.f64 : own.f32;
}

// What is known of a product before there is any memory: how its operands are read, its tiles, and what it packs.
struct ProductPlan {
  Matrix left,
      right;  // as a tile, which is written down its columns, wants them: swapped and transposed where the result lies
  bool swapped = false;  // by rows
  bool turned = false;   // or they are not, and tiles write across their columns
  bool left_by_rows = false, right_by_rows = false;
  Int batch_count = 1, rows, columns, depth, result_step, element;
  bool pack_left = false, pack_right = false;
  bool left_is_read = false;
  Tiling tiling{};
  Int tiles_down = 0, tiles_across = 0;  // of a matrix
  Int tiles = 0, grain = 1;              // of the parallel loop
  MatmulPanels panels{};                 // in bytes, aligned

  // `may_turn`: else as if the product's sizes were not known when its constants were packed.
  explicit ProductPlan(const Matmul& product, bool may_turn = true);
  Int packed_bytes(bool wanted, Int height, Int width) const {
    return wanted ? aligned(batch_count * height * width * element) : 0;
  }
  Int left_bytes() const { return packed_bytes(pack_left, rows, depth); }
  Int right_bytes() const { return packed_bytes(pack_right, depth, columns); }
  static Int aligned(Int bytes) { return (bytes + 63) / 64 * 64; }
};

ProductPlan::ProductPlan(const Matmul& product, bool may_turn)
    : left{nullptr, product.a_row, product.a_column, product.a_batch, product.a_chosen, product.a_packed},
      right{nullptr, product.b_row, product.b_column, product.b_batch, product.b_chosen, product.b_packed},
      rows(product.m),
      columns(product.n),
      depth(product.k),
      result_step(product.c_column),
      element(storage_bytes(info(product.dtype), Int{1})) {
  WEFT_CHECK(product.dtype == DType::f32 || product.dtype == DType::f64, info(product.dtype).name);
  for (const Int size : product.batch) batch_count *= size;
  if (batch_count == 0 || rows == 0 || columns == 0) return;
  // A result that lies by rows is the transposed product. So is a single row, which makes it a matrix times a vector.
  const bool down = product.c_row == 1 || rows == 1, across = product.c_column == 1 || columns == 1;
  WEFT_CHECK(down || across, "the result of a matmul has no unit stride");
  swapped = !down || (across && rows == 1);
  if (may_turn && rows > 1 && columns > 1 && !(down && across)) {
    const bool b_left = left.whole.panels    ? !left.whole.is_left
                        : right.whole.panels ? right.whole.is_left
                                             : !a_is_left(product.dtype, rows, columns, across);
    turned = b_left != swapped;
    swapped = b_left;
  }
  if (swapped) {
    std::swap(left, right);
    left.transpose();
    right.transpose();
    std::swap(rows, columns);
  }
  if (!down || (across && product.m == 1)) result_step = product.c_row;
  // A vector is read where it lies, and so is the matrix that it is multiplied with.
  if (!left.whole.is_left || columns == 1) left.whole = {};
  if (right.whole.is_left || columns == 1) right.whole = {};
  const auto arrange = [&](Matrix& operand, Int height, Int width, bool& packed) {
    const bool by_columns = operand.row == 1 || height == 1, by_rows = operand.column == 1 || width == 1;
    if (by_columns || by_rows) return !by_columns || (by_rows && height == 1);
    packed = !operand.whole.panels;
    return true;
  };
  left_by_rows = arrange(left, rows, depth, pack_left);
  right_by_rows = arrange(right, depth, columns, pack_right);
  tiling = tiling_of(rows, columns, depth, batch_count, left_by_rows, turned);
  tiles_down = count_of(rows, tiling.rows), tiles_across = count_of(columns, tiling.columns);
  if (left.whole.panels) tiles_down = std::min(tiles_down, MatmulRows(rows, host_kernels(product.dtype).lanes).panels);
  tiles = batch_count * tiles_down * tiles_across;
  const Int tile_rows = std::min(tiling.rows, rows), tile_columns = std::min(tiling.columns, columns);
  grain = std::max<Int>(1, tile_work / 2 / std::max<Int>(tile_rows * tile_columns * depth, 1));
  // A matrix that stays in the first cache is packed as fast as read, unless most of its panel would be empty.
  constexpr Int small_matrix = 1 << 13, few_rows = 16;
  left_is_read = left_by_rows && !turned && !left.whole.panels && !right.whole.panels && columns > 1 &&
                 tile_columns <= host_kernels(product.dtype).direct_columns &&
                 (rows * depth >= small_matrix || rows < few_rows);
  panels = matmul_panels(tile_rows, tile_columns, depth);
  panels = {aligned(panels.left * element), aligned(panels.right * element)};
}

template <class T>
void pack(Matrix& operand, Int rows, Int columns, const Matmul& product, Int batch_count, std::byte* memory) {
  T* to = reinterpret_cast<T*>(memory);
  for (Int item = 0; item < batch_count; ++item) {
    const T* from = reinterpret_cast<const T*>(operand.data) + offset_of(item, product.batch, operand);
    for (Int i = 0; i < rows; ++i)
      for (Int j = 0; j < columns; ++j) *to++ = from[i * operand.row + j * operand.column];
  }
  operand = {memory, columns, 1, {}, {}, {}, std::max<Int>(rows * columns, 1)};
}

struct Task {
  const Matmul& product;
  const ProductPlan& it;
  const Matrix &left, &right;
  std::byte *result, *panels;
  const MatmulKernels::OfDType& kernels;

  // Rows or columns of a tile, and of an operand that was packed whole its panels.
  struct Part {
    Int begin, size;
    MatmulTile::Whole whole = {};
  };
  Part rows_of(Int tile) const {
    if (!left.whole.panels) {
      const Int begin = tile * it.tiling.rows;
      return {begin, std::min(it.tiling.rows, it.rows - begin)};
    }
    const MatmulRows all(it.rows, kernels.lanes);
    const Int first = tile * all.panels / it.tiles_down, end = (tile + 1) * all.panels / it.tiles_down;
    return {all.begin(first),
            std::min(all.begin(end), it.rows) - all.begin(first),
            {left.whole.panels, it.rows, first, end - first}};
  }
  Part columns_of(Int tile) const {
    const Int begin = tile * it.tiling.columns, size = std::min(it.tiling.columns, it.columns - begin);
    if (!right.whole.panels) return {begin, size};
    return {begin, size, {right.whole.panels, it.columns, begin / kernels.columns, count_of(size, kernels.columns)}};
  }

  // On one of the threads, which has panels of its own and keeps what they hold from one tile to the next: neighbours
  // share the left operand, or the right one where the left one was packed before.
  void run(Chunks& chunks) const {
    const Int of_item = it.tiles_down * it.tiles_across;
    std::byte* const left_panel = panels + chunks.place() * (it.panels.left + it.panels.right);
    Int left_held = -1, right_held = -1;  // numbers of the tiles of the operands
    for_each_index(chunks, [&](Int index) {
      const Int item = index / of_item, rest = index % of_item;
      const bool down_first = left.whole.panels != nullptr;
      const Int i = down_first ? rest % it.tiles_down : rest / it.tiles_across,
                j = down_first ? rest / it.tiles_down : rest % it.tiles_across;
      const Part rows = rows_of(i), columns = columns_of(j);
      const Int left_tile = item * it.tiles_down + i, right_tile = item * it.tiles_across + j;
      const auto at = [&](const Matrix& operand, Int row, Int column) {
        return operand.data +
               it.element * (offset_of(item, product.batch, operand) + row * operand.row + column * operand.column);
      };
      kernels.run({rows.size, columns.size, it.depth, at(left, rows.begin, 0), at(right, 0, columns.begin),
                   result + it.element * (offset_of(item, product.batch, product.c_batch) +
                                          rows.begin * (it.turned ? it.result_step : 1) +
                                          columns.begin * (it.turned ? 1 : it.result_step)),
                   left_panel, left_panel + it.panels.left, it.left_by_rows ? left.row : left.column,
                   it.right_by_rows ? right.row : right.column, it.result_step, it.left_by_rows, it.right_by_rows,
                   left_tile == left_held, right_tile == right_held, rows.whole, columns.whole, it.left_is_read,
                   it.turned});
      left_held = left_tile, right_held = right_tile;
    });
  }
};

}  // namespace

std::size_t matmul_workspace(const Matmul& product) {
  const auto bytes = [](const ProductPlan& it) {
    const Int threads = std::min<Int>(count_of(it.tiles, it.grain), num_threads());
    return static_cast<std::size_t>(it.left_bytes() + it.right_bytes() + threads * (it.panels.left + it.panels.right));
  };
  const ProductPlan it(product);
  return it.turned ? std::max(bytes(it), bytes(ProductPlan(product, false))) : bytes(it);
}

bool a_is_left(DType dtype, Int m, Int n, bool by_rows) {
  const MatmulKernels::OfDType& kernels = host_kernels(dtype);
  const auto blocks = [&](Int lanes, Int columns) {
    return count_of(lanes, kernels.lanes) * count_of(columns, kernels.columns / 2);
  };
  const Int of_a = blocks(m, n), of_b = blocks(n, m);
  return by_rows ? 10 * of_b > 11 * of_a : 10 * of_a <= 11 * of_b;
}

void matmul(const Matmul& product, const void* a, const void* b, void* c, std::span<std::byte> workspace) {
  const ProductPlan it(product);
  if (it.tiles == 0) return;
  Matrix left = it.left, right = it.right;
  left.data = static_cast<const std::byte*>(it.swapped ? b : a);
  right.data = static_cast<const std::byte*>(it.swapped ? a : b);
  std::byte* memory = workspace.data();
  const bool is_double = product.dtype == DType::f64;
  const auto packed = [&](Matrix& operand, Int height, Int width, Int bytes) {
    is_double ? pack<double>(operand, height, width, product, it.batch_count, memory)
              : pack<float>(operand, height, width, product, it.batch_count, memory);
    memory += bytes;
  };
  const Int panel_bytes = it.panels.left + it.panels.right,
            spare = static_cast<Int>(workspace.size()) - it.left_bytes() - it.right_bytes(),
            most_threads = panel_bytes > 0 ? spare / panel_bytes : it.tiles;
  WEFT_CHECK(spare >= 0 && most_threads > 0, "a matmul's workspace of ", workspace.size(), " bytes");
  if (it.pack_left) packed(left, it.rows, it.depth, it.left_bytes());
  if (it.pack_right) packed(right, it.depth, it.columns, it.right_bytes());
  Task task{product, it, left, right, static_cast<std::byte*>(c), memory, host_kernels(product.dtype)};
  parallel_for(
      0, it.tiles, it.grain, most_threads,
      [](void* context, Chunks& chunks) { static_cast<const Task*>(context)->run(chunks); }, &task);
}

void matmul(const Matmul& product, const void* a, const void* b, void* c) {
  const std::size_t bytes = matmul_workspace(product);
  const std::unique_ptr<Storage, void (*)(Storage*)> workspace(allocate(Device{}, bytes), release);
  matmul(product, a, b, c, {static_cast<std::byte*>(workspace->data), bytes});
}

std::size_t packed_bytes(const MatmulPacking& packing) {
  return static_cast<std::size_t>(MatmulPanels::width(packing.size) * packing.depth *
                                  storage_bytes(info(packing.dtype), Int{1}));
}
void pack(const MatmulPacking& packing, const void* from, std::byte* to) {
  host_kernels(packing.dtype).pack(packing, from, to);
}

}  // namespace weft::runtime
