// From a schedule to a launch plan. In: a schedule whose memory is planned, the functions that its steps begin with.
// Out: the plan's buffers, constants, launches and donations, as runtime::prepare() and a loop's step take them.
#pragma once
#include "runtime/plan.hpp"
#include "schedule/schedule.hpp"

namespace weft {

// `entries`: of each step. `symbols`: those of the graph.
runtime::Plan make_plan(const Schedule& schedule, std::span<const runtime::EntryPoint> entries, Device device,
                        std::size_t arguments, std::size_t results, std::size_t symbols,
                        std::shared_ptr<const runtime::Functions> functions);

}  // namespace weft
