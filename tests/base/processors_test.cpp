#include "base/processors.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "tests/runtime/support.hpp"

using weft::allowed_processors;
using weft::processor_quota;
using weft::test::Root;

namespace {
constexpr int unlimited = std::numeric_limits<int>::max();
}

TEST_CASE("processors of which a cgroup gives the time, rounded up") {
  const Root root;
  CHECK(processor_quota(root.path()) == unlimited);
  SUBCASE("version 2, and the folders above") {
    root.write("proc/self/cgroup", "0::/user/one\n");
    root.write("sys/fs/cgroup/user/one/cpu.max", "max 100000\n");
    CHECK(processor_quota(root.path()) == unlimited);
    root.write("sys/fs/cgroup/user/one/cpu.max", "350000 100000\n");
    CHECK(processor_quota(root.path()) == 4);
    root.write("sys/fs/cgroup/user/cpu.max", "200000 100000\n");
    CHECK(processor_quota(root.path()) == 2);
    root.write("sys/fs/cgroup/cpu.max", "1000 100000\n");
    CHECK(processor_quota(root.path()) == 1);
  }
  SUBCASE("version 1, whose paths are the host's while a container sees its own folder") {
    root.write("proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n4:memory:/other\n0::/\n");
    root.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    root.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    CHECK(processor_quota(root.path()) == unlimited);
    root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
    root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(processor_quota(root.path()) == 3);
  }
}

TEST_CASE("processors of a thread follow its affinity mask") {
  std::thread([] {
    const int all = allowed_processors().count;
    cpu_set_t before;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    CHECK(all <= CPU_COUNT(&before));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(allowed_processors().count == 1);
    CHECK(CPU_EQUAL(&allowed_processors().mask, &one));
    std::thread([] { CHECK(allowed_processors().count == 1); }).join();  // which inherits it
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(allowed_processors().count == all);
  }).join();
}
