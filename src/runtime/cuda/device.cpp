#include "runtime/cuda/device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/between_devices.hpp"
#include "base/ending.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/once.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/per_device.hpp"
#include "runtime/cuda/recording.hpp"
#include "runtime/cuda/staging.hpp"

namespace weft::runtime::cuda {
namespace {

struct Slot {
  Once once;
  std::uint32_t generation = 0;  // of the process that opened it
  DeviceState state;
  DeviceMemory memory;
};

Slot& slot_of(Device device) {
  static constinit PerDevice<Slot> all;
  return all.of(device);
}

Pointer address(const void* data) { return reinterpret_cast<Pointer>(data); }

void free_block(Storage* storage) {
  auto* block = static_cast<DeviceBlock*>(storage);
  try {
    const NotEnding working;
    slot_of(block->device).memory.give(block->data, block->capacity);
  } catch (const Error&) {  // the process ends, and its memory with it
  }
  delete block;
}

Storage* allocate(Device device, std::size_t bytes, Queue* queue) {
  const NotEnding working;
  DeviceState& state = use(device);
  auto block = std::make_unique<DeviceBlock>();
  block->capacity = DeviceMemory::capacity(bytes);
  block->data = slot_of(device).memory.take(block->capacity);
  block->device = device;
  block->bytes = block->capacity;
  block->queue.store(queue ? queue : &state.queue, std::memory_order_relaxed);
  block->free = free_block;
  return block.release();
}

// Lets copies of each device read and write memory of the other.
void share(Device a, Device b) {
  slot_of(a).memory.share(b.index);
  slot_of(b).memory.share(a.index);
}

class DeviceMoment final : public Moment {
 public:
  explicit DeviceMoment(Device device) : state_(use(device)) {
    constexpr unsigned no_timing = 2;
    check(driver().cuEventCreate(&event_, no_timing), "cuEventCreate");
  }
  DeviceMoment(const DeviceMoment&) = delete;
  DeviceMoment& operator=(const DeviceMoment&) = delete;
  ~DeviceMoment() override { driver().cuEventDestroy_v2(event_); }
  void set() override {
    use(state_.device);
    check(driver().cuEventRecord(event_, state_.queue.stream), "cuEventRecord");
  }
  void hold(Device other) const override {
    check(driver().cuStreamWaitEvent(use(other).queue.stream, event_, 0), "cuStreamWaitEvent");
  }

 private:
  DeviceState& state_;
  Event* event_ = nullptr;
};
std::unique_ptr<Moment> moment(Device device) { return std::make_unique<DeviceMoment>(device); }

// The memory that is read is not used again before, as that is work of the same device.
void copy_between(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
                  std::span<Storage* const> blocks) {
  share(from_device, to_device);
  Queue& queue = use(from_device).queue;
  note_work(&queue, {blocks});
  check(driver().cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, queue.stream), "cuMemcpyDtoDAsync");
}

void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, Queue* queue) {
  if (bytes == 0) return;
  const NotEnding working;
  const bool down = to_device.type == Device::Type::cpu, up = from_device.type == Device::Type::cpu;
  DeviceState& state = use(down ? from_device : to_device);
  WEFT_CHECK(!queue || queue->device == state.device, "a copy on a queue of a device that takes no part in it");
  Stream* stream = (queue ? queue : &state.queue)->stream;
  if ((up || down) && stream == state.queue.stream && is_staged(up ? from : to, bytes) &&
      (up ? copy_up_staged(state, address(to), static_cast<const std::byte*>(from), bytes)
          : copy_down_staged(state, static_cast<std::byte*>(to), address(from), bytes)))
    return;
  if (up) {
    check(driver().cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
  } else if (down) {
    check(driver().cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
  } else {
    if (to_device != from_device) {  // whoever used the place before is waited for, and who reads it there waits
      DeviceMoment before(to_device), after(from_device);
      before.set(), before.hold(from_device);
      copy_between(to, to_device, from, from_device, bytes, {});
      return after.set(), after.hold(to_device);
    }
    check(driver().cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
  }
}

void enter(Device device) { use(device); }
Queue* begin_call(Device device) {
  DeviceState& state = use(device);
  throw_failed_check(state, /*waits=*/false);
  return &state.queue;
}

void* error_word(Device device) { return own_check_word(use(device)); }

// Events on the device's stream. hold() lets the stream wait for a word in the host's memory, which release() sets.
class StreamMarks final : public Marks {
 public:
  explicit StreamMarks(Device device) : state_(use(device)) {
    constexpr unsigned portable_and_mapped = 3;
    void* word = nullptr;
    check(driver().cuMemHostAlloc(&word, sizeof(std::uint32_t), portable_and_mapped), "cuMemHostAlloc");
    word_ = static_cast<volatile std::uint32_t*>(word);
    *word_ = 1;
  }
  StreamMarks(const StreamMarks&) = delete;
  StreamMarks& operator=(const StreamMarks&) = delete;
  ~StreamMarks() override {
    release();
    driver().cuStreamSynchronize(state_.queue.stream);
    for (Event* event : events_) driver().cuEventDestroy_v2(event);
    driver().cuMemFreeHost(const_cast<std::uint32_t*>(word_));
  }

  void hold() override {
    Pointer address = 0;
    check(driver().cuMemHostGetDevicePointer_v2(&address, const_cast<std::uint32_t*>(word_), 0),
          "cuMemHostGetDevicePointer");
    constexpr unsigned at_least = 0;
    *word_ = 0;
    held_ = 0;
    if (driver().cuStreamWaitValue32_v2(state_.queue.stream, address, 1, at_least) != 0) return release();  // it can't
    constexpr std::chrono::milliseconds longest(100);
    const auto wait = [this, longest](const std::stop_token& released) {
      std::unique_lock lock(mutex_);
      woken_.wait_for(lock, released, longest, [] { return false; });
      *word_ = 1;
    };
    releasing_ = std::jthread(wait);
  }
  void release() noexcept override {
    *word_ = 1;
    releasing_ = {};
  }
  void put() override {
    Event* event = nullptr;
    check(driver().cuEventCreate(&event, 0), "cuEventCreate");
    events_.push_back(event);
    check(driver().cuEventRecord(event, state_.queue.stream), "cuEventRecord");
    if (++held_ == most_held) release();
  }
  std::vector<double> seconds() override {
    release();
    check(driver().cuStreamSynchronize(state_.queue.stream), "cuStreamSynchronize");
    std::vector<double> all;
    for (Event* event : events_) {
      float milliseconds = 0;
      check(driver().cuEventElapsedTime(&milliseconds, events_.front(), event), "cuEventElapsedTime");
      all.push_back(milliseconds / 1e3);
    }
    return all;
  }

 private:
  static constexpr int most_held = 200;  // marks: the driver's queue takes about a thousand pieces of work
  DeviceState& state_;
  std::vector<Event*> events_;
  volatile std::uint32_t* word_ = nullptr;
  int held_ = 0;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread releasing_;
};
std::unique_ptr<Marks> marks(Device device) { return std::make_unique<StreamMarks>(device); }

void require_device(Device device) {
  const int count = std::min(device_count(), most_devices);
  if (device.index >= count)
    fail("cuda", {}, "there is no device cuda:", static_cast<int>(device.index), ": the driver finds ", count,
         count == 1 ? " device" : " devices");
}

void open(Slot& slot, Device device) {
  const Driver& call = driver();
  require_device(device);
  DeviceState& state = slot.state;
  int ordinal = 0;
  check(call.cuDeviceGet(&ordinal, device.index), "cuDeviceGet");
  char name[256] = {};
  check(call.cuDeviceGetName(name, sizeof name, ordinal), "cuDeviceGetName");
  check(call.cuDeviceGetAttribute(&state.multiprocessors, attribute_multiprocessors, ordinal), "cuDeviceGetAttribute");
  check(call.cuDeviceGetAttribute(&state.capability.major, attribute_major, ordinal), "cuDeviceGetAttribute");
  check(call.cuDeviceGetAttribute(&state.capability.minor, attribute_minor, ordinal), "cuDeviceGetAttribute");
  check(call.cuDeviceGetAttribute(&state.shared_of_block, attribute_shared_of_block, ordinal), "cuDeviceGetAttribute");
  if (const ComputeCapability own = state.capability; own < least_capability)
    fail("cuda", {}, name, " has compute capability ", own.major, ".", own.minor, ", Weft needs ",
         least_capability.major, ".", least_capability.minor);
  check(call.cuDevicePrimaryCtxRetain(&state.context, ordinal), "cuDevicePrimaryCtxRetain");
  check(call.cuCtxSetCurrent(state.context), "cuCtxSetCurrent");
  constexpr unsigned non_blocking = 1;
  check(call.cuStreamCreate(&state.queue.stream, non_blocking), "cuStreamCreate");
  for (Queue& lane : state.recorded) {
    check(call.cuStreamCreate(&lane.stream, non_blocking), "cuStreamCreate");
    lane.device = device;
  }
  slot.memory.open(device, ordinal, state.queue.stream);
  state.check_words.open(state.queue.stream);
  state.device = state.queue.device = device;
  state.name = name;
  state.target = target_for(state.capability);
  slot.generation = process_generation();
  wait_before_end();  // the context asks to be told of the end
  register_failed_checks(free_block);
  static constexpr BetweenDevices between{moment, copy_between};
  between_devices.store(&between, std::memory_order_release);
  device_interface(Device::Type::cuda) = {allocate, copy, synchronize, enter, begin_call, error_word, record, marks};
}

}  // namespace

bool DeviceState::has(DeviceInstruction instruction) const {
  if (!target->has(instruction)) return false;
  if (instruction == DeviceInstruction::tensor_copy) return driver().cuTensorMapEncodeTiled;
  if (instruction == DeviceInstruction::cluster || instruction == DeviceInstruction::dependent_launch)
    return driver().cuLaunchKernelEx;
  return true;
}

int device_count() {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

bool can_use(Device device) noexcept {
  try {
    if (device.type != Device::Type::cuda || device.index >= std::min(device_count(), most_devices)) return false;
    int ordinal = 0, major = 0;
    check(driver().cuDeviceGet(&ordinal, device.index), "cuDeviceGet");
    check(driver().cuDeviceGetAttribute(&major, attribute_major, ordinal), "cuDeviceGetAttribute");
    return major >= least_capability.major;
  } catch (const std::exception&) {
    return false;
  }
}

DeviceState& use(Device device) {
  WEFT_CHECK(device.type == Device::Type::cuda);
  if (device.index >= most_devices) [[unlikely]]
    require_device(device);
  Slot& slot = slot_of(device);
  slot.once([&] { open(slot, device); });
  if (slot.generation != process_generation()) [[unlikely]]  // some calls of the driver give no error
    fail("cuda", {}, "cuda:", static_cast<int>(device.index),
         " was used before this process was forked: CUDA does not work in the child. Fork before the first use of a "
         "device, or start the program anew (exec)");
  Context* current = nullptr;  // the program may have made another one current
  check(driver().cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current != slot.state.context) check(driver().cuCtxSetCurrent(slot.state.context), "cuCtxSetCurrent");
  return slot.state;
}

DeviceState* find_device(Device device) try { return &use(device); } catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {
  return nullptr;
}

DeviceMemory& memory_of(Device device) {
  use(device);
  return slot_of(device).memory;
}

void wait(Device device) {
  const NotEnding working;
  check(driver().cuStreamSynchronize(use(device).queue.stream), "cuStreamSynchronize");
}

void wait_before_destroying(Device device) noexcept try { wait(device); } catch (const Error&) {
}

void synchronize(Device device) {
  const NotEnding working;
  wait(device);
  throw_failed_check(use(device), /*waits=*/true);
}

}  // namespace weft::runtime::cuda
