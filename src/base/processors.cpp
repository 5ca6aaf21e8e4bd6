#include "base/processors.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "base/cgroup.hpp"
#include "base/lazy.hpp"

namespace weft {

namespace {

constexpr std::int64_t asked_again_after = 10'000'000;  // nanoseconds

std::int64_t coarse_now() {  // a few nanoseconds, good to some milliseconds
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct ProcessorCheck {
  Processors found;
  std::int64_t at = std::numeric_limits<std::int64_t>::min();
};
thread_local constinit ProcessorCheck asked;

}  // namespace

int processor_quota(const std::string& root) {
  double least = std::numeric_limits<int>::max();
  for_each_cgroup(
      root, "cpu",
      [](void* context, const std::string& folder, bool version_2) {
        double quota = 0, period = 0;  // microseconds; "max" and -1 set no limit
        const auto text = [&](const char* file) { return text_of_file(folder + file); };
        const std::string both =
            version_2 ? text("cpu.max") : text("cpu.cfs_quota_us") + " " + text("cpu.cfs_period_us");
        std::sscanf(both.c_str(), "%lf %lf", &quota, &period);
        double& least = *static_cast<double*>(context);
        if (quota > 0 && period > 0) least = std::min(least, quota / period);
      },
      &least);
  const int whole = static_cast<int>(least);
  return std::max(whole < least ? whole + 1 : whole, 1);
}

const Processors& allowed_processors() {
  const std::int64_t now = coarse_now();
  if (now - asked_again_after < asked.at) return asked.found;
  static constinit Lazy<const int> quota;
  Processors& it = asked.found;
  it.known = sched_getaffinity(0, sizeof it.mask, &it.mask) == 0;
  const long count = it.known ? CPU_COUNT(&it.mask) : sysconf(_SC_NPROCESSORS_ONLN);
  it.count = std::max(1, std::min(static_cast<int>(count), quota.get([] { return processor_quota(); })));
  asked.at = now;
  return it;
}

}  // namespace weft
