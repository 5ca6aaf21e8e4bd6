// Forks: of a process that has one thread, of one whose threads are the host's own, and while another thread of Weft is
// at work. The order of the cases matters: the first needs a process that has started no thread.
#include "base/fork.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/cache.hpp"
#include "runtime/host/compiler.hpp"
#include "runtime/parallel.hpp"
#include "tests/needs.hpp"
#include "tests/runtime/happens_before.hpp"
#include "tests/runtime/support.hpp"

using weft::test::KeepOptions;

namespace {

// The status of a child that runs the function, which a hang ends by a signal.
template <class Function>
int in_child(Function function) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(function() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// In the child of a fork, locks that other threads held in the allocator are free again. Those of GCC's
// AddressSanitizer are not: a child that allocates may wait for ever.
std::string memory_in_children() {
#ifdef __SANITIZE_ADDRESS__
  return "the allocator of AddressSanitizer may hang in a child of a process with threads";
#else
  return "";
#endif
}

int pieces_of_a_loop() {
  std::atomic<int> pieces = 0;
  const auto count = [](void* pieces, std::int64_t, std::int64_t) { ++*static_cast<std::atomic<int>*>(pieces); };
  weft::parallel_for(0, 1000, 1, count, &pieces);
  return pieces;
}

}  // namespace

extern "C" void GOMP_parallel(void (*body)(void*), void* context, unsigned threads, unsigned flags);

#ifndef __SANITIZE_THREAD__  // which has a thread of its own
TEST_CASE("a child of a process with one thread has threads of its own") {
  const KeepOptions keep;
  weft::options().num_threads = 2;
  CHECK(in_child([] { return !weft::threads_lost() && pieces_of_a_loop() > 1; }) == 0);
}
#endif

TEST_CASE("a child of a host that used OpenMP itself runs its loops alone and does not hang") {
  const KeepOptions keep;
  weft::options().num_threads = 2;
  static char opened, closed;
  WEFT_HAPPENS_BEFORE(&opened);
  GOMP_parallel(
      [](void*) {
        WEFT_HAPPENS_AFTER(&opened);
        WEFT_HAPPENS_BEFORE(&closed);
      },
      nullptr, 2, 0);
  WEFT_HAPPENS_AFTER(&closed);
  CHECK(in_child([] { return pieces_of_a_loop() == 1 && weft::threads_lost(); }) == 0);
  CHECK(in_child([] { return in_child([] { return pieces_of_a_loop() == 1; }) == 0; }) == 0);
  CHECK(pieces_of_a_loop() > 1);
}

TEST_CASE("a mutex that another thread holds is free in the child; the forking thread keeps its own") {
  weft::RecursiveMutex theirs, ours;
  std::atomic<bool> held = false, done = false;
  std::thread other([&] {
    theirs.lock();
    theirs.lock();
    held = true;
    held.notify_one();
    done.wait(false);
    theirs.unlock();
    theirs.unlock();
  });
  held.wait(false);
  ours.lock();
  CHECK(in_child([&] {
          for (int i = 0; i < 2; ++i) {
            theirs.lock();
            theirs.lock();
            theirs.unlock();
            theirs.unlock();
          }
          ours.lock();
          ours.unlock();
          ours.unlock();
          // A second fork, from a thread that the first child had not.
          return in_child([&] {
                   theirs.lock();
                   ours.lock();
                   return true;
                 }) == 0;
        }) == 0);
  ours.unlock();
  done = true;
  done.notify_one();
  theirs.lock();
  theirs.unlock();
  other.join();
}

TEST_CASE("a recursive mutex excludes other threads") {
  weft::RecursiveMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20000; ++k) {
        const std::lock_guard outer(mutex), inner(mutex);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 80000);
}

TEST_CASE("what another thread was compiling, the child compiles itself") {
  const KeepOptions keep;
  const weft::test::Folder folder;
  weft::options().compiler = weft::test::fake_compiler(folder, "sleep 1; exit 1");
  const auto compile = [] {
    return weft::test::compile_error([] { weft::jit(weft::test::source_answering(770011)); });
  };
  std::atomic<bool> begun = false;
  std::thread other([&] {
    begun = true;
    begun.notify_one();
    compile();
  });
  begun.wait(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(in_child([&] { return !compile().empty(); }) == 0);
  other.join();
}

TEST_CASE("a fork does not wait for a compiler that another thread asks for its version") {
  const KeepOptions keep;
  const weft::test::Folder folder;
  weft::test::write_file(folder / "slow-c++",
                         "#!/bin/sh\n: > " + (folder / "asked") + "\nfor i in 1 2 3 4 5 6 7 8 9 10; do\n  [ -e " +
                             (folder / "forked") + " ] && break\n  sleep 0.5\ndone\n: > " + (folder / "answered") +
                             "\necho slow 1.0\n",
                         0700);
  weft::options().compiler = folder / "slow-c++";
  std::thread other([] { weft::host_compiler(); });
  while (folder.names_with("asked").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(in_child([&] {
          if (!folder.names_with("answered").empty()) return false;
          weft::test::write_file(folder / "forked", "");
          return weft::host_compiler().identity.ends_with("slow 1.0\n");
        }) == 0);
  other.join();
}

TEST_CASE("a fork waits for threads that are NotForking, and others that want to be wait for the fork") {
  std::atomic<bool> done = false;
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!done) {
        const weft::NotForking not_forking;
        ++inside;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        --inside;
      }
    });
  while (inside == 0) std::this_thread::yield();
  for (int i = 0; i < 20; ++i)
    CHECK(in_child([&] {
            const weft::NotForking free_here;
            return inside == 0;
          }) == 0);
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("mutexes of the process are taken in their order") {
  using weft::LockOrder;
  const auto lock = [](LockOrder place) { return std::unique_lock(weft::process_mutex(place)); };
  {
    const auto memory = lock(LockOrder::memory);
    CHECK_THROWS_AS(lock(LockOrder::sizes), weft::InternalError);
    CHECK_THROWS_AS(lock(LockOrder::memory), weft::InternalError);
    const auto log = lock(LockOrder::log);
  }
  const auto sizes = lock(LockOrder::sizes), memory = lock(LockOrder::memory);
}

TEST_CASE("forks while other threads load, run and drop libraries and log" * weft::test::needs(memory_in_children)) {
  const weft::Digest key{1, 2};
  const auto library = weft::jit(weft::test::source_answering(770012));
  std::atomic<bool> done = false;
  const weft::test::CaptureLog capture;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!done) {
        weft::logging::warn_once("a line");
        weft::test::answer(*weft::jit(weft::test::source_answering(770012)));
        library->find("answer");
        weft::disk_cache()->load(key);
      }
    });
  for (int i = 0; i < 40; ++i)
    CHECK(in_child([&] {
            weft::logging::warn_once("a line");
            return weft::test::answer(*weft::jit(weft::test::source_answering(770012))) == 770012 &&
                   weft::test::answer(*library) == 770012 && !weft::disk_cache()->load(key);
          }) == 0);
  done = true;
  for (std::thread& thread : threads) thread.join();
}
