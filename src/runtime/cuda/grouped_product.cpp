#include "runtime/cuda/grouped_product.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/product_kernel.hpp"

namespace weft::runtime::cuda {
namespace {

using Tile = ProductTile;
using WarpTile = WarpsTile;

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

std::optional<int> warp_stages_of(Device device, const GroupedProduct& p) {
  constexpr std::int64_t least_size = Tile::box;
  const DeviceState* const state = find_device(device);
  if (!state) return {};
  if (state->has(DeviceInstruction::wgmma) && state->has(DeviceInstruction::tensor_copy) &&
      state->shared_of_block >= grouped_shared && p.m.constant() >= least_size && p.n.constant() >= least_size &&
      p.groups.constant() <= most_groups)
    return 0;
  return warp_stages(*state);
}

DeviceGroupedProduct::DeviceGroupedProduct(const GroupedProduct& p, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation),
      dtype_(p.dtype),
      of_rows_(p.of_rows),
      by_rows_(p.by_rows),
      by_warps_(p.warp_stages > 0),
      sizes_(preparation.numbers.add({p.rows, p.m, p.n, p.groups, p.x_row, p.y_group, p.y_row, p.offsets[0],
                                      p.offsets[1], p.offsets[2], p.offsets[3]})) {}

struct DeviceGroupedProduct::Sizes {
  std::int64_t rows, m, n, groups, x_row, y_group, y_row;
};
struct DeviceGroupedProduct::Places {
  std::byte *x, *y, *ends, *result;
};

void DeviceGroupedProduct::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const Sizes sizes{size[0], size[1], size[2], size[3], size[4], size[5], size[6]};
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (sizes.rows > most || sizes.m > most || sizes.n > most)
    fail("grouped_matmul", {}, "of more than 2^30 rows or columns");
  const auto at = [&](std::size_t i, std::int64_t bytes) {
    std::byte* const place = static_cast<std::byte*>(call.pointers[i]) + size[7 + i] * bytes;
    WEFT_CHECK(bytes != 2 || reinterpret_cast<std::uintptr_t>(place) % 16 == 0, "a grouped product reads a value at ",
               static_cast<const void*>(place));
    return place;
  };
  const Places places{at(0, 2), at(1, 2), at(2, 8), at(3, 2)};
  if (sizes.rows == 0) {
    if (of_rows_)
      check(
          driver().cuMemsetD32Async(reinterpret_cast<Pointer>(places.result), 0,
                                    static_cast<std::size_t>(sizes.groups * sizes.m * sizes.n) / 2, call.queue->stream),
          "cuMemsetD32Async");
    return;
  }
  by_warps_ ? launch_by_warps(sizes, places, call.queue) : launch_by_groups_of_warps(sizes, places, call.queue);
}

void DeviceGroupedProduct::launch_by_groups_of_warps(const Sizes& sizes, const Places& at, const Queue* queue) const {
  const auto [rows, m, n, groups, x_row, y_group, y_row] = sizes;
  GroupsArguments arguments{.a = {},
                            .b = {},
                            .c = {},
                            .ends = at.ends,
                            .result = at.result,
                            .m = m,
                            .n = n,
                            .k = of_rows_ ? rows : m,
                            .rows = static_cast<int>(rows),
                            .groups = static_cast<int>(groups)};
  const std::uint32_t a_rows = of_rows_ ? Tile::depth : Tile::rows, b_rows = by_rows_ ? Tile::depth : Tile::columns;
  const MappedAxis x[] = {{m, 1, Tile::box}, {rows, x_row, a_rows}},
                   y_of_rows[] = {{n, 1, Tile::box}, {rows, y_row, Tile::depth}};
  const std::int64_t inner = by_rows_ ? n : m, outer = by_rows_ ? m : n;
  const MappedAxis y[] = {{inner, 1, Tile::box}, {outer, y_row, b_rows}, {groups, y_group, 1}};
  const MappedAxis c[] = {{n, 1, Tile::box}, {of_rows_ ? m : rows, n, Tile::box}, {groups, m * n, 1}};
  using Axes = std::span<const MappedAxis>;
  const bool described = describe(arguments.a, dtype_, at.x, x) &&
                         describe(arguments.b, dtype_, at.y, of_rows_ ? Axes(y_of_rows) : Axes(y)) &&
                         describe(arguments.c, dtype_, at.result, Axes(c).first(of_rows_ ? 3 : 2));
  WEFT_CHECK(described, "the driver takes no tensor map of a grouped product");
  const std::int64_t down = of_rows_ ? pieces(m, Tile::rows) * groups : pieces(rows, Tile::rows) + groups;
  const std::int64_t tiles = down * pieces(n, Tile::columns);
  function_.launch({.queue = queue, .x = std::min<std::int64_t>(tiles, device_.multiprocessors)}, arguments);
}

void DeviceGroupedProduct::launch_by_warps(const Sizes& sizes, const Places& at, const Queue* queue) const {
  const auto [rows, m, n, groups, x_row, y_group, y_row] = sizes;
  GroupsByWarpsArguments arguments{.a = at.x,
                                   .b = at.y,
                                   .ends = at.ends,
                                   .result = at.result,
                                   .m = m,
                                   .n = n,
                                   .k = of_rows_ ? rows : m,
                                   .a_row = x_row,
                                   .b_row = y_row,
                                   .b_group = y_group,
                                   .rows = static_cast<int>(rows),
                                   .groups = static_cast<int>(groups)};
  constexpr std::int64_t lines = WarpTile::lines, blocks_together = 2;
  const std::int64_t down = of_rows_ ? pieces(m, lines) * groups : pieces(rows, lines) + groups;
  const std::int64_t tiles = down * pieces(n, lines);
  function_.launch({.queue = queue, .x = std::min(tiles, blocks_together * device_.multiprocessors)}, arguments);
}

}  // namespace weft::runtime::cuda
