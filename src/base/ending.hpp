// The end of a process whose other threads still work. exit() ends the libraries of a device, which crashes in a thread
// that is inside of one. In: threads that say when they are. Out: the end waits a moment until nobody is. Threads that
// begin afterwards sleep, and end with the process. The thread that called exit() goes on: destructors may use Weft.
#pragma once
#include <atomic>

namespace weft {

// While one lives, this thread may be inside of a library. Those of one thread may be nested. Costs nothing where no
// library was loaded. Throws Error where the process has begun to end, and is still there after ten seconds: somebody
// waits for this thread.
class NotEnding {
 public:
  NotEnding() : counts_(libraries_end.load(std::memory_order_relaxed)) {
    if (counts_) [[unlikely]]
      enter();
  }
  ~NotEnding() {
    if (counts_) [[unlikely]]
      leave();
  }
  NotEnding(const NotEnding&) = delete;

 private:
  friend void wait_before_end();
  static void enter();
  static void leave();

  static inline constinit std::atomic<bool> libraries_end = false;
  const bool counts_;
};

// When the flag is set somebody waits for this thread at the end: from then on it does not sleep, but throws.
void throw_at_end_when(const std::atomic<bool>* flag);

// The end of the process waits until no thread is inside of a library. Called again after each that was loaded, and
// after it has done something for the first time, since it asks to be told of the end then: who asks last is told first.
void wait_before_end();
// The same if libraries have been loaded since the last call. The loader counts them.
void wait_before_end_of_new_libraries();

}  // namespace weft
