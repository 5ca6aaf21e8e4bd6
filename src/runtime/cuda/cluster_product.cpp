#include "runtime/cuda/cluster_product.hpp"

#include "base/fail.hpp"

namespace weft::runtime::cuda {

namespace {

using Tile = ClusterProductTile;

// Of a block, so that two have room on a multiprocessor, with their barriers and what is lost to alignment.
constexpr std::int64_t most_shared = 111 << 10;

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

bool has_cluster_products(const DeviceTarget& target, std::int64_t shared_of_block) {
  return target.has(DeviceInstruction::wgmma) && target.has(DeviceInstruction::cluster) &&
         shared_of_block >= most_shared + 2048;
}
bool has_cluster_products(Device device) {
  const DeviceState* const state = find_device(device);
  return state && has_cluster_products(*state->target, state->shared_of_block) &&
         state->has(DeviceInstruction::tensor_copy) && state->has(DeviceInstruction::cluster);
}

std::optional<ClusterParts> cluster_parts(std::int64_t n, std::int64_t k) {
  // One block a multiprocessor of the smallest Hopper GPUs whose clusters have eight blocks, and two of them have room.
  constexpr std::int64_t blocks_at_once = 128, bytes = 2, of_sum = 4;
  std::optional<ClusterParts> best;
  std::int64_t least = 0;
  for (const std::int64_t parts : {1, 2, 4, 8})
    for (const std::int64_t columns : {24, 48, 72, 96}) {
      const std::int64_t depth = pieces(k, parts * Tile::box) * Tile::box;
      if ((parts - 1) * depth >= k || columns / 2 % parts != 0) continue;
      const std::int64_t shared = (Tile::rows + columns) * depth * bytes + Tile::rows * columns * of_sum;
      if (shared > most_shared) continue;
      // Bytes that come into a multiprocessor, of operands and of sums.
      const std::int64_t turns = pieces(pieces(n, columns) * parts, blocks_at_once);
      const std::int64_t cost = turns * shared;
      if (!best || cost < least) best = ClusterParts{columns, depth, parts}, least = cost;
    }
  return best;
}

ClusterProduct::ClusterProduct(const ClusterProductCall& what, const Preparation& preparation)
    : what_(what),
      product_(what.product, preparation.numbers),
      device_(use(preparation.device)),
      function_(preparation) {
  WEFT_CHECK(product_.is_constant(), "a product by clusters has sizes that are known");
}

void ClusterProduct::run(const StepCall& call) const {
  const Matmul p = product_.product(call.numbers);
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  ClusterProductArguments arguments{};
  const MappedAxis axes[] = {{p.k, 1, Tile::box}, {p.n, p.b_column, static_cast<std::uint32_t>(what_.parts.columns)}};
  WEFT_CHECK(reinterpret_cast<std::uintptr_t>(at.a) % 16 == 0 && reinterpret_cast<std::uintptr_t>(at.c) % 4 == 0 &&
                 describe(arguments.weights, p.dtype, at.b, axes),
             "operands of a product by clusters begin at multiples of 16 bytes");
  arguments.x = at.a, arguments.bias = at.bias, arguments.result = at.c;
  arguments.x_row = p.a_row, arguments.result_row = p.c_row;
  arguments.m = static_cast<int>(p.m), arguments.n = static_cast<int>(p.n), arguments.k = static_cast<int>(p.k);
  arguments.begins_early = what_.begins_early;
  function_.launch({.queue = call.queue,
                    .x = pieces(p.n, what_.parts.columns) * what_.parts.parts,
                    .y = pieces(p.m, Tile::rows),
                    .cluster = what_.parts.parts,
                    .dependent = begin_launch(device_, call.queue)},
                   arguments);
}

}  // namespace weft::runtime::cuda
