// Time of a trace that goes into derivatives: who records them adds to it, and who traces reads it.
#pragma once
#include <chrono>

namespace weft {

// Milliseconds of this thread so far.
inline thread_local constinit double autograd_milliseconds = 0;

// Adds its lifetime.
class AutogradTime {
 public:
  AutogradTime() = default;
  ~AutogradTime() {
    autograd_milliseconds +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }
  AutogradTime(const AutogradTime&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace weft
