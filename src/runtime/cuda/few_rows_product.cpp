#include "runtime/cuda/few_rows_product.hpp"

#include <algorithm>
#include <array>

#include "base/fail.hpp"
#include "runtime/cuda/block_counters.hpp"

namespace weft::runtime::cuda {

namespace {

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

DepthParts depth_parts(std::int64_t k, std::int64_t depth) {
  constexpr std::int64_t of_instructions = 32;  // of k that a warp multiplies at once
  const std::int64_t slices = std::max<std::int64_t>(pieces(k, few_rows_warps * depth), 1);
  return {slices, pieces(k, slices * few_rows_warps * of_instructions) * of_instructions};
}

bool same_rows(const Contraction& first, const Contraction& other) {
  return first.dtype == other.dtype && first.is_wide == other.is_wide && first.m.same(other.m) &&
         first.k.same(other.k) && first.a_offset.same(other.a_offset) && first.a_row.same(other.a_row) &&
         first.a_column.same(other.a_column);
}

bool can_be_gated(std::span<const Contraction> products, std::int64_t depth) {
  if (products.size() != 2 || !same_rows(products[0], products[1])) return false;
  const Contraction &gate = products[0], &up = products[1];
  return !gate.is_wide && !gate.has_bias && !up.has_bias && gate.n.same(up.n) && gate.c_row.same(up.c_row) &&
         gate.c_offset.same(up.c_offset) && depth_parts(gate.k.constant(), depth).slices == 1;
}

FewRowsProduct::FewRowsProduct(const FewRowsFields& what, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation),
      depth_(what.depth),
      begins_early_(what.begins_early),
      is_gated_(what.is_gated) {
  std::size_t buffer = 0;
  for (const Contraction& c : what.products) {
    Part part{ProductNumbers(c, preparation.numbers),
              buffer,
              c.has_bias ? 4u : 3u,
              preparation.numbers.add({c.a_offset, c.b_offset}),
              {}};
    WEFT_CHECK(part.product.is_constant(), "a product of few rows has sizes that are known");
    part.library = LibraryProduct::make(device_, part.product.product(preparation.numbers.constants()));
    buffer += part.buffers;
    parts_.push_back(std::move(part));
  }
  block_counters(device_, nullptr);  // not while a call is recorded
}

bool FewRowsProduct::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  for (const Part& part : parts_) {
    if (part.buffer + part.buffers > rooms.size()) return false;
    const std::span<const Room> own = rooms.subspan(part.buffer, part.buffers);
    if (!part.product.fits(numbers, own)) return false;
    const Matmul p = part.product.product(numbers);
    constexpr std::int64_t together = 8;  // 16 bytes at once
    if (p.m < 1 || p.m > few_rows_most || p.n < 1 || p.n >= std::int64_t{1} << 30 || p.k < 1 || p.k % together != 0)
      return false;
    if (p.a_column != 1 || p.b_row != 1 || p.c_column != 1 || p.c_row < 0) return false;
    if (p.a_row % together != 0 || p.b_column % together != 0 || p.a_row < 0 || p.b_column < 0) return false;
    if (numbers[part.offsets.begin] % together != 0 || numbers[part.offsets.begin + 1] % together != 0 ||
        own[0].alignment % 16 != 0 || own[1].alignment % 16 != 0)
      return false;
  }
  return true;
}

std::size_t FewRowsProduct::workspace(std::span<const std::int64_t> numbers) const {
  std::int64_t tiles = 0, slices = 0;
  for (const Part& part : parts_) {
    const Matmul p = part.product.product(numbers);
    tiles += pieces(p.n, FewRowsTile::rows), slices = depth_parts(p.k, depth_).slices;
  }
  return slices == 1 ? 0 : static_cast<std::size_t>(slices * tiles * FewRowsTile::sums) * sizeof(float);
}

void FewRowsProduct::run(const StepCall& call) const {
  FewRowsArguments arguments{};
  std::array<ProductNumbers::Operands, few_rows_most_products> operands;
  bool is_aligned = true;
  std::int64_t tiles = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Matmul p = parts_[i].product.product(call.numbers);
    const ProductNumbers::Operands at = operands[i] =
        parts_[i].product.first(call.pointers + parts_[i].buffer, call.numbers);
    is_aligned &= (reinterpret_cast<std::uintptr_t>(at.a) | reinterpret_cast<std::uintptr_t>(at.b)) % 16 == 0;
    tiles += pieces(p.n, FewRowsTile::rows);
    arguments.x = at.a, arguments.x_row = p.a_row;
    arguments.m = static_cast<int>(p.m), arguments.k = static_cast<int>(p.k);
    arguments.parts[i] = {at.b, at.bias, at.c, p.b_column, p.c_row, static_cast<int>(p.n), static_cast<int>(tiles)};
  }
  if (!is_aligned) {
    if (is_gated_) fail("matmul", {}, "reads memory from multiples of 16 bytes on where silu of it gates another one");
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      WEFT_CHECK(parts_[i].library, "a product of few rows that cuBLASLt does not take");
      const ProductNumbers::Operands& at = operands[i];
      parts_[i].library->run(at.a, at.b, at.bias, at.c, call.queue);
    }
    return;
  }
  const DepthParts parts = depth_parts(arguments.k, depth_);
  const std::int64_t multiprocessors = device_.multiprocessors;
  const std::int64_t groups = std::min(
      {is_gated_ ? tiles / 2 : tiles, std::max<std::int64_t>(multiprocessors / parts.slices, 1), most_block_counters});
  arguments.sums = reinterpret_cast<float*>(call.workspace.data());
  arguments.arrivals = parts.slices > 1 ? block_counters(device_, call.queue) : nullptr;
  arguments.part_count = static_cast<int>(parts_.size()), arguments.tiles = static_cast<int>(tiles);
  arguments.slices = static_cast<int>(parts.slices), arguments.k_of_warp = static_cast<int>(parts.k_of_warp);
  arguments.begins_early = begins_early_;
  function_.launch({.queue = call.queue, .x = groups * parts.slices, .dependent = begin_launch(device_, call.queue)},
                   arguments);
}

}  // namespace weft::runtime::cuda
