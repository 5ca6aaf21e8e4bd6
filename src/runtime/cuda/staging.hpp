// Copies between a device and ordinary memory of the host, by way of page-locked memory: several threads move pieces
// to or from there while the device copies others. The driver by itself does that with one thread. In: a copy that is
// queued on the device's stream. Out: the copy; the host's side has been read, or written, when it returns.
#pragma once
#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

// Whether the copy is large enough, and this memory of the host is not page-locked itself.
bool is_staged(const void* on_host, std::size_t bytes);
// False where the host has no page-locked memory left: nothing was copied.
bool copy_up_staged(DeviceState& device, Pointer to, const std::byte* from, std::size_t bytes);
bool copy_down_staged(DeviceState& device, std::byte* to, Pointer from, std::size_t bytes);

}  // namespace weft::runtime::cuda
