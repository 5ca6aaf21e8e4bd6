// Work for a device's queue that is recorded once: its steps, and on which lane and after which others each runs.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace weft {

struct Queue;

// The steps of a piece of work, by reference: what puts step number i on a queue. `may_change`: what is recorded of it
// will be asked to change.
class Work {
 public:
  template <class F>
  explicit Work(const F& put, bool may_change = false)
      : may_change(may_change),
        put_(&put),
        call_([](const void* f, std::size_t step, Queue* on) { (*static_cast<const F*>(f))(step, on); }) {}
  void put(std::size_t step, Queue* on) const { call_(put_, step, on); }
  const bool may_change;

 private:
  const void* put_;
  void (*call_)(const void* put, std::size_t step, Queue* queue);
};
// A step runs after those before it on its lane and after the steps `after` of others. Lanes run side by side.
struct Ordered {
  int lane = 0;
  std::vector<std::size_t> after = {};
};
inline constexpr int most_lanes = 4;

// Work on a device that was recorded once and is queued again as one piece.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void replay(Queue* queue) const = 0;
  // Replays to come do what `work` puts now for these steps; those that are queued do what they did. False, with
  // nothing changed, where a step can't be changed so. What throws must not be replayed again.
  virtual bool change(std::span<const std::size_t> /*steps*/, const Work& /*work*/) { return false; }
};

// Moments of work on a device: each mark is reached when what was queued before it has been done.
class Marks {
 public:
  virtual ~Marks() = default;
  // Holds back what is queued from here on until release(), until so much is queued that the driver would wait, or for
  // a tenth of a second: a thread may wait for the device before it comes to the work that precedes release().
  virtual void hold() = 0;
  virtual void release() noexcept = 0;
  virtual void put() = 0;
  // Seconds from the first mark to each. Waits until all have been reached.
  virtual std::vector<double> seconds() = 0;
};

}  // namespace weft
