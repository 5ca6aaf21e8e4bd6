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

#include "base/ending.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/once.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/per_device.hpp"

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

void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, Queue* queue) {
  if (bytes == 0) return;
  const NotEnding working;
  const bool down = to_device.type == Device::Type::cpu, up = from_device.type == Device::Type::cpu;
  DeviceState& state = use(down ? from_device : to_device);
  WEFT_CHECK(!queue || queue->device == state.device, "a copy on a queue of a device that takes no part in it");
  Stream* stream = (queue ? queue : &state.queue)->stream;
  if (up) {
    check(driver().cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
  } else if (down) {
    check(driver().cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
  } else {
    if (to_device != from_device) {
      wait(from_device);
      share(from_device, to_device);
    }
    check(driver().cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
    if (to_device != from_device) wait(to_device);
  }
}

void enter(Device device) { use(device); }
Queue* begin_call(Device device) {
  DeviceState& state = use(device);
  throw_failed_check(state, /*waits=*/false);
  return &state.queue;
}

void* error_word(Device device) { return own_check_word(use(device)); }

// The lanes of a recording that is being made. A step that another lane waits for has an event after it.
class Lanes {
 public:
  Lanes(DeviceState& state, std::span<const Ordered> steps) : state_(state), events_(steps.size() + most_lanes + 1) {
    joined_[0] = true;
    state_.ends_in_kernel.fill(false);
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  ~Lanes() {
    for (Event* event : events_)
      if (event) driver().cuEventDestroy_v2(event);
  }

  void begin() { mark(events_.size() - 1, 0); }
  Queue* queue_for(const Ordered& step) {
    const auto lane = static_cast<std::size_t>(step.lane);
    state_.follows_kernel[lane] = std::exchange(state_.ends_in_kernel[lane], false) && step.after.empty();
    if (!joined_[lane]) wait(lane, events_.size() - 1);
    joined_[lane] = true;
    for (const std::size_t other : step.after) wait(lane, other);
    return &state_.recorded[lane];
  }
  void mark(std::size_t event, std::size_t lane) {
    constexpr unsigned no_timing = 2;
    check(driver().cuEventCreate(&events_[event], no_timing), "cuEventCreate");
    check(driver().cuEventRecord(events_[event], state_.recorded[lane].stream), "cuEventRecord");
  }
  // The first lane waits for all others.
  void end() {
    for (std::size_t lane = 1; lane < joined_.size(); ++lane) {
      if (!joined_[lane]) continue;
      const std::size_t event = events_.size() - 1 - lane;
      mark(event, lane);
      wait(0, event);
    }
  }

 private:
  void wait(std::size_t lane, std::size_t event) {
    check(driver().cuStreamWaitEvent(state_.recorded[lane].stream, events_[event], 0), "cuStreamWaitEvent");
  }

  DeviceState& state_;
  std::vector<Event*> events_;
  std::array<bool, most_lanes> joined_{};
};

bool can_change_nodes() {
  const Driver& call = driver();
  return call.cuStreamGetCaptureInfo_v2 && call.cuGraphKernelNodeGetParams_v2 && call.cuGraphExecKernelNodeSetParams_v2;
}

// A step of one kernel, as it has been captured.
struct CapturedStep {
  DriverNode* node = nullptr;  // null: the step is no single kernel
  KernelNode kernel;           // whose arguments the graph owns
};
// Of what is put on a stream next.
class CapturedSteps {
 public:
  explicit CapturedSteps(Stream* stream) { count_nodes(stream); }
  CapturedStep latest(Stream* stream) {
    const std::size_t before = count_;
    const auto nodes = count_nodes(stream);
    CapturedStep step;
    if (count_ == before + 1 && nodes.size() == 1 &&
        driver().cuGraphKernelNodeGetParams_v2(nodes[0], &step.kernel) == 0)
      step.node = nodes[0];
    return step;
  }

 private:
  // What the next node of the stream would depend on.
  std::span<DriverNode* const> count_nodes(Stream* stream) {
    int status = 0;
    DriverGraph* graph = nullptr;
    DriverNode* const* latest = nullptr;
    std::size_t latest_count = 0;
    if (driver().cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &latest, &latest_count) != 0 || !graph ||
        driver().cuGraphGetNodes(graph, nullptr, &count_) != 0)
      return {};
    return {latest, latest_count};
  }
  std::size_t count_ = 0;
};

class DeviceRecording final : public RecordedWork {
 public:
  DeviceRecording(Device device, std::span<const Ordered> steps, const Work& work) : device_(device) {
    const bool may_change = work.may_change && can_change_nodes();
    DeviceState& state = use(device);
    const std::lock_guard lock(state.mutex);
    Stream* const stream = state.recorded[0].stream;
    state.kept_by_recording.clear();
    constexpr int relaxed = 2;  // what other threads ask of the driver meanwhile does not matter
    check(driver().cuStreamBeginCapture_v2(stream, relaxed), "cuStreamBeginCapture");
    DriverGraph* graph = nullptr;
    try {
      std::vector<bool> waited_for(steps.size(), false);
      for (const Ordered& step : steps)
        for (const std::size_t other : step.after) waited_for[other] = true;
      Lanes lanes(state, steps);
      lanes.begin();
      std::optional<CapturedSteps> captured;
      if (may_change) captured.emplace(stream);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (may_change) steps_.push_back({steps[i].lane, {}});
        if (steps[i].lane < 0) continue;
        const std::size_t kept = state.kept_by_recording.size();
        work.put(i, lanes.queue_for(steps[i]));
        const auto lane = static_cast<std::size_t>(steps[i].lane);
        if (may_change) steps_[i].captured = captured->latest(state.recorded[lane].stream);
        if (may_change && state.kept_by_recording.size() > kept) steps_[i].captured = {};
        if (waited_for[i]) lanes.mark(i, static_cast<std::size_t>(steps[i].lane));
      }
      lanes.end();
    } catch (...) {
      driver().cuStreamEndCapture(stream, &graph);
      if (graph) driver().cuGraphDestroy(graph);
      throw;
    }
    check(driver().cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    const int made = driver().cuGraphInstantiateWithFlags(&program_, graph, 0);
    if (may_change && made == 0)
      graph_ = graph;
    else
      driver().cuGraphDestroy(graph);
    check(made, "cuGraphInstantiate");
    kept_ = std::exchange(state.kept_by_recording, {});
  }
  DeviceRecording(const DeviceRecording&) = delete;
  DeviceRecording& operator=(const DeviceRecording&) = delete;
  ~DeviceRecording() override {
    try {
      const NotEnding working;
      use(device_);
      wait(device_);  // it may still run
      driver().cuGraphExecDestroy(program_);
      if (graph_) driver().cuGraphDestroy(graph_);
    } catch (const Error&) {  // the driver has failed, and the program is gone with it
    }
  }
  void replay(Queue* queue) const override {
    const std::lock_guard lock(use(device_).in_one_piece);
    check(driver().cuGraphLaunch(program_, queue->stream), "cuGraphLaunch");
  }
  // Each of these steps is captured alone. All are looked at before the first is changed: each is still one kernel, the
  // same, launched the same way, so that it differs in its arguments alone.
  bool change(std::span<const std::size_t> steps, const Work& work) override {
    DeviceState& state = use(device_);
    const std::lock_guard lock(state.mutex);
    std::vector<KernelNode> kernels;
    std::vector<ScratchGraph> graphs(steps.size());  // what arguments lie in
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const Step& step = steps_.at(steps[k]);
      if (!step.captured.node) return false;
      const CapturedStep now =
          graphs[k].capture(state, static_cast<std::size_t>(step.lane), [&](Queue* on) { work.put(steps[k], on); });
      const KernelNode &is = now.kernel, &was = step.captured.kernel;
      if (!now.node || is.function != was.function || is.kernel != was.kernel ||
          !std::ranges::equal(is.grid, was.grid) || !std::ranges::equal(is.block, was.block) ||
          is.shared_bytes != was.shared_bytes)
        return false;
      kernels.push_back(is);
    }
    for (std::size_t k = 0; k < steps.size(); ++k)
      check(driver().cuGraphExecKernelNodeSetParams_v2(program_, steps_[steps[k]].captured.node, &kernels[k]),
            "cuGraphExecKernelNodeSetParams");
    return true;
  }

 private:
  struct Step {
    int lane;
    CapturedStep captured;
  };
  // One step alone.
  struct ScratchGraph {
    DriverGraph* graph = nullptr;
    ScratchGraph() = default;
    ScratchGraph(const ScratchGraph&) = delete;
    ~ScratchGraph() {
      if (graph) driver().cuGraphDestroy(graph);
    }
    template <class Put>
    CapturedStep capture(DeviceState& state, std::size_t lane, const Put& put) {
      Queue& queue = state.recorded[lane];
      state.kept_by_recording.clear();
      state.ends_in_kernel[lane] = state.follows_kernel[lane] = false;
      constexpr int relaxed = 2;
      check(driver().cuStreamBeginCapture_v2(queue.stream, relaxed), "cuStreamBeginCapture");
      CapturedStep step;
      try {
        CapturedSteps captured(queue.stream);
        put(&queue);
        step = captured.latest(queue.stream);
      } catch (...) {
        driver().cuStreamEndCapture(queue.stream, &graph);
        state.kept_by_recording.clear();
        throw;
      }
      check(driver().cuStreamEndCapture(queue.stream, &graph), "cuStreamEndCapture");
      if (!std::exchange(state.kept_by_recording, {}).empty()) step = {};
      return step;
    }
  };

  Device device_;
  DriverProgram* program_ = nullptr;
  DriverGraph* graph_ = nullptr;  // its nodes name those of program_; null where no step can be changed
  std::vector<Step> steps_;
  std::vector<std::shared_ptr<const void>> kept_;
};

std::unique_ptr<RecordedWork> record(Device device, std::span<const Ordered> steps, const Work& work) {
  return std::make_unique<DeviceRecording>(device, steps, work);
}

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
  thread_local Context* current = nullptr;
  if (current != slot.state.context) {
    check(driver().cuCtxSetCurrent(slot.state.context), "cuCtxSetCurrent");
    current = slot.state.context;
  }
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
