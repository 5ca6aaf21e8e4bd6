// Where temporaries lie: offsets in one arena, or in the memory of results that are written later. In: steps in their
// order, donations. Out: offsets, the arena's size. Invariant: two temporaries, or a temporary and a result, share
// bytes only when one is dead, or waits in the host's memory, before the other is written and as long as that lives, or
// is overwritten element by element by the step that reads it last.
#pragma once
#include <vector>

#include "base/gaps.hpp"
#include "schedule/schedule.hpp"

namespace weft {

// Bytes of a temporary that lies in a result, whose address each call sets, or that another one overwrites: of less
// there is little. On a device steps that share no memory run side by side, which is worth more.
constexpr std::int64_t least_shared(Device device) { return device.type == Device::Type::cpu ? 4096 : 1 << 20; }

// By buffer: the steps that have it.
std::vector<Lifetime> lifetimes(const Schedule& schedule);

// `in_results`: a result that takes no argument's memory may hold temporaries until it is written.
void place_temporaries(Schedule& schedule, const std::vector<Lifetime>& lives, Device device, bool in_results);

}  // namespace weft
