#include "base/host_memory.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/storage.hpp"
#include "tests/runtime/support.hpp"
#include "weft/error.hpp"

using weft::machine_memory;
using weft::test::KeepOptions;
using weft::test::Root;

namespace {

const std::uint64_t machine = machine_memory("/nonexistent");
constexpr std::size_t mebibyte = std::size_t{1} << 20;

}  // namespace

TEST_CASE("the machine's memory, where no cgroup limits it") {
  CHECK(machine > 64 * mebibyte);
  CHECK(machine < std::uint64_t{1} << 50);
  const Root root;
  root.write("proc/self/cgroup", "0::/user/one\n");
  root.write("sys/fs/cgroup/user/one/memory.max", "max\n");
  CHECK(machine_memory(root.path()) == machine);
  root.write("sys/fs/cgroup/user/one/memory.max", "9223372036854771712\n");
  CHECK(machine_memory(root.path()) == machine);
}

TEST_CASE("the limit of the process's cgroup and of those above it") {
  const Root root;
  SUBCASE("version 2") {
    root.write("proc/self/cgroup", "0::/user/one\n");
    root.write("sys/fs/cgroup/user/one/memory.max", "30000000\n");
    CHECK(machine_memory(root.path()) == 30000000);
    root.write("sys/fs/cgroup/user/memory.max", "20000000\n");
    CHECK(machine_memory(root.path()) == 20000000);
  }
  SUBCASE("version 2, in a namespace of its own") {
    root.write("proc/self/cgroup", "0::/\n");
    root.write("sys/fs/cgroup/memory.max", "10000000\n");
    CHECK(machine_memory(root.path()) == 10000000);
  }
  SUBCASE("version 1, whose paths are the host's while a container sees its own folder") {
    root.write("proc/self/cgroup", "12:cpu,cpuacct:/other\n4:hugetlb,memory:/docker/abc\n0::/\n");
    root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "40000000\n");
    CHECK(machine_memory(root.path()) == 40000000);
    root.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "35000000\n");
    CHECK(machine_memory(root.path()) == 35000000);
  }
}

TEST_CASE("what is held is counted, up to the limit") {
  const KeepOptions keep;
  const std::uint64_t before = weft::host_memory_held();
  weft::options().memory_limit = before + 1000;
  CHECK(weft::host_memory_limit() == before + 1000);
  CHECK(weft::hold_host_memory(600));
  CHECK_FALSE(weft::hold_host_memory(600));
  CHECK_FALSE(weft::hold_host_memory(~std::size_t{0}));
  CHECK(weft::host_memory_held() == before + 600);
  weft::require_host_memory(400);
  CHECK_THROWS_AS(weft::require_host_memory(401), weft::OutOfMemory);
  CHECK_THROWS_AS(weft::require_host_memory(~std::size_t{0}), weft::OutOfMemory);
  weft::drop_host_memory(600);
  CHECK(weft::host_memory_held() == before);
}

TEST_CASE("a request that does not fit takes no room from one that does") {
  const KeepOptions keep;
  weft::options().memory_limit = weft::host_memory_held() + 1000;
  std::atomic<bool> begun = false, done = false;
  std::thread large([&] {
    while (!done) begun = !weft::hold_host_memory(1001);
  });
  while (!begun) std::this_thread::yield();
  int refused = 0;
  const auto start = std::chrono::steady_clock::now();
  while (weft::test::seconds_since(start) < 0.3) {
    for (int i = 0; i < 1000; ++i)
      if (weft::hold_host_memory(1000))
        weft::drop_host_memory(1000);
      else
        ++refused;
  }
  done = true;
  large.join();
  CHECK(refused == 0);
}

TEST_CASE("free lists are given back before memory that is not counted is refused") {
  const KeepOptions keep;
  weft::options().memory_limit = std::uint64_t{1} << 40;
  weft::release(weft::allocate(weft::Device::cpu(), 28 * mebibyte));
  weft::release(weft::allocate(weft::Device::cpu(), 1000));
  weft::options().memory_limit = weft::host_memory_held();
  weft::require_host_memory(22 * mebibyte);
  CHECK_THROWS_AS(weft::require_host_memory(std::uint64_t{1} << 39), weft::OutOfMemory);
}

TEST_CASE("an allocation beyond the limit says what is asked, what is held, and the limit") {
  const KeepOptions keep;
  weft::Storage* held = weft::allocate(weft::Device::cpu(), 8 * mebibyte);
  weft::options().memory_limit = weft::host_memory_held() + 4 * mebibyte;
  std::string message;
  try {
    weft::allocate(weft::Device::cpu(), 16 * mebibyte);
  } catch (const weft::OutOfMemory& error) {
    message = error.what();
  }
  CHECK(message == weft::concat_text("[allocate] no memory for 16777216 bytes: ", weft::host_memory_held(),
                                     " are held, the limit is ", weft::options().memory_limit, " (WEFT_MEMORY_LIMIT)"));
  weft::options().memory_limit = 0;
  CHECK_THROWS_WITH_AS(weft::allocate(weft::Device::cpu(), std::size_t{1} << 60),
                       doctest::Contains("(this machine's memory)"), weft::OutOfMemory);
  for (int shift : {42, 47, 60})  // granted by a system that overcommits; too large; not even a size class
    CHECK_THROWS_AS(weft::allocate(weft::Device::cpu(), std::size_t{1} << shift), weft::OutOfMemory);
  weft::release(held);
}

TEST_CASE("what free lists keep counts as held, and is given back before an allocation is refused") {
  const KeepOptions keep;
  weft::options().memory_limit = std::uint64_t{1} << 40;
  CHECK_THROWS_AS(weft::allocate(weft::Device::cpu(), std::size_t{1} << 41), weft::OutOfMemory);
  const std::uint64_t before = weft::host_memory_held();
  std::thread([] {  // another thread's too, but for small blocks
    for (const std::size_t bytes : {3 * mebibyte, 28 * mebibyte, std::size_t{300000}})
      weft::release(weft::allocate(weft::Device::cpu(), bytes));
    CHECK(weft::host_memory_held() > 31 * mebibyte);
    std::thread([&] {
      weft::options().memory_limit = weft::host_memory_held();
      weft::Storage* storage = weft::allocate(weft::Device::cpu(), 22 * mebibyte);
      std::memset(storage->data, 1, storage->bytes);
      weft::release(storage);
    }).join();
  })
      .join();
  weft::release(weft::allocate(weft::Device::cpu(), 1000));
  CHECK_THROWS_AS(weft::allocate(weft::Device::cpu(), std::size_t{1} << 45), weft::OutOfMemory);
  CHECK(weft::host_memory_held() == before);
}
