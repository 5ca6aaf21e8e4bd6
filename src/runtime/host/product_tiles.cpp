#include "runtime/host/product_tiles.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

std::int64_t count_of(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

// Tiles are tall, since a library packs the right operand anew for each: halved across, then down, while there are few
// and each is worth a thread's while.
constexpr std::int64_t tiles_wanted = 8, most_rows = 1024, least_columns = 128, least_rows = 128;

}  // namespace

ProductTiles::Int ProductTiles::Operand::at(const std::vector<Int>& sizes, Int item, Int i, Int j) const {
  Int position = i * row + j * column;
  for (std::size_t axis = sizes.size(); axis-- > 0; item /= sizes[axis]) position += item % sizes[axis] * batch[axis];
  return position;
}

ProductTiles::Int ProductTiles::Operand::at(const std::vector<Int>& sizes, Int item, Int i, Int j,
                                            const Matmul::Chosen& chosen) const {
  return chosen.numbers ? i * row + j * column + chosen[item] * batch[0] : at(sizes, item, i, j);
}

bool ProductTiles::reads(const Shape& shape, std::span<const Dim> strides) {
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (!strides[i].is_constant() || !shape[static_cast<int>(i)].is_constant()) return false;
  const std::size_t row = strides.size() - 2;
  const Int height = shape[static_cast<int>(row)].constant(), width = shape[static_cast<int>(row) + 1].constant(),
            down = strides[row].constant(), across = strides[row + 1].constant();
  const bool by_rows = (across == 1 || width == 1) && (down >= width || height == 1);
  const bool by_columns = (down == 1 || height == 1) && (across >= height || width == 1);
  return by_rows || by_columns;
}

std::optional<ProductTiles> ProductTiles::make(const Contraction& contraction) {
  const Contraction& c = contraction;
  Shape shape[3];  // of a, b, c
  std::vector<Dim> strides[3];
  const std::vector<Dim>* const batches[] = {&c.a_batch, &c.b_batch, &c.c_batch};
  const Dim sides[3][4] = {
      {c.m, c.k, c.a_row, c.a_column}, {c.k, c.n, c.b_row, c.b_column}, {c.m, c.n, c.c_row, c.c_column}};
  for (int i = 0; i < 3; ++i) {
    for (const Dim size : c.batch) shape[i].push_back(size);
    strides[i] = *batches[i];
    for (const int axis : {0, 1}) shape[i].push_back(sides[i][axis]), strides[i].push_back(sides[i][axis + 2]);
  }
  if (!reads(shape[0], strides[0]) || !reads(shape[1], strides[1])) return std::nullopt;
  const auto constants = [](const std::vector<Dim>& dims) {
    std::vector<Int> values;
    for (const Dim dim : dims) values.push_back(dim.constant());
    return values;
  };
  ProductTiles it;
  it.dtype = c.dtype, it.result_dtype = c.result_dtype();
  it.m = c.m.constant(), it.n = c.n.constant(), it.k = c.k.constant();
  it.batch = constants(c.batch);
  for (const Int size : it.batch) it.items *= size;
  if (it.items == 0 || it.m == 0 || it.n == 0 || it.k == 0) return std::nullopt;
  it.a = {c.a_row.constant(), c.a_column.constant(), constants(c.a_batch)};
  it.b = {c.b_row.constant(), c.b_column.constant(), constants(c.b_batch)};
  it.copies = !reads(shape[2], strides[2]);
  if (it.copies) {
    it.c = {it.n, 1, std::vector<Int>(it.batch.size())};
    Int step = it.m * it.n;
    for (std::size_t axis = it.batch.size(); axis-- > 0; step *= it.batch[axis]) it.c.batch[axis] = step;
  } else {
    it.c = {c.c_row.constant(), c.c_column.constant(), constants(c.c_batch)};
  }
  it.swapped = it.c.column != 1 && it.n != 1;
  if (it.swapped) {
    std::swap(it.m, it.n);
    std::swap(it.a, it.b);
    for (Operand* operand : {&it.a, &it.b, &it.c}) std::swap(operand->row, operand->column);
  }
  it.a.settle(it.m, it.k), it.b.settle(it.k, it.n), it.c.settle(it.m, it.n);
  it.rows = std::min(it.m, most_rows), it.columns = it.n;
  while (it.count() < tiles_wanted && it.columns >= 2 * least_columns) it.columns = count_of(it.columns, 2);
  while (it.count() < tiles_wanted && it.rows >= 2 * least_rows) it.rows = count_of(it.rows, 2);
  return it;
}

ProductTiles::Int ProductTiles::count() const { return items * count_of(m, rows) * count_of(n, columns); }

std::size_t ProductTiles::workspace(std::size_t scratch) const {
  return result_bytes() + static_cast<std::size_t>(std::min<Int>(count(), num_threads())) * scratch;
}
std::size_t ProductTiles::result_bytes() const {
  if (!copies) return 0;
  return static_cast<std::size_t>(count_of(storage_bytes(info(result_dtype), items * m * n), 64) * 64);
}

void ProductTiles::run(const Matmul& now, const Operands& operands, std::span<std::byte> workspace, std::size_t scratch,
                       void (*work)(void* context, const Tile& tile), void* context) const {
  struct Loop {
    const ProductTiles& it;
    const std::byte *a, *b, *bias;
    std::byte *c, *space;
    std::size_t scratch;
    const Matmul::Chosen &a_chosen, &b_chosen;
    Int down, across, element, result_element;
    void (*work)(void* context, const Tile& tile);
    void* context;
  } loop{*this,
         static_cast<const std::byte*>(swapped ? operands.right : operands.left),
         static_cast<const std::byte*>(swapped ? operands.left : operands.right),
         static_cast<const std::byte*>(operands.bias),
         copies ? workspace.data() : static_cast<std::byte*>(operands.result),
         workspace.data() + result_bytes(),
         scratch,
         swapped ? now.b_chosen : now.a_chosen,
         swapped ? now.a_chosen : now.b_chosen,
         count_of(m, rows),
         count_of(n, columns),
         storage_bytes(info(dtype), Int{1}),
         storage_bytes(info(result_dtype), Int{1}),
         work,
         context};
  const Int most_threads = scratch > 0 ? static_cast<Int>((workspace.size() - result_bytes()) / scratch) : count();
  WEFT_CHECK(most_threads > 0, "a workspace of ", workspace.size(), " bytes");
  parallel_for(
      0, count(), 1, most_threads,
      [](void* context, Chunks& chunks) {
        const Loop& loop = *static_cast<const Loop*>(context);
        const ProductTiles& it = loop.it;
        std::byte* const space = loop.space + static_cast<std::size_t>(chunks.place()) * loop.scratch;
        for_each_index(chunks, [&](Int index) {
          const Int item = index / (loop.down * loop.across), down = index / loop.across % loop.down,
                    across = index % loop.across, i = down * it.rows, j = across * it.columns;
          loop.work(loop.context, {down + 1 == loop.down ? it.last_rows() : it.rows,
                                   across + 1 == loop.across ? it.last_columns() : it.columns,
                                   loop.a + loop.element * it.a.at(it.batch, item, i, 0, loop.a_chosen),
                                   loop.b + loop.element * it.b.at(it.batch, item, 0, j, loop.b_chosen),
                                   loop.bias ? loop.bias + loop.element * j : nullptr,
                                   loop.c + loop.result_element * it.c.at(it.batch, item, i, j), space});
        });
      },
      &loop);
  if (!copies) return;
  const Operand place{now.c_row, now.c_column, {now.c_batch.begin(), now.c_batch.end()}};
  for (Int item = 0; item < items; ++item)
    for (Int i = 0; i < m; ++i)
      for (Int j = 0; j < n; ++j)
        std::memcpy(static_cast<std::byte*>(operands.result) + loop.result_element * place.at(batch, item, i, j),
                    loop.c + loop.result_element * c.at(batch, item, i, j),
                    static_cast<std::size_t>(loop.result_element));
}

}  // namespace weft::runtime
