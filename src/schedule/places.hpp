// Where temporaries lie: offsets in one arena, or in the memory of results that are written later. In: steps in their
// order, donations. Out: offsets, the arena's size. Invariant: two temporaries, or a temporary and a result, share
// bytes only when one is dead, or waits in the host's memory, before the other is written and as long as that lives, or
// is overwritten element by element by the step that reads it last.
#pragma once
#include <vector>

#include "schedule/schedule.hpp"

namespace weft {

// The first and the last step that has the buffer; -1: none does.
struct Lifetime {
  int first = -1, last = -1;
  int leaves_at = -1, returns_at = -1;  // between these steps it takes no memory; -1: it always does

  // Whether both never take memory at once.
  bool is_apart_from(const Lifetime& other) const {
    const auto apart = [&](int begin, int end) {
      if (end < other.first || other.last < begin) return true;
      return other.leaves_at >= 0 && other.leaves_at < begin && end < other.returns_at;
    };
    return leaves_at < 0 ? apart(first, last) : apart(first, leaves_at) && apart(returns_at, last);
  }
};
std::vector<Lifetime> lifetimes(const Schedule& schedule);

// `in_results`: a result that takes no argument's memory may hold temporaries until it is written.
void place_temporaries(Schedule& schedule, const std::vector<Lifetime>& lives, Device device, bool in_results);

}  // namespace weft
