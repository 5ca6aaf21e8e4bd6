#include "runtime/workers.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/float_modes.hpp"
#include "runtime/parallel.hpp"

namespace weft::workers {

namespace {

using std::chrono::microseconds;

// An owner looks for so long whether its workers have left, before it sleeps; a worker without work looks around for so
// long, so that the next loop need not wake it. Where something else wants the processors, both sleep almost at once.
constexpr microseconds owner_looks{100}, worker_looks{300}, crowded_worker_looks{5}, crowded_owner_looks{20};
// So many interruptions of threads within the first of these mean that others want the processors too, and one more of
// them that they still do, for the second.
constexpr int interruptions_of_a_crowd = 3;
constexpr microseconds crowd_shows_in{25000}, crowded_for{200000};

// ---- the state of a loop ------------------------------------------------------------------------------------------

constexpr std::uint32_t inside = 0xff, owner_sleeps = 0x100, is_open = 0x200, in_use = 0x400, one_loop = 0x800;

constexpr int most_loops = 32;  // at once; further ones run on their own thread
constinit Loop loops[most_loops];
constinit std::atomic<int> used_loops = 0;  // records from this one on were never in use

// ---- the threads --------------------------------------------------------------------------------------------------

alignas(64) constinit std::atomic<std::uint32_t> opened = 0;  // counts what workers look around for
alignas(64) constinit std::atomic<int> owners = 0;            // threads with a loop
// Of each worker, by its number: 1 while it sleeps. Who sets it back to 0 wakes it.
struct alignas(64) Sleeper {
  std::atomic<std::uint32_t> asleep{0};
};
constinit Sleeper sleepers[most_threads];
constinit std::atomic<int> started = 0;                                          // workers
constinit std::atomic<bool> refused = false;                                     // the system gives no further thread
constinit std::atomic<std::int64_t> crowded_until = 0;                           // on the Clock
constinit std::atomic<std::int64_t> interrupted[interruptions_of_a_crowd] = {};  // when that was last noticed
constinit std::atomic<unsigned> interruptions = 0;

thread_local constinit bool in_body = false;

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(std::atomic<std::uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether the condition came to hold while the thread looked for so long.
template <class Condition>
bool look_for(microseconds most, Condition condition) {
  const auto until = Clock::now() + most;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return true;
      relax();
    }
  } while (Clock::now() < until);
  return false;
}

// Whether the system took processors from these threads lately, to give them to other ones. The odd interruption is not
// that: an idle system has them too.
bool crowded() { return Clock::now().time_since_epoch().count() < crowded_until.load(std::memory_order_relaxed); }
void note_interruptions() {
  thread_local constinit long before = 0;
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return;
  if (usage.ru_nivcsw == before) return;
  before = usage.ru_nivcsw;
  const Clock::duration now = Clock::now().time_since_epoch();
  const unsigned place = interruptions.fetch_add(1, std::memory_order_relaxed) % interruptions_of_a_crowd;
  interrupted[place].store(now.count(), std::memory_order_relaxed);
  const Clock::duration first(interrupted[(place + 1) % interruptions_of_a_crowd].load(std::memory_order_relaxed));
  if (crowded() || now - first < crowd_shows_in)
    crowded_until.store((now + crowded_for).count(), std::memory_order_relaxed);
}

// Wakes sleeping workers, at most so many, those of the lowest numbers.
void wake_workers(int most) {
  const int count = started.load(std::memory_order_relaxed);
  for (int i = 1; i <= count && most > 0; ++i)
    if (sleepers[i].asleep.load() == 1 && sleepers[i].asleep.exchange(0) == 1) wake(sleepers[i].asleep, 1), --most;
}

void leave(Loop& loop) {
  const std::uint32_t before = loop.state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & inside) == 1 && (before & owner_sleeps) != 0) wake(loop.state, 1);
}

class Worker {
 public:
  explicit Worker(int number) : number_(number) {}

  [[noreturn]] void run() {
    in_body = true;
    for (;;) {
      const std::uint32_t seen = opened.load(std::memory_order_acquire);
      if (work()) continue;
      const auto is_new = [&] { return opened.load(std::memory_order_acquire) != seen; };
      if (look_for(crowded_worker_looks, is_new)) continue;
      note_interruptions();
      if (!crowded() && look_for(worker_looks, is_new)) continue;
      sleep(seen);
    }
  }

 private:
  // Until it is woken; not at all where something was opened since `seen`.
  void sleep(std::uint32_t seen) {
    std::atomic<std::uint32_t>& asleep = sleepers[number_].asleep;
    asleep.store(1);
    while (opened.load() == seen && asleep.load() == 1) sleep_while(asleep, 1);
    asleep.store(0);
  }

  // Whether there was a loop to take part in.
  bool work() {
    const int count = used_loops.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i) {
      Loop& loop = loops[i];
      std::uint32_t state = loop.state.load(std::memory_order_relaxed);
      do {
        // Where many threads have loops of their own, workers leave the processors to them.
        if ((state & is_open) == 0 || state / one_loop == left_[i] ||
            number_ + owners.load(std::memory_order_relaxed) > started.load(std::memory_order_relaxed) + 1)
          break;
        if (!loop.state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
          continue;
        left_[i] = state / one_loop;
        follow(loop.allowed);
        if (const int place = free_place(loop); place > 0) take_part(loop, place);
        leave(loop);
        return true;
      } while (true);
    }
    return false;
  }

  int free_place(Loop& loop) const {
    for (int i = 0; i < loop.places; ++i) {
      const int place = (number_ + i) % loop.places;
      if (place > 0 && !loop.parts[place].taken.exchange(true, std::memory_order_relaxed)) return place;
    }
    return 0;
  }

  // Runs where the owner may run.
  void follow(const Processors& allowed) {
    if (!allowed.known || (mine_.known && CPU_EQUAL(&mine_.mask, &allowed.mask))) return;
    mine_ = allowed;
    sched_setaffinity(0, sizeof mine_.mask, &mine_.mask);
  }

  const int number_;  // from 1
  Processors mine_;
  std::uint32_t left_[most_loops] = {};  // of each record, the loop that this worker was in last
};

void* worker_thread(void* number) { Worker(static_cast<int>(reinterpret_cast<std::intptr_t>(number))).run(); }

// The code of this library stays loaded: its threads are in it until the process ends.
void stay_loaded() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&stay_loaded), &self) && self.dli_fname)
    dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void start(int number) {
  if (number == 1) stay_loaded();
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool runs =
      pthread_create(&thread, &how, worker_thread, reinterpret_cast<void*>(static_cast<std::intptr_t>(number))) == 0;
  if (runs) pthread_setname_np(thread, "weft-worker");
  if (!runs) refused.store(true);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&how);
}

void have_started(int count) {
  for (int now = started.load(std::memory_order_relaxed); now < count && !refused.load(std::memory_order_relaxed);)
    if (started.compare_exchange_weak(now, now + 1)) start(now + 1), ++now;
}

}  // namespace

Loop* claim() {
  thread_local constinit int last = 0;
  for (int i = 0; i < most_loops; ++i) {
    const int index = (last + i) % most_loops;
    Loop& loop = loops[index];
    std::uint32_t state = loop.state.load(std::memory_order_relaxed);
    if ((state & in_use) != 0 || !loop.state.compare_exchange_strong(state, (state + one_loop) | in_use)) continue;
    for (int used = used_loops.load(); used <= index && !used_loops.compare_exchange_weak(used, index + 1);) {
    }
    last = index;
    return &loop;
  }
  return nullptr;
}

void open(Loop& loop) {
  have_started(loop.places - 1);
  const int others = owners.fetch_add(1, std::memory_order_relaxed);
  loop.state.fetch_or(is_open, std::memory_order_release);
  opened.fetch_add(1);
  wake_workers(std::min(loop.places - 1, started.load(std::memory_order_relaxed) - others));
}

void close(Loop& loop) {
  std::uint32_t state = loop.state.fetch_and(~is_open, std::memory_order_acq_rel);
  const auto alone = [&] { return ((state = loop.state.load(std::memory_order_acquire)) & inside) == 0; };
  if ((state & inside) != 0 && !look_for(crowded() ? crowded_owner_looks : owner_looks, alone)) {
    note_interruptions();
    while (!alone()) {
      loop.state.fetch_or(owner_sleeps);
      if ((state = loop.state.load()) & inside) sleep_while(loop.state, state);
    }
    loop.state.fetch_and(~owner_sleeps, std::memory_order_relaxed);
  }
  // A worker that left the processors to this thread may help another one now.
  const int others = owners.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (others > 0 && others <= started.load(std::memory_order_relaxed)) {
    opened.fetch_add(1);
    wake_workers(1);
  }
}

void give_back(Loop& loop) { loop.state.fetch_and(~in_use, std::memory_order_release); }

void take_part(Loop& loop, int place) {
  const SingleThread inside;
  const DefaultFloatModes modes;  // the owner may have set its thread's
  Chunks chunks(&loop, place);
  try {
    loop.body(loop.context, chunks);
  } catch (...) {
    if (!loop.failed.exchange(true)) loop.failure = std::current_exception();
  }
}

bool inside_loop() { return in_body; }

SingleThread::SingleThread() : before_(std::exchange(in_body, true)) {}
SingleThread::~SingleThread() { in_body = before_; }

}  // namespace weft::workers
