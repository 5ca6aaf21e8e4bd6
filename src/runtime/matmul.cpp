#include "runtime/matmul.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "runtime/isa.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

using Int = std::int64_t;

struct Operand {
  const std::byte* data;
  Int row, column;  // strides
  std::span<const Int> batch;
  std::vector<std::byte> packed = {};
  std::vector<Int> packed_batch = {};

  void transpose() { std::swap(row, column); }
};

Int offset_of(Int item, std::span<const Int> sizes, std::span<const Int> strides) {
  Int offset = 0;
  for (std::size_t axis = sizes.size(); axis-- > 0; item /= sizes[axis]) offset += item % sizes[axis] * strides[axis];
  return offset;
}

template <class T>
void pack(Operand& operand, Int rows, Int columns, std::span<const Int> batch, Int batch_count) {
  std::vector<std::byte> packed(sizeof(T) * static_cast<std::size_t>(batch_count * rows * columns));
  T* to = reinterpret_cast<T*>(packed.data());
  for (Int item = 0; item < batch_count; ++item) {
    const T* from = reinterpret_cast<const T*>(operand.data) + offset_of(item, batch, operand.batch);
    for (Int i = 0; i < rows; ++i)
      for (Int j = 0; j < columns; ++j) *to++ = from[i * operand.row + j * operand.column];
  }
  Int step = rows * columns;
  operand.packed_batch.resize(batch.size());
  for (std::size_t axis = batch.size(); axis-- > 0; step *= batch[axis]) operand.packed_batch[axis] = step;
  operand.packed = std::move(packed);
  operand.data = operand.packed.data();
  operand.batch = operand.packed_batch;
  operand.row = columns;
  operand.column = 1;
}

// How the tiles of one shape are cut: tall, since neighbours in a row of tiles share the packed left operand; the
// result is halved, across first, while there are few tiles and each is worth a thread's while. Measured with Eigen 3.4
// and AVX-512 on the products of an MLP's training step (64 and 1024 rows, 784-256-128-10): 16 tiles keep 96% to 102%
// of the speed of the whole product on one thread; square ones that each pack for themselves kept 91%. Parts are equal
// to within one vector, so that threads end together: parts of whole 48-row panels, which are Eigen's fastest, cut 256
// rows into 96, 96 and 64 and made the whole step 1.28 times (batch 64) and 1.10 times (batch 1024) as long on two
// threads. The cut does not depend on the number of threads, so neither do the results.
struct Tiling {
  Int rows, columns;
};
constexpr Int tiles_wanted = 16;
constexpr Int tile_work = 1 << 19;  // multiplications: about 10 us

Int count_of(Int size, Int tile) { return (size + tile - 1) / tile; }

// Equal parts, of a multiple of what Eigen's kernels do at once.
Int part_of(Int size, Int parts, Int multiple) {
  return std::min(size, count_of(count_of(size, parts), multiple) * multiple);
}

Tiling tiling_of(Int rows, Int columns, Int depth, Int batch_count, bool left_by_rows) {
  // A matrix times a vector: memory is read in runs along a row, or of as many rows as the tile has.
  if (columns == 1) return {std::max<Int>(left_by_rows ? 64 : 1024, (1 << 17) / std::max<Int>(depth, 1) / 64 * 64), 1};
  Int down = count_of(rows, 512), across = count_of(columns, 256);
  for (;;) {
    const Tiling tiling{part_of(rows, down, 16), part_of(columns, across, 16)};
    const bool enough = batch_count * down * across >= tiles_wanted;
    const bool small =
        tiling.rows * tiling.columns * depth < 2 * tile_work || (tiling.rows <= 96 && tiling.columns <= 64);
    if (enough || small) return tiling;
    (tiling.columns > 64 ? across : down) *= 2;
  }
}

struct Task {
  const Matmul& product;
  const Operand &left, &right;
  std::byte* result;
  Int rows, columns, result_step, element;
  bool left_by_rows, right_by_rows;
  Tiling tiling;
  void (*kernel)(const MatmulTile&);

  void run(Int begin, Int end) const {
    const Int across = count_of(columns, tiling.columns), tiles = count_of(rows, tiling.rows) * across;
    for (Int index = begin; index < end; ++index) {
      const Int item = index / tiles, i = index % tiles / across * tiling.rows, j = index % across * tiling.columns;
      const auto at = [&](const Operand& operand, Int row, Int column) {
        return operand.data +
               element * (offset_of(item, product.batch, operand.batch) + row * operand.row + column * operand.column);
      };
      kernel({std::min(tiling.rows, rows - i), std::min(tiling.columns, columns - j), product.k, at(left, i, 0),
              at(right, 0, j),
              result + element * (offset_of(item, product.batch, product.c_batch) + i + j * result_step),
              left_by_rows ? left.row : left.column, right_by_rows ? right.row : right.column, result_step,
              left_by_rows, right_by_rows, index > begin && j > 0, index > begin && across == 1 && i > 0});
    }
  }
};

const MatmulKernels& host_kernels() {
  static const MatmulKernels* const table[] = {&baseline::matmul_kernels, &avx2::matmul_kernels,
                                               &avx512::matmul_kernels};
  return *table[static_cast<int>(host_isa())];
}

}  // namespace

void matmul(const Matmul& product, const void* a, const void* b, void* c) {
  WEFT_CHECK(product.dtype == DType::f32 || product.dtype == DType::f64, info(product.dtype).name);
  Int batch_count = 1;
  for (const Int size : product.batch) batch_count *= size;
  Int rows = product.m, columns = product.n;
  if (batch_count == 0 || rows == 0 || columns == 0) return;
  Operand left{static_cast<const std::byte*>(a), product.a_row, product.a_column, product.a_batch};
  Operand right{static_cast<const std::byte*>(b), product.b_row, product.b_column, product.b_batch};
  Int result_row = product.c_row, result_step = product.c_column;

  // Eigen writes down columns: a result that lies by rows is the transposed product. So is a single row, which makes
  // it a matrix times a vector.
  const bool down = (result_row == 1 || rows == 1), across = (result_step == 1 || columns == 1);
  WEFT_CHECK(down || across, "the result of a matmul has no unit stride");
  if (!down || (across && rows == 1)) {
    std::swap(left, right);
    left.transpose();
    right.transpose();
    std::swap(rows, columns);
    std::swap(result_row, result_step);
  }

  const bool is_double = product.dtype == DType::f64;
  const auto arrange = [&](Operand& operand, Int height, Int width) {
    const bool by_columns = operand.row == 1 || height == 1, by_rows = operand.column == 1 || width == 1;
    if (by_columns || by_rows) return !by_columns || (by_rows && height == 1);
    is_double ? pack<double>(operand, height, width, product.batch, batch_count)
              : pack<float>(operand, height, width, product.batch, batch_count);
    return true;
  };
  const bool left_by_rows = arrange(left, rows, product.k), right_by_rows = arrange(right, product.k, columns);
  const Tiling tiling = tiling_of(rows, columns, product.k, batch_count, left_by_rows);
  const Task task{product,      left,          right,       static_cast<std::byte*>(c),
                  rows,         columns,       result_step, is_double ? Int{8} : Int{4},
                  left_by_rows, right_by_rows, tiling,      is_double ? host_kernels().f64 : host_kernels().f32};
  const Int tiles = batch_count * count_of(rows, tiling.rows) * count_of(columns, tiling.columns);
  const Int work = std::min(tiling.rows, rows) * std::min(tiling.columns, columns) * product.k;
  parallel_for(
      0, tiles, std::max<Int>(1, tile_work / 2 / std::max<Int>(work, 1)),
      [](void* context, Int begin, Int end) { static_cast<const Task*>(context)->run(begin, end); },
      const_cast<Task*>(&task));
}

}  // namespace weft::runtime
