// Holds a mutex for a moment, during which the process does not fork: in a forked child the mutex is free, and what it
// guards is whole. Its holder takes no process mutex and no second ShortLock.
#pragma once
#include <mutex>

#include "base/fork.hpp"

namespace weft {

class ShortLock {
 public:
  explicit ShortLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  NotForking not_forking_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace weft
