// A value that some threads replace while others use it. std::atomic<std::shared_ptr> would not do: its operations
// take a lock, which would never be free in a child that was forked while another thread had it.
#pragma once
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.hpp"

namespace weft {

template <class T>
class SharedValue {
 public:
  // It stays while the caller has it, whoever replaces it.
  std::shared_ptr<T> load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  // Gives what was there before. The thread is not NotForking.
  std::shared_ptr<T> exchange(std::shared_ptr<T> next) {
    const NotForking not_forking;
    const std::lock_guard lock(mutex_);
    return std::exchange(value_, std::move(next));
  }

 private:
  mutable RecursiveMutex mutex_;  // free in a forked child, whoever reads there: who writes does not let it fork
  std::shared_ptr<T> value_;
};

}  // namespace weft
