// The stages after the passes. In: a graph, then all graphs of a device. Out: its schedule and memory, source text,
// functions, a launch plan. Each gives the size of its result (StageReport).
#pragma once
#include "pipeline/compilation.hpp"

namespace weft {

std::size_t schedule(Compilation& compilation, Device device);
std::size_t memory(Compilation& compilation, Device device);
// What a call takes beside arguments and constants, as PlanMemory::taken() says it for one thread, of a graph whose
// memory is planned and whose steps are not compiled. On a device the temporaries alone.
std::int64_t taken_bytes(Compilation&& compilation, Device device);
// What the steps call, as sources.
std::size_t generate(Target& target);
// By the C++ compiler or NVRTC, or from the cache: the images of all targets on one device side by side, by as many
// threads as there are processors.
std::size_t compile(std::span<Target> targets);
// The plan: buffers, launches, donations, made ready to run.
std::size_t launches(Target& target);

}  // namespace weft
