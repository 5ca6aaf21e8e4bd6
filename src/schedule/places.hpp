// Where temporaries lie: offsets in one arena, or in the memory of results that are written later. In: steps in their
// order, donations. Out: offsets, the arena's size. Invariant: two temporaries, or a temporary and a result, share
// bytes only when one is dead before the other is written, or is overwritten element by element by the step that reads
// it last.
#pragma once
#include <vector>

#include "schedule/schedule.hpp"

namespace weft {

// The first and the last step that has the buffer; -1: none does.
struct Lifetime {
  int first = -1, last = -1;
};
std::vector<Lifetime> lifetimes(const Schedule& schedule);

// `in_results`: a result that takes no argument's memory may hold temporaries until it is written.
void place_temporaries(Schedule& schedule, const std::vector<Lifetime>& lives, Device device, bool in_results);

}  // namespace weft
