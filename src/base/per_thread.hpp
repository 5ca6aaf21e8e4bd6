// State of a thread that calls of Weft need at any time. A thread_local with a destructor can't be used once that has
// run, but destructors of the user's thread_local and static objects may call Weft later. per_thread<T>() makes such an
// object again at its next use, and destroys it again when the thread ends. The main thread's last one, made after its
// thread_local objects were destroyed, stays until the process has ended.
#pragma once
#include <cxxabi.h>

#include <new>
#include <type_traits>

extern "C" void* __dso_handle __attribute__((visibility("hidden")));

namespace weft {

// One object a type and thread: T is a type of the file that uses it.
template <class T>
T& per_thread() {
  static_assert(std::is_nothrow_default_constructible_v<T>, "it may be made again where nothing may be thrown");
  struct Slot {
    alignas(T) unsigned char memory[sizeof(T)];
    bool alive;
  };
  static thread_local constinit Slot slot{};  // trivial: valid for as long as the thread runs
  if (!slot.alive) [[unlikely]] {
    ::new (slot.memory) T;
    slot.alive = true;
    const auto destroy = [](void*) {
      std::launder(reinterpret_cast<T*>(slot.memory))->~T();
      slot.alive = false;
    };
    abi::__cxa_thread_atexit(destroy, &slot, &__dso_handle);
  }
  return *std::launder(reinterpret_cast<T*>(slot.memory));
}

}  // namespace weft
