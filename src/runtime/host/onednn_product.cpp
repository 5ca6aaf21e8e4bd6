#include "runtime/host/onednn_product.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime::onednn {

std::shared_ptr<const Task> Product::make_tile(Int rows, Int columns) const {
  Layout a, b, c;
  const auto lay = [&](Layout& layout, Int height, Int width, const Operand& operand) {
    // The stride of an axis of one element says nothing, and the library wants it to be in order too.
    const Int sizes[] = {height, width},
              strides[] = {height == 1 ? std::max(width * operand.column, Int{1}) : operand.row,
                           width == 1 ? (operand.row == 1 ? height : 1) : operand.column};
    return library_->dnnl_memory_desc_init_by_strides(&layout, 2, sizes, data_type(dtype_), strides) == 0;
  };
  if (!lay(a, rows, k_, a_) || !lay(b, k_, columns, b_) || !lay(c, rows, columns, c_)) return nullptr;
  Operation operation;
  if (library_->dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c) != 0) return nullptr;
  return Task::make(*library_, operation, {{argument::source, a}, {argument::weights, b}, {argument::result, c}});
}

Product::Int Product::Operand::at(const std::vector<Int>& sizes, Int item, Int i, Int j) const {
  Int position = i * row + j * column;
  for (std::size_t axis = sizes.size(); axis-- > 0; item /= sizes[axis]) position += item % sizes[axis] * batch[axis];
  return position;
}

namespace {

std::int64_t count_of(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

// Tiles are tall, since the library packs the right operand anew for each: halved across, then down, while there are
// few and each is worth a thread's while.
constexpr std::int64_t tiles_wanted = 8, most_rows = 1024, least_columns = 128, least_rows = 128;

}  // namespace

Product::Int Product::tiles() const { return items_ * count_of(m_, rows_) * count_of(n_, columns_); }

bool Product::cut() {
  rows_ = std::min(m_, most_rows), columns_ = n_;
  while (tiles() < tiles_wanted && columns_ >= 2 * least_columns) columns_ = count_of(columns_, 2);
  while (tiles() < tiles_wanted && rows_ >= 2 * least_rows) rows_ = count_of(rows_, 2);
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));  // a child could not make any afterwards
  const OneThread alone;
  const Int heights[] = {rows_, (m_ - 1) % rows_ + 1}, widths[] = {columns_, (n_ - 1) % columns_ + 1};
  for (const int down : {0, 1})
    for (const int across : {0, 1}) {
      std::shared_ptr<const Task>& tile = whole_[down][across];
      if (down && heights[1] == heights[0])
        tile = whole_[0][across];
      else if (across && widths[1] == widths[0])
        tile = whole_[down][0];
      else
        tile = make_tile(heights[down], widths[across]);
      if (!tile) return false;
      scratch_ = std::max(scratch_, tile->scratch());
    }
  return true;
}

bool Product::reads(const Shape& shape, std::span<const Dim> strides) {
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (!strides[i].is_constant() || !shape[static_cast<int>(i)].is_constant()) return false;
  const std::size_t row = strides.size() - 2;
  const Int height = shape[static_cast<int>(row)].constant(), width = shape[static_cast<int>(row) + 1].constant(),
            down = strides[row].constant(), across = strides[row + 1].constant();
  const bool by_rows = (across == 1 || width == 1) && (down >= width || height == 1);
  const bool by_columns = (down == 1 || height == 1) && (across >= height || width == 1);
  return by_rows || by_columns;
}

std::shared_ptr<const Product> Product::make(const Library& library, const Contraction& c) {
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
  if (!reads(shape[0], strides[0]) || !reads(shape[1], strides[1])) return nullptr;
  const auto constants = [](const std::vector<Dim>& dims) {
    std::vector<Int> values;
    for (const Dim dim : dims) values.push_back(dim.constant());
    return values;
  };
  const std::shared_ptr<Product> product(new Product);
  Product& it = *product;
  it.library_ = &library;
  it.dtype_ = c.dtype;
  it.m_ = c.m.constant(), it.n_ = c.n.constant(), it.k_ = c.k.constant();
  it.batch_ = constants(c.batch);
  for (const Int size : it.batch_) it.items_ *= size;
  if (it.items_ == 0 || it.m_ == 0 || it.n_ == 0 || it.k_ == 0) return nullptr;
  it.a_ = {c.a_row.constant(), c.a_column.constant(), constants(c.a_batch)};
  it.b_ = {c.b_row.constant(), c.b_column.constant(), constants(c.b_batch)};
  it.copies_ = !reads(shape[2], strides[2]);
  if (it.copies_) {
    it.c_ = {it.n_, 1, std::vector<Int>(it.batch_.size())};
    Int step = it.m_ * it.n_;
    for (std::size_t axis = it.batch_.size(); axis-- > 0; step *= it.batch_[axis]) it.c_.batch[axis] = step;
  } else {
    it.c_ = {c.c_row.constant(), c.c_column.constant(), constants(c.c_batch)};
  }
  it.swapped_ = it.c_.column != 1 && it.n_ != 1;
  if (it.swapped_) {
    std::swap(it.m_, it.n_);
    std::swap(it.a_, it.b_);
    for (Operand* operand : {&it.a_, &it.b_, &it.c_}) std::swap(operand->row, operand->column);
  }
  return it.cut() ? product : nullptr;
}

std::size_t Product::workspace() const {
  return result_bytes() + static_cast<std::size_t>(std::min<Int>(tiles(), num_threads())) * scratch_;
}
std::size_t Product::result_bytes() const {
  if (!copies_) return 0;
  return static_cast<std::size_t>(count_of(storage_bytes(info(dtype_), items_ * m_ * n_), 64) * 64);
}

void Product::run(const Matmul& now, const void* a, const void* b, void* c, std::span<std::byte> workspace) const {
  const Int down = count_of(m_, rows_), across = count_of(n_, columns_), element = storage_bytes(info(dtype_), Int{1});
  struct Work {
    const Product& it;
    const std::byte *a, *b;
    std::byte *c, *space;
    Int down, across, element;
    std::atomic<Int> pieces = 0;
  } work{*this,
         static_cast<const std::byte*>(swapped_ ? b : a),
         static_cast<const std::byte*>(swapped_ ? a : b),
         copies_ ? workspace.data() : static_cast<std::byte*>(c),
         workspace.data() + result_bytes(),
         down,
         across,
         element};
  const Int most_pieces = scratch_ > 0 ? static_cast<Int>((workspace.size() - result_bytes()) / scratch_) : tiles();
  WEFT_CHECK(most_pieces > 0, "a workspace of ", workspace.size(), " bytes");
  parallel_for(
      0, tiles(), count_of(tiles(), most_pieces),
      [](void* context, Int begin, Int end) {
        Work& work = *static_cast<Work*>(context);
        const Product& it = work.it;
        const OneThread alone;
        std::byte* const space = work.space + static_cast<std::size_t>(work.pieces++) * it.scratch_;
        for (Int index = begin; index < end; ++index) {
          const Int item = index / (work.down * work.across), down = index / work.across % work.down,
                    across = index % work.across, i = down * it.rows_, j = across * it.columns_;
          void* const data[] = {const_cast<std::byte*>(work.a + work.element * it.a_.at(it.batch_, item, i, 0)),
                                const_cast<std::byte*>(work.b + work.element * it.b_.at(it.batch_, item, 0, j)),
                                work.c + work.element * it.c_.at(it.batch_, item, i, j)};
          it.whole_[down + 1 == work.down][across + 1 == work.across]->run(data, space, "matmul");
        }
      },
      &work);
  if (!copies_) return;
  const Operand place{now.c_row, now.c_column, {now.c_batch.begin(), now.c_batch.end()}};
  for (Int item = 0; item < items_; ++item)
    for (Int i = 0; i < m_; ++i)
      for (Int j = 0; j < n_; ++j)
        std::memcpy(static_cast<std::byte*>(c) + element * place.at(batch_, item, i, j),
                    work.c + element * c_.at(batch_, item, i, j), static_cast<std::size_t>(element));
}

}  // namespace weft::runtime::onednn
