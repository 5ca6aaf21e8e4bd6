// The GPU that kernels are laid out for where their layout decides in which order numbers are added, whatever the GPU
// at hand: that order, and so the roundings, must follow from sizes alone. Launches that change no order ask the
// device.
#pragma once
#include <cstdint>

namespace weft::large_device {

// Of an H100; registers and threads of each.
inline constexpr std::int64_t multiprocessors = 132, registers = 65536;
inline constexpr std::int64_t threads = registers / 64;  // where each has 64 registers

}  // namespace weft::large_device
