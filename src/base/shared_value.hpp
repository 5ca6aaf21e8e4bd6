// A value that some threads replace while others use it. std::atomic<std::shared_ptr> would not do: its operations
// take a lock, which would never be free in a child that was forked while another thread had it. Threads that use it at
// once seldom write to the same memory: each few of them have a copy with a lock and a count of their own.
#pragma once
#include <memory>
#include <mutex>
#include <utility>

#include "base/cache_lines.hpp"
#include "base/fork.hpp"

namespace weft {

template <class T>
class SharedValue {
 public:
  // It stays while the caller has it, whoever replaces it.
  std::shared_ptr<T> load() const {
    const Place& own = places_[this_thread() % places];
    const std::lock_guard lock(own.mutex);
    return own.value;
  }
  // Gives what was there before. The thread is not NotForking.
  std::shared_ptr<T> exchange(std::shared_ptr<T> next) {
    std::shared_ptr<T> copies[places];  // what they give up goes when others may fork again
    for (std::shared_ptr<T>& copy : copies)
      if (next) copy = counted_apart(next);
    const NotForking not_forking;
    const std::lock_guard lock(writing_);
    for (std::size_t i = 0; i < places; ++i) {
      const std::lock_guard own(places_[i].mutex);
      places_[i].value.swap(copies[i]);
    }
    return std::exchange(value_, std::move(next));
  }

 private:
  static constexpr std::size_t places = 16;
  // Locks are free in a forked child, whoever reads there: who writes does not let it fork.
  struct alignas(cache_lines) Place {
    mutable RecursiveMutex mutex;
    std::shared_ptr<T> value;
  };
  // A pointer to the same object that counts its users in a line of its own, and counts as one user of the other.
  static std::shared_ptr<T> counted_apart(const std::shared_ptr<T>& value) {
    using Pointer = std::shared_ptr<T>;
    return Pointer(std::allocate_shared<Pointer>(LineAllocator<Pointer>(), value), value.get());
  }

  RecursiveMutex writing_;
  std::shared_ptr<T> value_;
  Place places_[places];
};

}  // namespace weft
