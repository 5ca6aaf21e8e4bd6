// An object that is made at its first use and never destroyed: destructors of the user's statics may still ask for it.
// Threads that come at once may each make one; the first wins. A function's own static object would not do: the other
// threads wait for the one that makes it, and a child that was forked meanwhile does not have that thread.
#pragma once
#include <atomic>

namespace weft {

template <class T>
class Lazy {
 public:
  T& get() {
    return get([] { return T(); });
  }
  template <class Make>
  T& get(Make make) {
    T* object = object_.load(std::memory_order_acquire);
    if (object) [[likely]]
      return *object;
    T* fresh = new T(make());
    if (object_.compare_exchange_strong(object, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *object;
  }

 private:
  std::atomic<T*> object_{nullptr};
};

}  // namespace weft
