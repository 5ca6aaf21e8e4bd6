// Does something once in a process, by the thread that comes first; the others wait for it. Where it throws, it counts
// as not done, and the next call does it again. std::call_once does not do: it passes an exception through a function
// of libc, which ends the process without a word where the program is linked with -static-libgcc.
// What is done must not ask for the same Once.
#pragma once
#include <atomic>
#include <mutex>
#include <utility>

namespace weft {

class Once {
 public:
  template <class F>
  void operator()(F&& make) {
    if (done_.load(std::memory_order_acquire)) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    std::forward<F>(make)();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> done_{false};
};

}  // namespace weft
