// A device's memory, from pools of the driver in the order of the device's stream: a block may be given back and out
// again while work that reads it is queued, since what writes it is queued later. A pool reserves chunks of 32 MiB and
// more, and gives one back when nothing in it is in use. So blocks of up to 4 MiB, of which some live long, have a pool
// of their own; and where more would be reserved than a tenth beyond the peak of what was in use, chunks go back first.
// Blocks of up to a MiB come from lists by size, which take no call of the driver. In: bytes. Out: a block, or
// OutOfMemory; what is in use and what is reserved.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/libraries.hpp"
#include "weft/cuda.hpp"

namespace weft::runtime::cuda {

class DeviceMemory {
 public:
  // The device's context is current; `stream` is that of its queue.
  void open(Device device, int ordinal, Stream* stream);

  // As many bytes as a block of so many has.
  static std::size_t capacity(std::size_t bytes);
  // Of a capacity. Throws OutOfMemory beyond the limit, and where the device has no more when all that is kept has been
  // given back.
  void* take(std::size_t capacity);
  void give(void* data, std::size_t capacity) noexcept;

  // Waits for what is queued, and gives the driver what is kept.
  void give_back();
  // Lets the other device's engines copy from here.
  void share(int ordinal);
  void set_limit(std::int64_t bytes) { limit_ = bytes; }
  void reset_peaks();
  weft::cuda::MemoryStats stats() const;

 private:
  std::string name() const;
  void hold(std::size_t capacity);
  void drop(std::size_t capacity) noexcept;
  void* ask(std::size_t capacity);
  void bound_reserved();
  std::int64_t reserved() const;

  Device device_;
  int ordinal_ = 0;
  Stream* stream_ = nullptr;
  std::array<MemoryPool*, 2> pools_ = {};             // of small blocks, of large ones
  std::mutex mutex_;                                  // of what follows
  std::map<std::size_t, std::vector<void*>> blocks_;  // that are kept, by capacity
  std::size_t kept_ = 0;                              // bytes of them
  std::uint64_t shared_with_ = 0;                     // devices, a bit each
  std::atomic<std::int64_t> in_use_ = 0, peak_ = 0, count_ = 0, limit_ = 0;
  std::atomic<std::int64_t> reserved_ = 0, peak_reserved_ = 0;  // when it was asked last; the most so far
};

// The device's state has been made. Throws as use().
DeviceMemory& memory_of(Device device);

}  // namespace weft::runtime::cuda
