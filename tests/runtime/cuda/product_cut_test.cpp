// Products whose blocks share k: each step of each tile is done once, by the order in which the device finds its work.
// No GPU is needed: the device's text is compiled by the host.
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/block_counters.hpp"
#include "runtime/cuda/product_cut.hpp"

#define WEFT_DEVICE inline
namespace device {
#include "weft/detail/cuda_cut.inc"
}
#undef WEFT_DEVICE

using namespace weft::runtime::cuda;
namespace parts = device::weft::parts;

namespace {

using Numbers = std::mt19937;
std::int64_t between(Numbers& numbers, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(numbers);
}

// What the blocks of a launch do, one block after the other. Empty where all is right, else what is wrong.
std::string wrong(const Cut& of_host, int steps, int blocks) {
  const auto cut = std::bit_cast<device::weft::Cut>(of_host);
  const auto tiles = static_cast<std::size_t>(cut.tiles);
  std::vector<std::vector<int>> part_of_step(tiles, std::vector<int>(static_cast<std::size_t>(steps), -1));
  std::vector<int> found(tiles), said(tiles);
  std::vector<char> is_taken(static_cast<std::size_t>(slots(of_host)));
  const auto next = [&](int number) { return parts::next_number(cut, steps, number, blocks); };
  for (int block = 0; block < blocks; ++block)
    for (int number = next(block); number < cut.count; number = next(number + blocks)) {
      const parts::Segment it = parts::segment(cut, steps, number);
      if (it.tile < 0 || it.tile >= cut.tiles || it.steps < 1 || it.begin < 0 || it.begin + it.steps > steps)
        return "beyond the tiles";
      const auto tile = static_cast<std::size_t>(it.tile);
      for (int step = it.begin; step < it.begin + it.steps; ++step) {
        int& part = part_of_step[tile][static_cast<std::size_t>(step)];
        if (part != -1) return "a step is done twice";
        part = it.part;
      }
      ++found[tile], said[tile] = it.parts;
      if (it.part < 0 || it.part >= it.parts) return "no such part";
      if (it.parts == 1) continue;
      const auto slot = static_cast<std::size_t>(it.first_slot + it.part * cut.of_group);
      if (it.tile < cut.whole || slot >= is_taken.size() || is_taken[slot]) return "a slot is not its own";
      is_taken[slot] = 1;
    }
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    if (found[tile] != said[tile]) return "parts are not as many as said";
    int before = 0;
    for (const int part : part_of_step[tile]) {
      if (part < before) return "a step is missing, or parts are not in the order of k";
      before = part;
    }
  }
  return "";
}

TEST_CASE("a cut of k: each step of each tile is done once, and its sums have memory of their own") {
  Numbers numbers(1);
  for (int i = 0; i < 4000; ++i) {
    const ProductTiles tiles{between(numbers, 1, 9), between(numbers, 1, 9), between(numbers, 1, 3),
                             between(numbers, 1, 70)};
    const std::int64_t whole = i % 3 ? 0 : between(numbers, 0, tiles.count() - 1),
                       of_group = between(numbers, 1, tiles.count() - whole),
                       of_unit = between(numbers, 1, 2 * tiles.steps + 1), blocks = between(numbers, 1, 300);
    const Cut cut = make_cut(tiles, whole, of_group, of_unit, blocks);
    CAPTURE(whole);
    CAPTURE(of_group);
    CAPTURE(of_unit);
    CHECK(wrong(cut, static_cast<int>(tiles.steps), static_cast<int>(between(numbers, 1, 300))) == "");
  }
}

TEST_CASE("a cut of k: those that are chosen are right, fit the counters, and are none where tiles fill the device") {
  Numbers numbers(2);
  for (int i = 0; i < 1000; ++i) {
    const ProductTiles tiles{between(numbers, 1, 24), between(numbers, 1, 24), i % 4 ? 1 : between(numbers, 1, 5),
                             between(numbers, 1, 300)};
    for (const CutCosts* costs : {&cut_by_warps, &cut_on_hopper}) {
      const Cut cut = best_cut(tiles, *costs);
      CHECK(cut.tiles == tiles.count());
      if (cut.groups == 0) continue;
      CHECK(wrong(cut, static_cast<int>(tiles.steps), static_cast<int>(132 * costs->blocks)) == "");
      CHECK((cut.tiles - cut.whole) * costs->joins * counters_of_join <= most_block_counters);
    }
  }
  const auto is_cut = [](const ProductTiles& tiles, const CutCosts& costs) {
    return best_cut(tiles, costs).groups > 0;
  };
  CHECK(is_cut({.down = 6, .across = 3, .items = 1, .steps = 256}, cut_on_hopper));     // 768 x 768 x 16384
  CHECK(!is_cut({.down = 32, .across = 16, .items = 1, .steps = 64}, cut_on_hopper));   // 4096 x 4096 x 4096
  CHECK(!is_cut({.down = 128, .across = 12, .items = 1, .steps = 12}, cut_on_hopper));  // 16384 x 3072 x 768
  CHECK(!is_cut({.down = 4, .across = 2, .items = 1, .steps = 8}, cut_on_hopper));      // 512 x 512 x 512
  CHECK(!is_cut({.down = 8, .across = 8, .items = 192, .steps = 2}, cut_by_warps));     // 192 of 1024 x 1024 x 64
  CHECK(!is_cut({.down = 1 << 10, .across = 1 << 10, .items = 1, .steps = 1 << 24}, cut_on_hopper));
}

}  // namespace
