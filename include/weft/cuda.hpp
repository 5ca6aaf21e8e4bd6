// The memory of CUDA devices: what is in use, what is kept for later, and a limit. weft/weft.hpp does not include it.
//   cuda::reset_peak_memory();
//   step(model, optimizer, x, y);
//   std::cout << cuda::memory_stats().peak << " bytes at most\n";
// Of all devices together, the host too: MemoryMeter (weft/memory.hpp). What a call will take is planned before it
// runs: explain(step, model, optimizer, x, y).memory.
#pragma once
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft::cuda {

// Of one device, in bytes, but for `blocks`. What libraries and loaded kernels take by themselves is not counted.
struct MemoryStats {
  std::int64_t in_use = 0;         // of tensors, of temporaries that compiled calls keep, and of workspaces
  std::int64_t peak = 0;           // the most of in_use since the start or reset_peak_memory
  std::int64_t reserved = 0;       // what the driver has given: what is in use, and what is kept for later blocks
  std::int64_t peak_reserved = 0;  // the most of reserved, likewise
  std::int64_t blocks = 0;         // how many are in use
  std::int64_t limit = 0;          // 0: none
};

// What follows throws Error where there is no such device, or no driver; the sentence says what is missing.

// As of now. Memory that queued work still reads and nobody holds any more counts as kept.
MemoryStats memory_stats(Device device = Device::cuda());
// peak and peak_reserved are what is in use and reserved now, and rise from there.
void reset_peak_memory(Device device = Device::cuda());
// Beyond so many bytes in use a call throws OutOfMemory, its state as before, and what is kept beyond it is given back
// to the driver. 0: no limit. The first value is that of the variable WEFT_CUDA_MEMORY_LIMIT.
void set_memory_limit(std::int64_t bytes, Device device = Device::cuda());
// Waits for the device's queued work, and gives the driver, and so other programs, what is kept. Temporaries that
// compiled functions keep between calls are in use, and stay.
void empty_cache(Device device = Device::cuda());

}  // namespace weft::cuda
