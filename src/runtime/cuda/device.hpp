// CUDA devices: the primary context, a queue (one stream, on which all threads' work of a device is ordered), memory
// from free lists that follow the stream's order. In: a Device. Out: its state, made at the first use. Invariant: a
// block is given out again while work that reads it may still be queued, which the one stream makes right.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/device_target.hpp"
#include "base/storage.hpp"
#include "base/work.hpp"
#include "runtime/cuda/checks.hpp"
#include "runtime/cuda/libraries.hpp"

namespace weft::runtime::cuda {

struct DeviceState {
  Device device;
  Context* context = nullptr;
  Queue queue;
  std::string name;
  int multiprocessors = 0;
  ComputeCapability capability;
  int shared_of_block = 0;               // bytes of shared memory that a block may have
  const DeviceTarget* target = nullptr;  // what its code is made for
  // Whether kernels and launches may have it: code for this device does, and the driver what it takes.
  bool has(DeviceInstruction instruction) const;
  CheckWords check_words;
  // Held while work that uses memory which all calls share, such as a library's workspace, is put on the queue: between
  // the kernels of one piece no other piece has its own.
  std::mutex in_one_piece;
  // Work is recorded on streams of its own, so that what other threads queue meanwhile is not part of it.
  std::mutex mutex;
  std::array<Queue, most_lanes> recorded;
  // Of each lane while it is recorded: whether the latest work there is a kernel that waits (begin_launch of
  // device_function.hpp); whether the step that is put there now follows such a kernel and no other lane.
  std::array<bool, most_lanes> ends_in_kernel{}, follows_kernel{};
  // What the recording that is made needs as long as it lives.
  std::vector<std::shared_ptr<const void>> kept_by_recording;

  // Whether what is put there is recorded now, and done later.
  bool is_recorded(const Queue* on) const { return on >= recorded.data() && on < recorded.data() + recorded.size(); }
  // 0 but for work that runs beside others when it is replayed.
  std::size_t lane_of(const Queue* on) const {
    return is_recorded(on) ? static_cast<std::size_t>(on - recorded.data()) : 0;
  }
  // Of what nobody else may keep: a library's plan, whose kernels and tables go with it.
  void keep_while_recorded(const Queue* on, const std::shared_ptr<const void>& it) {
    if (is_recorded(on)) kept_by_recording.push_back(it);
  }
};

// How many there are. Throws Error where there is no driver.
int device_count();
// Whether use() would find it, with a compute capability that Weft takes. Makes no context of the device.
bool can_use(Device device) noexcept;

// The device's state, its context current on this thread. Throws Error that says what is missing.
DeviceState& use(Device device);
// The same; null where there is no such device, or none that can be used. Throws OutOfMemory alone.
DeviceState* find_device(Device device);

// Waits until everything that was queued on the device is done; errors of kernels come out here.
void wait(Device device);
// The same for what queued work may still use. Nothing is thrown where the driver has failed: nothing runs any more.
void wait_before_destroying(Device device) noexcept;
// As wait(); throws the user's Error where a check of this thread's calls has failed, once.
void synchronize(Device device);

}  // namespace weft::runtime::cuda
