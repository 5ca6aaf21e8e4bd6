// What a fork leaves. The child has one thread, the one that forked; locks that other threads held would never
// be free there. The mutexes of the process are taken before a fork, in the order in which calls take them, and are
// free in both processes afterwards. So a fork waits for three things of other threads that may take long: an
// evaluation, a compiled call that draws from the default generator, which holds that for its whole length, and NVRTC,
// which compiles in this process and has locks of its own. It does not wait for a trace, nor for the host's compiler.
// It waits a moment for those who are NotForking.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/cache_lines.hpp"

namespace weft {

// A thread that holds one takes only those that come later: ProcessMutex::lock checks it.
enum class LockOrder {
  generator,
  evaluation,  // of the nodes of some threads: EvaluationLock
  last_evaluation = evaluation + 31,
  levels,
  device_kernels,
  functions,
  background,
  compiler,
  device_compiler,
  cache,
  given_entries,
  libraries,
  loader,
  callees,
  definitions,
  texts,
  sizes,
  rates,
  memory,
  page,
  log,
  size_marks,
  registry,
  count
};
class alignas(cache_lines) ProcessMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};
ProcessMutex& process_mutex(LockOrder place);

// While one lives, the process does not fork. Many threads may have one at once: around a short call of a library that
// has locks of its own. Its thread takes no process mutex meanwhile, and no second one.
class NotForking {
 public:
  NotForking();
  ~NotForking();
  NotForking(const NotForking&) = delete;
};

// True in a child whose parent had other threads when it forked. libgomp's are among them: it would wait for them.
bool threads_lost();

// Number of forks between this process and the one that loaded Weft.
std::uint32_t process_generation();

// Number of the calling thread, from 1. A number does not come again in a process and its children.
std::uint64_t this_thread();

// A mutex that its owner may take again. One that a thread holds which a forked child does not have is free there.
class RecursiveMutex {
 public:
  void lock();
  void unlock();

 private:
  std::atomic<std::uint64_t> owner_{0};  // number of the thread; 0: none
  int depth_ = 0;
};

}  // namespace weft
