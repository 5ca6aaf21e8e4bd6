// Counters with which the blocks of a launch find out which of them is the last: products whose blocks share k. In: the
// queue of the launch. Out: numbers on the device, zero before the launch and after it.
#pragma once
#include <cstdint>

#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

inline constexpr std::int64_t most_block_counters = 1024;  // of a launch

// Launches that may run side by side, on different lanes, have some each; those of a lane are one after the other. The
// first call is not made while work is recorded. They stay.
std::uint32_t* block_counters(const DeviceState& device, const Queue* queue);

}  // namespace weft::runtime::cuda
