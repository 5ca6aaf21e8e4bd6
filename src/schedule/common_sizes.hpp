// Kernels of the host that differ in sizes alone. Runs on all kernels that are compiled together, once they are
// scheduled. In: kernels. Out: those that are alike, with a slot for each number in which they differ, so that one
// function serves them all.
//
// What shapes a loop stays a number: windows, small strides of the lanes, divisors, whether the lanes' axis is of whole
// vectors or shorter than one. So do the bounds of the inner loops of a kernel of much work in short rows, which slots
// would slow down.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft {

// In the place of each kernel: the one over slots, or nothing where it stays as it is.
std::vector<std::optional<loop::Kernel>> with_common_sizes(std::span<const loop::Kernel* const> kernels);

// The same for the kernels of schedules whose memory is planned, but for those in bodies of loops.
void share_functions(std::span<Schedule* const> schedules, const Providers& providers);

}  // namespace weft
