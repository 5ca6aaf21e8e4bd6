#include "runtime/cuda/grouped_product.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "runtime/cuda/kernel_arguments.hpp"

namespace weft::runtime::cuda {
namespace {

using Tile = ProductTile;

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

bool has_grouped_products(Device device) {
  const DeviceState* const state = find_device(device);
  return state && state->has(DeviceInstruction::wgmma) && state->has(DeviceInstruction::tensor_copy) &&
         state->shared_of_block >= grouped_shared;
}

DeviceGroupedProduct::DeviceGroupedProduct(const GroupedProduct& p, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation),
      dtype_(p.dtype),
      of_rows_(p.of_rows),
      by_rows_(p.by_rows),
      sizes_(preparation.numbers.add({p.rows, p.m, p.n, p.groups, p.x_row, p.y_group, p.y_row, p.offsets[0],
                                      p.offsets[1], p.offsets[2], p.offsets[3]})) {}

void DeviceGroupedProduct::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const std::int64_t rows = size[0], m = size[1], n = size[2], groups = size[3];
  const std::int64_t x_row = size[4], y_group = size[5], y_row = size[6];
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (rows > most || m > most || n > most) fail("grouped_matmul", {}, "of more than 2^30 rows or columns");
  const auto at = [&](std::size_t i, std::int64_t bytes) {
    std::byte* const place = static_cast<std::byte*>(call.pointers[i]) + size[7 + i] * bytes;
    WEFT_CHECK(bytes != 2 || reinterpret_cast<std::uintptr_t>(place) % 16 == 0, "a grouped product reads a value at ",
               static_cast<const void*>(place));
    return place;
  };
  GroupsArguments arguments{.a = {},
                            .b = {},
                            .c = {},
                            .ends = at(2, 8),
                            .result = at(3, 2),
                            .m = m,
                            .n = n,
                            .k = of_rows_ ? rows : m,
                            .rows = static_cast<int>(rows),
                            .groups = static_cast<int>(groups)};
  if (rows == 0) {
    if (of_rows_)
      check(driver().cuMemsetD32Async(reinterpret_cast<Pointer>(arguments.result), 0,
                                      static_cast<std::size_t>(groups * m * n) / 2, call.queue->stream),
            "cuMemsetD32Async");
    return;
  }
  const std::uint32_t a_rows = of_rows_ ? Tile::depth : Tile::rows, b_rows = by_rows_ ? Tile::depth : Tile::columns;
  const MappedAxis x[] = {{m, 1, Tile::box}, {rows, x_row, a_rows}},
                   y_of_rows[] = {{n, 1, Tile::box}, {rows, y_row, Tile::depth}};
  const std::int64_t inner = by_rows_ ? n : m, outer = by_rows_ ? m : n;
  const MappedAxis y[] = {{inner, 1, Tile::box}, {outer, y_row, b_rows}, {groups, y_group, 1}};
  const MappedAxis c[] = {{n, 1, Tile::box}, {of_rows_ ? m : rows, n, Tile::box}, {groups, m * n, 1}};
  using Axes = std::span<const MappedAxis>;
  const bool described = describe(arguments.a, dtype_, at(0, 2), x) &&
                         describe(arguments.b, dtype_, at(1, 2), of_rows_ ? Axes(y_of_rows) : Axes(y)) &&
                         describe(arguments.c, dtype_, arguments.result, Axes(c).first(of_rows_ ? 3 : 2));
  WEFT_CHECK(described, "the driver takes no tensor map of a grouped product");
  const std::int64_t down = of_rows_ ? pieces(m, Tile::rows) * groups : pieces(rows, Tile::rows) + groups;
  const std::int64_t tiles = down * pieces(n, Tile::columns);
  function_.launch({.queue = call.queue, .x = std::min<std::int64_t>(tiles, device_.multiprocessors)}, arguments);
}

}  // namespace weft::runtime::cuda
