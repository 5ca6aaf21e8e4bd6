// The order of steps. In: a schedule whose steps are in an order that respects every dependence. Out: the same steps
// in one that takes less memory at once, where one is found; each step after what it reads, checks and other effects
// as they were; updates of state after all steps that may fail. Runs before memory is planned.
#pragma once
#include <span>

#include "schedule/schedule.hpp"
#include "schedule/score.hpp"

namespace weft {

// The first `fixed` steps stay where they are: checks, and what is computed for them. Symbolic sizes count as their
// hints. The given order is kept, but for updates, where no other takes less, and on a device where little is in use.
// `ranks`: by step, the greatest rank of what it computes; one of the orders that are tried follows them. Empty: none.
void order_steps(Schedule& schedule, std::size_t fixed, std::span<const std::uint32_t> ranks, const Score& score,
                 Device device);

}  // namespace weft
