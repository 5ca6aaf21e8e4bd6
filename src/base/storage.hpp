// Memory that holds values, on any device. In: bytes, a device, a queue. Out: a counted block. Invariant: a count of
// one proves that no other handle or view sees the block, which is what donation asks.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft {

// Where work is ordered: the CPU runs at once (null); CUDA has streams. Allocation, release and launch take one.
struct Queue;

struct Storage {
  std::atomic<std::uint32_t> references{1};
  Device device;
  bool borrowed = false;  // foreign memory: never donated, never written
  void* data = nullptr;
  std::size_t bytes = 0;   // usable size
  Queue* queue = nullptr;  // the queue of its last use, and that use's number there
  std::uint64_t last_use = 0;
  void (*free)(Storage*) = nullptr;  // gives the block back to whoever made it
};

// At least `bytes` of 64-byte aligned memory, contents undefined. From the device's free lists: no system call when a
// block of the size class was freed before. Throws OutOfMemory.
Storage* allocate(Device device, std::size_t bytes, Queue* queue = nullptr);
inline void retain(Storage* storage) { storage->references.fetch_add(1, std::memory_order_relaxed); }
void release(Storage* storage) noexcept;
inline bool unique(const Storage* storage) {
  return !storage->borrowed && storage->references.load(std::memory_order_acquire) == 1;
}

// What a device must offer; the CPU's is built in, CUDA's is registered when it has been loaded.
struct DeviceMemory {
  Storage* (*allocate)(Device device, std::size_t bytes, Queue* queue);
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, Queue* queue);
  void (*synchronize)(Device device);
};
DeviceMemory& device_memory(Device::Type type);

}  // namespace weft
