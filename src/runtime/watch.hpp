// Who looks on while the calls of a thread run: profile() and the page of a run. In: the steps of each plan of a
// compiled function, as they begin and end (a device runs eager operations by plans too: nobody sees those); those of a
// loop's bodies between the beginning and the end of the loop's step. While one looks on, a call on a device is
// launched step by step: no recording is replayed. Without one a call pays a load and a branch.
#pragma once
#include <span>

#include "runtime/plan.hpp"

namespace weft::runtime {

class Watch {
 public:
  virtual ~Watch() = default;
  // The plan's steps follow. `symbols`: the values of all sizes, those that steps define at their bounds. `waits`: a
  // step may wait for the device.
  virtual void begin_call(const Plan& plan, std::span<const std::int64_t> symbols, bool waits) = 0;
  virtual void begin_step(const Launch& launch, Queue* queue) = 0;
  virtual void end_step(Queue* queue) = 0;
  virtual void end_call() noexcept = 0;  // also where a step has thrown, which then has not ended
  // An eager operation follows there, whose steps nobody sees.
  virtual void eager_operation(Device /*device*/) {}
};

// The thread's; null: none.
inline thread_local constinit Watch* current_watch = nullptr;

// This one looks on while it lives; null: nobody does.
class Watching {
 public:
  explicit Watching(Watch* watch) : before_(current_watch) { current_watch = watch; }
  ~Watching() { current_watch = before_; }
  Watching(const Watching&) = delete;

 private:
  Watch* before_;
};

}  // namespace weft::runtime
