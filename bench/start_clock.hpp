// The clock of programs whose start is measured: seconds since the machine's start, as whoever starts them reads it too
// (CLOCK_MONOTONIC).
#pragma once
#include <ctime>

namespace bench {

inline double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace bench
