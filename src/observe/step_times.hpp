// Records when the steps of a thread's calls run. In: the calls, through runtime::Watch. Out: each step that was met,
// and for each call when each of its steps began and ended, by the clock of the device that ran it.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <set>

#include "base/work.hpp"
#include "pipeline.hpp"
#include "runtime/watch.hpp"

namespace weft::detail {

class StepTimes final : public runtime::Watch {
 public:
  using Clock = std::chrono::steady_clock;
  // A step of a plan at some sizes.
  struct Step {
    std::string name;
    std::string function;               // where it was compiled
    std::vector<std::string> computes;  // with the user's lines
    StepWork work;
    DType dtype = DType::f32;
    Device device;
    int outer = -1;  // the loop's step, where it is one of a body
  };
  struct Run {
    std::size_t step;   // into steps
    double begin, end;  // seconds from the call's begin
  };
  struct Call {
    const runtime::Plan* plan;  // only to be compared: it may be gone
    Clock::time_point begin;
    std::vector<Run> runs;  // in the order of their ends
    double seconds = 0;     // until its last step has ended
  };

  std::vector<Step> steps;
  std::vector<Call> calls;
  std::vector<Device> devices;  // that were given work: by the calls, and by eager operations between them

  // The first call of this plan: how long each of its steps took, without those of bodies. Empty: it has not run.
  std::vector<double> first_call_of(const runtime::Plan& plan) const;

  void begin_call(const runtime::Plan& plan, std::span<const std::int64_t> symbols, bool waits) override;
  void begin_step(const runtime::Launch& launch, Queue* queue) override;
  void end_step(Queue* queue) override;
  void end_call() noexcept override;
  void eager_operation(Device device) override { note(device); }

 private:
  struct Open {
    std::size_t step, begin;  // begin: which mark
  };
  struct Key {
    const runtime::Launch* launch;
    std::vector<std::int64_t> symbols;
    auto operator<=>(const Key&) const = default;
  };
  std::size_t put();
  void finish();
  void note(Device device);

  std::map<Key, std::size_t> known_;
  std::set<std::shared_ptr<const void>> alive_;  // the plans whose launches are in known_
  const runtime::Plan* plan_ = nullptr;          // of the call
  // Calls that have run: what the driver and libraries load at the first one would wait for a device that is held.
  std::set<std::pair<const runtime::Plan*, std::vector<std::int64_t>>> ran_;
  std::vector<std::int64_t> symbols_;
  Clock::time_point begin_;
  std::vector<double> host_marks_;
  std::unique_ptr<Marks> marks_;  // of a device
  std::vector<Open> open_;
  struct Closed {
    std::size_t step, begin, end;
  };
  std::vector<Closed> closed_;
  std::size_t marks_put_ = 0;
};

}  // namespace weft::detail
