// Copies between a device and page-locked memory of the host that run beside the work of the device's queue, on streams
// of their own, one for each direction. In: the queue, on which everything that a copy waits for is queued before it
// begins, and everything that waits for it after wait(). Out: the copy; when it is done. A stream does one copy after
// the other, so calls may share an Arrival: what a later one queues is done later.
#pragma once
#include <mutex>

#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

// When the copy of one place of a plan is done. It asks nothing of the driver before it is used.
class Arrival {
 public:
  explicit Arrival(bool to_host) : to_host_(to_host) {}
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  void begin(DeviceState& state, void* to, const void* from, std::size_t bytes, const Queue* queue);
  // What is queued from here on comes after the copy.
  void wait(DeviceState& state, const Queue* queue);

 private:
  // What is recorded has events and streams of its own, as the lanes of a recording do.
  struct Moments {
    Event *before = nullptr, *after = nullptr;
  };
  Moments& moments(const DeviceState& state, const Queue* queue) { return queue == &state.queue ? queued_ : recorded_; }

  const bool to_host_;
  std::mutex mutex_;
  Moments queued_, recorded_;
};

// Waits for all copies that have begun.
void end_copies(Device device) noexcept;

// Page-locked memory of the host, for copies from and to the device. It counts as no memory of the device. Throws
// OutOfMemory.
Storage* allocate_on_host(Device device, std::size_t bytes);

}  // namespace weft::runtime::cuda
