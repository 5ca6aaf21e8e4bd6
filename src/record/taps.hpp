// Who listens to taps on this thread.
#pragma once
#include "weft/taps.hpp"

namespace weft::detail {

inline thread_local constinit TapCollector::State* tap_listener = nullptr;

// Nobody listens until the end of the block: a compiled function is traced, whose values are no other function's.
class NoTaps {
 public:
  NoTaps() { tap_listener = nullptr; }
  ~NoTaps() { tap_listener = saved_; }
  NoTaps(const NoTaps&) = delete;

 private:
  TapCollector::State* const saved_ = tap_listener;
};

}  // namespace weft::detail
