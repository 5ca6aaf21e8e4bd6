#include "base/fork.hpp"

#include <dirent.h>
#include <pthread.h>

#include "base/fail.hpp"
#include "base/held_locks.hpp"

namespace weft {

namespace {

static_assert(static_cast<int>(LockOrder::count) <= 64);
constinit ProcessMutex mutexes[static_cast<int>(LockOrder::count)];
thread_local constinit std::uint64_t held = 0;  // bit i: this thread holds mutexes[i]

std::atomic<bool> lost = false;
std::atomic<std::uint32_t> generation = 0;

// Threads are numbered, since addresses in the stacks of those that ended come again.
std::atomic<std::uint64_t> next_thread = 1;
thread_local constinit std::uint64_t own_number = 0;

// Of the threads with lower numbers than `first_own` this process has only the one that forked.
std::atomic<std::uint64_t> first_own = 0, survivor = 0;
bool has_thread(std::uint64_t number) { return number >= first_own.load() || number == survivor.load(); }

bool other_threads() {
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return true;  // not known
  int count = 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count > 1;
}

// Threads that are NotForking, and whether one forks, for which further ones wait.
std::atomic<std::uint32_t> busy = 0, forking = 0;
void leave() {
  if (busy.fetch_sub(1) == 1) busy.notify_one();
}

// Threads that wait for a RecursiveMutex, also those that a forked child does not have.
alignas(cache_lines) std::atomic<std::uint32_t> waiting{0};

bool others_at_fork = false;  // written under all mutexes

void before_fork() {
  for (ProcessMutex& mutex : mutexes) mutex.lock();
  forking.store(1);
  while (const std::uint32_t count = busy.load()) busy.wait(count);
  others_at_fork = other_threads();
}
void release_all() {
  forking.store(0);
  forking.notify_all();
  for (int i = static_cast<int>(LockOrder::count); i-- > 0;) mutexes[i].unlock();
}
void in_child() {
  if (others_at_fork) lost.store(true);
  survivor.store(this_thread());
  first_own.store(next_thread.load());
  generation.fetch_add(1);
  release_all();
}

// Registered when the library is loaded: other code may start threads and fork before Weft is called.
[[maybe_unused]] const int registered = pthread_atfork(before_fork, release_all, in_child);

}  // namespace

ProcessMutex& process_mutex(LockOrder place) { return mutexes[static_cast<int>(place)]; }
void ProcessMutex::lock() {
  const auto place = this - mutexes;
  WEFT_CHECK(held >> place == 0, "lock ", place, " is taken after locks ", held);
  mutex_.lock();
  held |= std::uint64_t{1} << place;
}
void ProcessMutex::unlock() {
  held &= ~(std::uint64_t{1} << (this - mutexes));
  mutex_.unlock();
}
bool thread_holds(LockOrder place) { return held >> static_cast<int>(place) & 1; }
std::uint64_t this_thread() {
  if (own_number == 0) own_number = next_thread.fetch_add(1, std::memory_order_relaxed);
  return own_number;
}

NotForking::NotForking() {
  while (busy.fetch_add(1), forking.load() != 0) {
    leave();
    forking.wait(1);
  }
}
NotForking::~NotForking() { leave(); }

bool threads_lost() { return lost.load(std::memory_order_relaxed); }
std::uint32_t process_generation() { return generation.load(std::memory_order_relaxed); }

void RecursiveMutex::lock() {
  const std::uint64_t self = this_thread();
  if (owner_.load(std::memory_order_relaxed) != self) {
    for (std::uint64_t owner = 0; !owner_.compare_exchange_strong(owner, self, std::memory_order_acquire);) {
      if (owner == 0 || !has_thread(owner)) continue;  // the exchange is tried again, with that owner
      waiting.fetch_add(1);
      if (owner_.load() == owner) owner_.wait(owner, std::memory_order_relaxed);
      waiting.fetch_sub(1);
      owner = 0;
    }
    depth_ = 0;
  }
  ++depth_;
}

void RecursiveMutex::unlock() {
  if (--depth_ > 0) return;
  owner_.store(0);
  if (waiting.load() > 0) owner_.notify_one();  // which writes to what all mutexes share
}

}  // namespace weft
