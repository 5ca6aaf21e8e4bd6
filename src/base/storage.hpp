// Memory that holds values, on any device. In: bytes, a device, a queue. Out: a counted block. Invariant: a count of
// one proves that no other handle or view sees the block, which is what donation asks.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "weft/dtype.hpp"

namespace weft {

namespace runtime::cuda {
struct Stream;
}

// Where work is ordered. Allocation, launch and copy take one; null is the device's default: on the CPU none, since
// work is done when its call returns; on CUDA the device's stream.
struct Queue {
  Device device;
  runtime::cuda::Stream* stream = nullptr;  // null on the CPU
  std::atomic<std::uint64_t> latest{0};     // number of the latest piece of work; the first has 1
};

struct Storage {
  std::atomic<std::uint32_t> references{1};
  Device device;
  bool borrowed = false;  // foreign memory: never donated, never written
  void* data = nullptr;
  std::size_t bytes = 0;               // usable size
  std::atomic<Queue*> queue{nullptr};  // the queue of its last use, and that use's number there
  std::atomic<std::uint64_t> last_use{0};
  void (*free)(Storage*) = nullptr;  // gives the block back to whoever made it
};

// At least `bytes` of 64-byte aligned memory, contents undefined. From the device's free lists: no system call when a
// block of the size class was freed before. Throws OutOfMemory.
Storage* allocate(Device device, std::size_t bytes, Queue* queue = nullptr);
// Told of each block that allocate() gives, and of each that comes back by release(), with minus; null: nobody is. It
// must not throw. Static objects of a program may ask for memory before Weft's own have been made, and with them who
// listens: where WEFT_TRACE is set, the bytes are summed up until then.
using ToldOfStorage = void (*)(std::int64_t bytes);
void sum_up_storage(std::int64_t bytes) noexcept;
inline constinit std::atomic<ToldOfStorage> told_of_storage{sum_up_storage};
// From here on this one is told; the bytes in use, where they were summed up so far.
std::int64_t tell_of_storage(ToldOfStorage told) noexcept;
// Gives the system what the CPU's free lists keep: those of the process and of this thread. Before memory is refused.
void give_back_cached_memory();
inline void retain(Storage* storage) { storage->references.fetch_add(1, std::memory_order_relaxed); }
void release(Storage* storage) noexcept;
// The queue's next piece of work reads or writes these blocks, of which some may be null.
void note_work(Queue* queue, std::initializer_list<std::span<Storage* const>> blocks);
inline bool unique(const Storage* storage) {
  return !storage->borrowed && storage->references.load(std::memory_order_acquire) == 1;
}

class Work;
class RecordedWork;
class Marks;
struct Ordered;

// What a device must offer; the CPU's is built in, CUDA's is registered when it has been loaded.
struct DeviceInterface {
  Storage* (*allocate)(Device device, std::size_t bytes, Queue* queue);
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, Queue* queue);
  // Waits for all that was queued. Throws the user's Error where a check of this thread's calls has failed.
  void (*synchronize)(Device device);
  // Readies the device for what this thread does next.
  void (*enter)(Device device);
  // The same for a call, with its queue. Throws where a check of this thread's calls has failed since: the failure is
  // told once, so who catches Errors enters, and begins no call. What follows is null for the CPU.
  Queue* (*begin_call)(Device device);
  // This thread's word on the device: not 0 once a check of its calls has failed, until that has been thrown.
  void* (*error_word)(Device device);
  // The steps, not done but recorded.
  std::unique_ptr<RecordedWork> (*record)(Device device, std::span<const Ordered> steps, const Work& work);
  // Marks on the device's queue.
  std::unique_ptr<Marks> (*marks)(Device device);
};
DeviceInterface& device_interface(Device::Type type);

}  // namespace weft
