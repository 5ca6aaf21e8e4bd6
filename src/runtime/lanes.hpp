// Which steps of a plan can run side by side. In: what memory each step reads and writes, in order. Out: a lane for
// each, and the steps of other lanes that it comes after; every step comes after all that it depends on.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/work.hpp"

namespace weft::runtime {

struct Touched {
  std::uintptr_t begin, end;
  bool written;
};

// What a collective touches besides: they run one after the other, in a lane of their own, the last. Who waits for none
// of them never waits.
inline constexpr Touched by_collectives{1, 2, true};
// All that a step touches which does nothing (runtime/idle.hpp). Its lane is -1.
inline constexpr Touched by_idle{UINTPTR_MAX - 1, UINTPTR_MAX, false};

// A collective that moves more than twice as much as the one after it is what takes long: steps after it come after
// what it waits for, also in other lanes (hasten_large of schedule/order.cpp has put there what can wait). More steps
// than most_ordered are one lane, but for collectives.
inline constexpr std::size_t most_ordered = 512;
std::vector<Ordered> assign_lanes(std::span<const std::vector<Touched>> steps);

}  // namespace weft::runtime
