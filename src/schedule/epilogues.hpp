// Products and the pointwise kernels that read them become one step, where a provider does both at once. In: a schedule
// in its final order, before memory is planned. Out: the same with fewer steps; a product that nobody else reads has no
// memory any more.
#pragma once
#include "schedule/schedule.hpp"

namespace weft {

void join_epilogues(Schedule& schedule, const Providers& providers, Device device);

}  // namespace weft
