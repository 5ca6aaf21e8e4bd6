// What stands for an object in C. Invariant: the memory of a handle is never given back, so that one that was closed
// is found to be closed. It is used again for a new one after `most_closed` others were closed.
#pragma once
#include <deque>
#include <memory>
#include <mutex>

#include "base/lazy.hpp"
#include "base/shared_value.hpp"
#include "base/short_lock.hpp"
#include "run/barrier.hpp"

namespace weft::run {

template <class State>
struct Handle {
  SharedValue<const State> state;  // null: closed
};

template <class Handle>  // weft_package, weft_function
class Handles {
 public:
  template <class State>
  Handle* open(std::shared_ptr<State> state) {
    Handle* const handle = take();
    handle->state.exchange(std::move(state));
    return handle;
  }
  void close(const char* function, Handle* handle) {
    if (!handle) return;
    if (!handle->state.exchange(nullptr)) refuse_closed(function);
    const ShortLock lock(mutex_);
    closed_.push_back(handle);
  }
  // The state stays while the caller has it, whoever closes the handle.
  static auto state_of(const char* function, const Handle* handle) {
    require(function, "the handle", handle);
    auto state = handle->state.load();
    if (!state) refuse_closed(function);
    return state;
  }

 private:
  static constexpr std::size_t most_closed = 4096;
  [[noreturn]] static void refuse_closed(const char* function) {
    refuse(WEFT_BAD_CALL, "[", function, "] the handle was closed");
  }
  Handle* take() {
    const ShortLock lock(mutex_);
    if (closed_.size() <= most_closed) return &all_.emplace_back();
    Handle* const handle = closed_.front();
    closed_.pop_front();
    return handle;
  }

  std::mutex mutex_;
  std::deque<Handle> all_;
  std::deque<Handle*> closed_;
};

}  // namespace weft::run
