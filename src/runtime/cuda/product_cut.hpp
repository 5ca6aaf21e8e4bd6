// How the blocks of a product by our own kernels share k (weft/detail/cuda_cut.inc). In: how many tiles the product has
// and how many steps of k, what sharing costs. Out: the cut. It follows from sizes alone, and so do the roundings.
#pragma once
#include <cstdint>

#include "runtime/cuda/kernel_arguments.hpp"

namespace weft::runtime::cuda {

// The tiles of c, and the steps of k that each takes.
struct ProductTiles {
  std::int64_t down, across, items, steps;
  std::int64_t count() const { return down * across * items; }
};

// In tenths of the time that a multiprocessor takes for a step.
struct CutCosts {
  std::int64_t blocks;       // that share a multiprocessor
  std::int64_t joins;        // of a tile: groups of threads that join their sums for themselves
  std::int64_t row, column;  // lines that a tile reads of a, and of b, as multiples of a tile's rows
  std::int64_t step_alone;   // a step of a block that has a multiprocessor for itself
  std::int64_t begin;        // until a block's first step
  std::int64_t join, part;   // until the sums of a tile are added: at all, and of each part
  std::int64_t segment;      // a further segment of a unit
  std::int64_t small_group;  // a step's reads, of one tile in a group, where there are several groups
  std::int64_t sums;         // that each multiprocessor writes and reads the sums of a tile
};
extern const CutCosts cut_by_warps, cut_on_hopper;

// The first `whole` tiles are not cut, the others in groups of `of_group` and units of `steps_of_unit`. `blocks`: that
// run at once.
Cut make_cut(const ProductTiles& tiles, std::int64_t whole, std::int64_t of_group, std::int64_t steps_of_unit,
             std::int64_t blocks);
// Tiles alone, without groups, where a cut does not pay. The costs lead to what was the fastest on an H200 or to little
// more: docs/performance_gpu_subjects.md, Our own product.
Cut best_cut(const ProductTiles& tiles, const CutCosts& costs);

// The tiles of sums that the parts of a cut need in memory.
std::int64_t slots(const Cut& cut);

}  // namespace weft::runtime::cuda
