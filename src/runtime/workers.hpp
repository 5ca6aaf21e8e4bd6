// Threads that take part in loops of other threads, and the loops that are open to them. A loop is cut into places,
// each with a part of the range; whoever has a place takes chunks of its part, and then of the others'. The thread
// whose loop it is waits only for those that have joined, so one that the system does not run delays nobody before it
// has begun. A worker that finds nothing to do looks around for a moment, and sleeps.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

#include "base/processors.hpp"

namespace weft {

class Chunks;

namespace workers {

constexpr int most_threads = 128;  // of a loop
using Clock = std::chrono::steady_clock;

// One place's part of a range, in units; the first is in the upper half of `left`, the end in the lower one.
struct alignas(64) Part {
  std::atomic<std::uint64_t> left{0};
  std::atomic<bool> taken{false};
};

// A record of a loop, of which the process has a fixed number: a worker may look at one at any time.
struct alignas(64) Loop {
  // From the lowest bit: workers inside, whether the owner sleeps until there are none, whether workers may join,
  // whether the record is in use, and a number that tells one loop from the next.
  std::atomic<std::uint32_t> state{0};
  std::int64_t begin, end, unit;
  void (*body)(void* context, Chunks& chunks);
  void* context;
  int places;
  Processors allowed;
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // of the body that set `failed`
  Part parts[most_threads];
};

// A free record, which the calling thread owns until it is closed; null where all are in use.
Loop* claim();
// Lets workers join, and wakes as many as there are places beside the owner's, where there are processors for them.
void open(Loop& loop);
// No worker joins any more. Returns when those that did have left.
void close(Loop& loop);
void give_back(Loop& loop);

// Runs the loop's body in this place.
void take_part(Loop& loop, int place);

// Whether the calling thread runs a body of a loop.
bool inside_loop();

// While it lives, the calling thread runs loops alone, as in a body of a loop: num_threads() is 1.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;

 private:
  const bool before_;
};

}  // namespace workers
}  // namespace weft
