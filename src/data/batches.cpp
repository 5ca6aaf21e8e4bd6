// Batches: rows of a dataset copied together on the host, in a drawn order.
#include <cstring>
#include <memory>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/data.hpp"

namespace weft::data {
namespace {

// Rows order[from], order[from + 1], ... of a value, or rows from, from + 1, ... where there is no order.
Tensor rows_of(const Tensor& value, std::span<const std::int64_t> order, std::int64_t from, std::int64_t count,
               Loc loc) {
  Type type = type_of(value);
  std::int64_t elements = 1;
  for (int i = 1; i < type.shape.rank(); ++i) elements *= type.shape[i].constant();
  type.shape[0] = count;
  std::size_t row = storage_bytes(type.dtype, elements), width = storage_bytes(type.dtype, 1);
  const Contiguous source = contiguous(value, loc);
  const std::unique_ptr<Storage, void (*)(Storage*)> held(source.storage, release);
  const char* begin = static_cast<const char*>(source.storage->data) + static_cast<std::size_t>(source.offset) * width;
  Storage* storage = allocate(Device::cpu(), std::max<std::size_t>(row * static_cast<std::size_t>(count), 1));
  for (std::int64_t i = 0; i < count; ++i) {
    auto at = static_cast<std::size_t>(order.empty() ? from + i : order[static_cast<std::size_t>(from + i)]);
    std::memcpy(static_cast<char*>(storage->data) + static_cast<std::size_t>(i) * row, begin + at * row, row);
  }
  return make_data(storage, type, loc);
}

}  // namespace

Batches::Batches(const Dataset& dataset, std::int64_t size, Generator& generator, BatchOptions options, Loc loc)
    : dataset_(dataset), size_(size), options_(options), loc_(loc) {
  LooseComposite call("batches", loc);
  if (recorder().trace()) fail("batches", call.loc(), "are made on the host: not inside a compiled function");
  if (!dataset.x.defined() || !dataset.y.defined()) fail("batches", call.loc(), "of an undefined tensor");
  const Type x = type_of(dataset.x), y = type_of(dataset.y);
  for (const Type& type : {x, y})
    if (type.shape.rank() < 1) fail("batches", call.loc(), "a 0-d tensor has no rows: ", to_string(type));
  if (!(x.shape[0] == y.shape[0]))
    fail("batches", call.loc(), "the numbers of rows differ: ", to_string(x), " and ", to_string(y));
  for (const Type& type : {x, y})
    if (type.device != Device::cpu())
      fail("batches", call.loc(), "are made on the host, move each there and not the dataset: ", to_string(type));
  if (size < 1) fail("batches", call.loc(), "the size of a batch is ", size);
  rows_ = x.shape[0].constant();
  if (options.shuffle) order_ = permutation(rows_, generator, loc);
}

std::int64_t Batches::count() const { return options_.keep_rest ? (rows_ + size_ - 1) / size_ : rows_ / size_; }

Batch Batches::batch(std::int64_t position) const {
  std::int64_t from = position * size_, count = std::min(size_, rows_ - from);
  return {rows_of(dataset_.x, order_, from, count, loc_), rows_of(dataset_.y, order_, from, count, loc_)};
}

Batches batches(const Dataset& dataset, std::int64_t size, Generator& generator, BatchOptions options, Loc loc) {
  return Batches(dataset, size, generator, options, loc);
}

}  // namespace weft::data
