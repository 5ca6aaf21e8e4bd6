#include "runtime/cuda/selection.hpp"

#include <algorithm>

#include "runtime/cuda/rows.hpp"

namespace weft::runtime::cuda {

namespace {

constexpr std::int64_t threads = 512, tile = 8192;  // of cuda_select.inc

// The number of elements of a row that are left after a launch, which leaves at most `wanted` of each piece.
std::int64_t left_of(std::int64_t count, std::int64_t wanted) {
  const std::int64_t pieces = (count + tile - 1) / tile;
  return (pieces - 1) * wanted + std::min(wanted, count - (pieces - 1) * tile);
}

}  // namespace

bool selects(const SortFields& what) {
  return what.first.is_constant() && what.count.is_constant() && what.count.constant() > 0 &&
         what.first.constant() + what.count.constant() <= most_selected &&
         !(what.size.is_constant() && what.size.constant() < least_selected_from);
}

std::unique_ptr<Runnable> device_order(const SortFields& what, const Preparation& preparation) {
  if (what.count.same(what.size)) return std::make_unique<DeviceSort>(what, preparation);
  return std::make_unique<DeviceSelection>(what, preparation);
}

DeviceSelection::DeviceSelection(const SortFields& what, const Preparation& preparation)
    : host_(what.dtype, what.descending, what.rows, what.size, what.first, what.count, preparation.numbers),
      function_(preparation, threads),
      descending_(what.descending),
      sizes_(preparation.numbers.add({what.rows, what.size, what.first, what.count})) {}

// Two places that take turns: the first has what one launch leaves, the second what two leave.
std::size_t DeviceSelection::workspace(std::span<const std::int64_t> numbers) const {
  const std::int64_t *const of = numbers.data() + sizes_.begin, rows = of[0], size = of[1], wanted = of[2] + of[3];
  if (size <= tile) return 0;
  const std::int64_t first = left_of(size, wanted), second = first <= tile ? 0 : left_of(first, wanted);
  return static_cast<std::size_t>(rows * (first + second)) * sizeof(std::int64_t);
}

void DeviceSelection::run(const StepCall& call) const {
  const std::span<const std::int64_t> of = call.part(sizes_);
  const std::int64_t rows = of[0], size = of[1], first = of[2], taken = of[3], wanted = first + taken;
  if (rows == 0) return;
  auto* const places = reinterpret_cast<std::int64_t*>(call.workspace.data());
  std::int64_t* const turns[] = {places, places + (size <= tile ? 0 : rows * left_of(size, wanted))};
  std::int64_t* from = nullptr;
  for (std::int64_t count = size, turn = 0;; turn = 1 - turn) {
    const std::int64_t pieces = (count + tile - 1) / tile;
    const bool is_last = pieces == 1;
    void* const buffers[] = {call.pointers[0], from, is_last ? call.pointers[1] : turns[turn]};
    const std::int64_t sizes[] = {rows, size, count, wanted, descending_, first, is_last ? taken : 0};
    function_.launch_buffers({.queue = call.queue, .x = rows * pieces}, buffers, sizes);
    if (is_last) return;
    from = turns[turn];
    count = left_of(count, wanted);
  }
}

}  // namespace weft::runtime::cuda
