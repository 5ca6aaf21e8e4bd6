// How many processors there are for a thread: those of its affinity mask, and no more than the processor time that the
// control groups of the process allow.
#pragma once
#include <sched.h>

#include <string>

namespace weft {

struct Processors {
  int count = 1;       // at least 1
  bool known = false;  // `mask` is the thread's; false on machines of more processors than fit
  cpu_set_t mask{};
};

// Of the calling thread. The mask is asked for again after 10 ms, the control groups once.
const Processors& allowed_processors();

// Processors' worth of time that the cgroup of this process and those above it allow (cpu.max of version 2,
// cpu.cfs_quota_us of version 1), rounded up; a large number where nothing is limited. `root` as in for_each_cgroup.
int processor_quota(const std::string& root = "");

}  // namespace weft
