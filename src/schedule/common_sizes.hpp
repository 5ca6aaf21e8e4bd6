// Shares one function among kernels of the host that differ only in sizes, and among those of a device that differ only
// in the one element which all points read: the number that an optimizer has for a parameter. Runs on all kernels that
// are compiled together, after scheduling. In: kernels. Out: the kernels that are alike, with a size slot for each
// number in which they differ.
//
// A number that shapes a loop stays a constant: the size of a window, a small stride of the lanes, a divisor, and
// whether the vector axis has only whole vectors or is shorter than one. The bounds of inner loops also stay constants
// if a kernel does much work in short rows, because slots would make it slower.
//
// Two mechanisms share kernels, because they share different things. Here launches stay apart and may differ in any
// size: only the function becomes one, so that less is compiled. On a device independent kernels become one launch over
// a table of buffers, which is a decision of the scheduler, made before steps have an order: with_any_first_extent() of
// kernel_axes.hpp, by the first extent alone, since all others shape the teams of threads.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft {

// For each kernel its form with slots, or nothing if it stays as it is.
std::vector<std::optional<loop::Kernel>> with_common_sizes(std::span<const loop::Kernel* const> kernels);

// The same of a device.
std::vector<std::optional<loop::Kernel>> with_common_elements(std::span<const loop::Kernel* const> kernels);

// The same for all kernels of schedules whose memory is planned, except those in bodies of loops and of tables.
void share_functions(std::span<Schedule* const> schedules, Device device, const Providers& providers);

}  // namespace weft
