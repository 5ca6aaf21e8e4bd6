#include "runtime/cuda/recording.hpp"

#include <array>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/ending.hpp"
#include "base/fail.hpp"
#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {
namespace {

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

}  // namespace

std::unique_ptr<RecordedWork> record(Device device, std::span<const Ordered> steps, const Work& work) {
  return std::make_unique<DeviceRecording>(device, steps, work);
}

}  // namespace weft::runtime::cuda
