#include "runtime/cuda/product_cut.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/device_target.hpp"
#include "runtime/cuda/block_counters.hpp"

namespace weft::runtime::cuda {

const CutCosts cut_by_warps{.blocks = 2,
                            .joins = 1,
                            .row = 1,
                            .column = 1,
                            .step_alone = 12,
                            .begin = 20,
                            .join = 35,
                            .part = 4,
                            .segment = 20,
                            .small_group = 6,
                            .sums = 40},
    cut_on_hopper{.blocks = 1,
                  .joins = 2,
                  .row = 1,
                  .column = 2,
                  .step_alone = 9,
                  .begin = 35,
                  .join = 120,
                  .part = 4,
                  .segment = 40,
                  .small_group = 6,
                  .sums = 80};

namespace {

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

// Lines of operands that the groups of a cut read, all groups together, if tiles come from bands of so many rows.
std::int64_t lines_read(const ProductTiles& tiles, const Cut& cut, std::int64_t band, const CutCosts& costs) {
  std::int64_t lines = 0;
  std::vector<std::int64_t> row_met(static_cast<std::size_t>(tiles.down * tiles.items), -1),
      column_met(static_cast<std::size_t>(tiles.across * tiles.items), -1);  // by which group
  for (std::int64_t tile = cut.whole; tile < cut.tiles; ++tile) {
    const std::int64_t group = (tile - cut.whole) / cut.of_group, of_item = tiles.down * tiles.across,
                       item = tile / of_item, at = tile % of_item, first = at / (band * tiles.across) * band,
                       in = at % (band * tiles.across), high = std::min(tiles.down - first, band);
    const auto meet = [&](std::int64_t& met, std::int64_t of_line) {
      if (met != group) lines += of_line;
      met = group;
    };
    meet(row_met[static_cast<std::size_t>(item * tiles.down + first + in % high)], costs.row);
    meet(column_met[static_cast<std::size_t>(item * tiles.across + in / high)], costs.column);
  }
  return lines;
}

int best_band(const ProductTiles& tiles, const Cut& cut, const CutCosts& costs) {
  constexpr std::int64_t highest = 32;
  std::int64_t best = 1, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t band = 1; band <= std::min(tiles.down, highest); ++band)
    if (const std::int64_t lines = lines_read(tiles, cut, band, costs); lines < least) least = lines, best = band;
  return static_cast<int>(best);
}

}  // namespace

Cut make_cut(const ProductTiles& tiles, std::int64_t whole, std::int64_t of_group, std::int64_t steps_of_unit,
             std::int64_t blocks) {
  const std::int64_t groups = pieces(tiles.count() - whole, of_group),
                     units = pieces(groups * tiles.steps, steps_of_unit);
  // Where a unit begins in a group is a multiple of `apart`.
  const std::int64_t apart = std::gcd(tiles.steps, steps_of_unit);
  const std::int64_t of_unit = groups == 1 ? 1 : pieces(steps_of_unit + tiles.steps - apart, tiles.steps);
  // Whole tiles are done in turns of all blocks, and so are units after them.
  const std::int64_t width = whole > 0 ? std::max(units * of_group, blocks) : units * of_group;
  const auto as_int = [](std::int64_t size) { return static_cast<int>(size); };
  return {.tiles = as_int(tiles.count()),
          .whole = as_int(whole),
          .of_group = as_int(of_group),
          .groups = as_int(groups),
          .steps_of_unit = as_int(steps_of_unit),
          .units = as_int(units),
          .of_unit = as_int(of_unit),
          .width = as_int(width),
          .count = as_int(whole + of_unit * width),
          .band = 16};
}

Cut best_cut(const ProductTiles& tiles, const CutCosts& costs) {
  using device_layout::multiprocessors;
  constexpr std::int64_t most_parts = 32, most_turns = 4, most_steps = std::int64_t{1} << 20;
  constexpr std::int64_t most_whole = 2;   // turns of whole tiles: no more were timed
  constexpr std::int64_t least_group = 4;  // blocks of smaller ones share too little
  const std::int64_t count = tiles.count(), together = costs.blocks * multiprocessors;
  Cut best{.tiles = static_cast<int>(count)};
  if (tiles.steps > most_steps) return best;
  const auto time_of = [&](std::int64_t blocks, std::int64_t steps, std::int64_t more) {
    const std::int64_t turns = pieces(blocks, multiprocessors);
    return turns * ((turns == 1 ? costs.step_alone : 10) * steps + costs.begin + more);
  };
  std::int64_t least = time_of(count, tiles.steps, 0);
  const auto consider = [&](std::int64_t whole, std::int64_t of_group, std::int64_t of_unit) {
    const Cut cut = make_cut(tiles, whole, of_group, of_unit, together);
    const std::int64_t apart = cut.groups > 1 ? std::gcd(tiles.steps, of_unit) : of_unit,
                       parts = pieces(tiles.steps + of_unit - apart, of_unit),
                       blocks = std::int64_t{cut.units} * of_group;
    const std::int64_t more = costs.join + costs.part * parts + costs.segment * (cut.of_unit - 1) +
                              (cut.groups > 1 ? costs.small_group * of_unit / of_group : 0);
    const std::int64_t time = whole / multiprocessors * (10 * tiles.steps + costs.begin) +
                              time_of(blocks, of_unit, more) + costs.sums * blocks / multiprocessors;
    if (time < least) least = time, best = cut;
  };
  const std::int64_t turns = count / together;
  for (std::int64_t turn = std::min(turns, most_whole); turn >= 0; --turn) {
    const std::int64_t whole = turn * together, rest = count - whole;
    if (rest == 0 || rest * costs.joins * counters_of_join > most_block_counters) continue;
    // One group, in as many parts as may pay; if whole tiles precede them, as fit.
    const std::int64_t most = turn > 0 ? std::min(together / rest, most_parts) : most_parts;
    for (std::int64_t parts = turn > 0 ? std::max<std::int64_t>(most, 2) : 2; parts <= most; ++parts)
      if (rest * parts <= most_turns * multiprocessors) consider(whole, rest, pieces(tiles.steps, parts));
    // Several groups, whose units are all blocks that run at once.
    for (std::int64_t of_group = std::min(together / 2, rest - 1); of_group >= least_group; --of_group)
      consider(whole, of_group, pieces(pieces(rest, of_group) * tiles.steps, together / of_group));
  }
  if (best.groups > 0) best.band = best_band(tiles, best, costs);
  return best;
}

std::int64_t slots(const Cut& cut) {
  return cut.groups == 0 ? 0 : std::int64_t{cut.units + cut.groups - 1} * cut.of_group;
}

}  // namespace weft::runtime::cuda
