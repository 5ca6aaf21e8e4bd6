// Steps that become one, where a provider does both at once: products that read the same, and products and the
// pointwise kernels that read them. In: a schedule in its final order, before memory is planned. Out: the same with
// fewer steps; a product that nobody else reads has no memory any more.
#pragma once
#include "schedule/schedule.hpp"

namespace weft {

// The later one is done where the first one is: what else it reads must be there.
void join_products(Schedule& schedule, const Providers& providers, Device device);
void join_epilogues(Schedule& schedule, const Providers& providers, Device device);

}  // namespace weft
