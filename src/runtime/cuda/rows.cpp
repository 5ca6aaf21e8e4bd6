#include "runtime/cuda/rows.hpp"

#include <algorithm>
#include <bit>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

using namespace row_kernels;

namespace {

std::int64_t in_parts(std::int64_t count, std::int64_t part) { return (count + part - 1) / part; }
int bits_of(std::int64_t number) { return std::bit_width(static_cast<std::uint64_t>(number)); }
// The bits that the place of an element takes in a word. Places have at most 32 bits.
int place_bits(std::int64_t size) { return size > 0 ? bits_of(size - 1) : 0; }

void check_sortable(const char* operation, std::int64_t size, int key_bits) {
  if (place_bits(size) > 32 || place_bits(size) + key_bits > 64)
    fail(operation, {}, size, " places are more than a device sorts at once: do it in several parts");
}

bool adds_atomically(DType dtype, bool adds) {
  return adds && (dtype == DType::i32 || dtype == DType::u32 || dtype == DType::i64);
}

}  // namespace

std::size_t RadixSort::counts_bytes() const {
  const std::int64_t tiles = in_parts(size, radix_tile);
  return tiles > 1 ? static_cast<std::size_t>(lists * digits * (tiles + 1)) * sizeof(std::uint32_t) : 0;
}

template <class Launch>
void RadixSort::run(const Launch& launch) const {
  const std::int64_t tiles = in_parts(size, radix_tile);
  if (tiles <= 1) return launch(whole, 0, lists);
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    launch(count_digits, pass, lists * tiles);
    launch(scan_digits, pass, in_parts(lists * digits, threads / 32));
    launch(place, pass, lists * tiles);
  }
}

RowUpdater::RowUpdater(DType dtype, bool adds, const Preparation& preparation)
    : device_(use(preparation.device)), function_(preparation, threads), dtype_(dtype), adds_(adds) {}

bool RowUpdater::sorts() const { return !adds_atomically(dtype_, adds_); }

namespace {
RadixSort sort_of(const RowSizes& sizes) { return {1, sizes.count, in_parts(bits_of(sizes.rows), 8)}; }
}  // namespace

std::size_t RowUpdater::workspace(const RowSizes& sizes) const {
  if (!sorts()) return 0;
  return 2 * static_cast<std::size_t>(sizes.count) * sizeof(std::uint64_t) + sort_of(sizes).counts_bytes();
}

void RowUpdater::run(const StepCall& call, const RowSizes& n, const Buffers& at, bool clears) const {
  const RadixSort sort = sort_of(n);
  const auto bytes = static_cast<std::int64_t>(storage_bytes(dtype_, 1)), table = n.outer * n.rows * n.inner;
  const auto phase = [&](std::int64_t number, std::int64_t pass, std::int64_t blocks, std::int64_t detail = 0) {
    // RowSize of weft/detail/cuda_rows.inc, and the offsets.
    const std::int64_t sizes[] = {n.outer, n.rows, n.inner, n.count,           place_bits(n.count), sort.passes,
                                  number,  pass,   detail,  at.updates_offset, at.index_offset};
    void* const buffers[] = {at.updates, at.index, at.table, call.workspace.data(), at.error};
    function_.launch_buffers({.queue = call.queue, .x = blocks}, std::span(buffers, at.error ? 5 : 4), sizes);
  };
  if (clears) phase(clear, 0, in_parts(table, threads * std::max<std::int64_t>(1, 16 / bytes)));
  const std::int64_t units = n.outer * n.count;
  if (units * n.inner == 0 || table == 0) return;
  if (!sorts()) {
    const std::int64_t elements = units * n.inner;
    const bool copies = table * bytes <= shared_bytes && elements >= 4 * table;
    return phase(add_atomic, 0,
                 copies ? std::min<std::int64_t>(in_parts(elements, 8 * threads), 4 * device_.multiprocessors)
                        : in_parts(elements, threads),
                 copies);
  }
  check_sortable("update_rows", n.count, bits_of(n.rows));
  sort.run([&](std::int64_t number, std::int64_t pass, std::int64_t blocks) { phase(number, pass, blocks); });
  const std::int64_t packs = in_parts(n.inner, bytes > 1 ? 16 / bytes : 8);
  const int lanes = place_bits(std::min(packs, threads));  // as a power of two
  phase(join, 0, in_parts(units << lanes, threads), lanes);
  if (adds_ && n.count >= long_segment)
    phase(add_long, 0, n.outer * in_parts(n.count, 32 * long_segment) * in_parts(n.inner, columns_of_block));
}

DeviceScatter::DeviceScatter(const ScatterFields& what, const Preparation& preparation)
    : host_(what.join, what.dtype, what.rows, what.count, what.width, preparation.numbers),
      function_(preparation, threads),
      updater_(what.dtype, true, preparation),
      adds_(what.join == RowJoin::add),
      sizes_(preparation.numbers.add({what.rows, what.count, what.width})) {}

std::size_t DeviceScatter::workspace(std::span<const std::int64_t> numbers) const {
  const std::span<const std::int64_t> size = numbers.subspan(sizes_.begin, sizes_.count);
  return adds_ ? updater_.workspace({1, size[0], size[2], size[1]}) : 0;
}

void DeviceScatter::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const std::int64_t rows = size[0], count = size[1], width = size[2];
  if (adds_)
    return updater_.run(call, {1, rows, width, count},
                        {.updates = call.pointers[1], .index = call.pointers[0], .table = call.pointers[2]}, true);
  for (const bool second : {false, true}) {
    const std::int64_t sizes[] = {rows, count, width, second};
    function_.launch_buffers({.queue = call.queue, .x = in_parts((second ? count : rows) * width, threads)},
                             {call.pointers, 3}, sizes);
  }
}

DeviceSort::DeviceSort(const SortFields& what, const Preparation& preparation)
    : host_(what.dtype, what.descending, what.rows, what.size, 0, what.size, preparation.numbers),
      function_(preparation, threads),
      dtype_(what.dtype),
      descending_(what.descending),
      is_long_(!what.size.is_constant() || what.size.constant() > short_row),
      sizes_(preparation.numbers.add({what.rows, what.size})) {}

RadixSort DeviceSort::sort_of(std::span<const std::int64_t> size) const {
  return {size[0], size[1], static_cast<std::int64_t>(storage_bytes(dtype_, 1))};
}

// The words of every other pass, and after them the counts.
std::size_t DeviceSort::workspace(std::span<const std::int64_t> numbers) const {
  const std::span<const std::int64_t> size = numbers.subspan(sizes_.begin, sizes_.count);
  if (size[1] <= short_row) return 0;
  return static_cast<std::size_t>(size[0] * size[1]) * sizeof(std::uint64_t) + sort_of(size).counts_bytes();
}

void DeviceSort::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const std::int64_t rows = size[0], length = size[1];
  if (rows * length == 0) return;
  const bool is_short = length <= short_row;
  std::byte* const beside = call.workspace.data();
  void* const buffers[] = {call.pointers[0], call.pointers[1], beside,
                           is_short ? nullptr : beside + rows * length * std::int64_t{sizeof(std::uint64_t)}};
  const auto phase = [&](std::int64_t number, std::int64_t pass, std::int64_t blocks) {
    const std::int64_t sizes[] = {rows, length, descending_, place_bits(length), number, pass};
    function_.launch_buffers({.queue = call.queue, .x = blocks}, buffers, sizes);
  };
  if (is_short)
    return phase(
        whole, 0,
        in_parts(rows, short_row / static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)))));
  check_sortable("argsort", length, 32);
  sort_of(size).run(phase);
}

DeviceRows::DeviceRows(const RowsUpdate& update, bool checked, const Preparation& preparation)
    : host_(update, preparation.numbers),
      device_(use(preparation.device)),
      updater_(update.dtype, update.adds, preparation),
      dtype_(update.dtype),
      checked_(checked),
      sizes_(update.numbers(preparation.numbers)) {}

bool DeviceRows::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  return fits_checked(host_, checked_, numbers, rooms);
}

std::size_t DeviceRows::workspace(std::span<const std::int64_t> numbers) const {
  const std::span<const std::int64_t> n = numbers.subspan(sizes_.begin, sizes_.count);
  return updater_.workspace({n[0], n[1], n[2], n[3]});
}

void DeviceRows::run(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  const auto bytes = static_cast<std::int64_t>(storage_bytes(dtype_, 1)), table = n[0] * n[1] * n[2];
  auto* const from = static_cast<std::byte*>(call.pointers[0]) + n[4] * bytes;
  if (from != call.pointers[3] && table > 0)
    device_interface(Device::Type::cuda)
        .copy(call.pointers[3], device_.device, from, device_.device, static_cast<std::size_t>(table * bytes),
              call.queue);
  updater_.run(call, {n[0], n[1], n[2], n[3]},
               {.updates = call.pointers[1],
                .index = call.pointers[2],
                .table = call.pointers[3],
                .error = checked_ ? call.pointers[4] : nullptr,
                .updates_offset = n[5],
                .index_offset = n[6]},
               false);
}

}  // namespace weft::runtime::cuda
