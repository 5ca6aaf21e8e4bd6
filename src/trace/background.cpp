#include "trace/background.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/ending.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "runtime/host/process.hpp"

namespace weft::detail::background {
namespace {

// Added to the process's own: a third of the processor where a call computes at the same time.
constexpr int niceness = 4;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds longest_wait{500}, between_looks{1};

struct Entry {
  Function* function;  // retained
  std::shared_ptr<const Specialization> specialization;
  std::shared_ptr<KernelJob> job;
  std::uint64_t thread;         // whose call has asked for it
  Clock::time_point may_begin;  // where that call goes on for so long
  bool running = false;

  bool waits() const { return !running && Clock::now() < may_begin; }
};

// No condition variable, which a fork would leave undefined. The threads' objects are never destroyed but joined: a
// child has none of the threads.
struct Jobs {
  ProcessMutex& mutex = process_mutex(LockOrder::background);  // of what follows
  std::deque<Entry> entries;
  std::vector<std::thread>* threads = nullptr;
  bool registered = false;  // to be stopped when the process ends
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> added{0};
  std::atomic<bool> stopping{false};
};
Jobs& jobs() {
  static constinit Lazy<Jobs> instance;
  return instance.get([] { return Jobs(); });
}

enum class Next { job, nothing, nothing_yet };
// The next entry that nobody is at and that waits for no call.
Next take(Jobs& all, Entry& taken) {
  const std::lock_guard lock(all.mutex);
  const auto found =
      std::ranges::find_if(all.entries, [](const Entry& each) { return !each.running && !each.waits(); });
  if (found == all.entries.end())
    return std::ranges::any_of(all.entries, &Entry::waits) ? Next::nothing_yet : Next::nothing;
  found->running = true;
  taken = *found;
  return Next::job;
}

void make(Jobs& all, Entry entry) {
  try {
    if (entry.function->references.load() > 1) entry.job->make();  // else nobody will call it
  } catch (const std::exception& error) {
    if (all.stopping.load()) return;  // the process ends: what is left stays as it is
    logging::warn_once(title(*entry.function) + ": kernels could not be made; running eagerly. " + error.what());
    entry.job->give_up(error.what());
  }
  {
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.entries, [&](const Entry& each) { return each.job == entry.job; });
  }
  Function* const function = entry.function;
  entry = {};
  release(function);
}

void work() {
  Jobs& all = jobs();
  // Of this thread, and of the compilers that it starts.
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + niceness);
  stop_programs_when(&all.stopping);
  throw_at_end_when(&all.stopping);
  while (!all.stopping.load()) {
    const std::uint32_t seen = all.added.load();
    Entry entry;
    switch (take(all, entry)) {
      case Next::job: make(all, std::move(entry)); break;
      case Next::nothing_yet: std::this_thread::sleep_for(between_looks); break;
      case Next::nothing: all.added.wait(seen);
    }
  }
}

void stop() {
  Jobs& all = jobs();
  all.stopping.store(true);
  all.added.fetch_add(1);
  all.added.notify_all();
  if (!all.threads || all.generation != process_generation()) return;
  for (std::thread& thread : *all.threads) thread.join();
}

// The mutex is held.
void start(Jobs& all) {
  if (all.threads && all.generation == process_generation()) return;
  if (!all.registered) std::atexit(stop);
  all.registered = true;
  for (Entry& entry : all.entries) entry.running = false;
  all.generation = process_generation();
  all.threads = new std::vector<std::thread>;
  const std::size_t count = std::clamp(std::thread::hardware_concurrency() / 4, 1U, 4U);
  try {
    while (all.threads->size() < count) all.threads->emplace_back(work);
  } catch (const std::system_error&) {  // no more threads can be had: those that there are, or wait_compiled, do it all
  }
}

}  // namespace

void add(Function& function, std::shared_ptr<const Specialization> specialization, std::shared_ptr<KernelJob> job) {
  Jobs& all = jobs();
  if (all.stopping.load()) return;
  retain(&function);
  {
    const std::lock_guard lock(all.mutex);
    all.entries.push_back(
        {&function, std::move(specialization), std::move(job), this_thread(), Clock::now() + longest_wait});
    start(all);
  }
  jobs_wait = true;
  all.added.fetch_add(1);
  all.added.notify_one();
}

void let_jobs_begin() {
  jobs_wait = false;
  Jobs& all = jobs();
  {
    const std::lock_guard lock(all.mutex);
    for (Entry& entry : all.entries)
      if (entry.thread == this_thread()) entry.may_begin = {};
  }
  all.added.fetch_add(1);
  all.added.notify_all();
}

void tend() {
  Jobs& all = jobs();
  if (all.generation == process_generation() || all.stopping.load()) return;
  const std::lock_guard lock(all.mutex);
  if (!all.entries.empty()) start(all);
}

void wait(Function& function) {
  Jobs& all = jobs();
  std::vector<Entry> own;
  {
    const std::lock_guard lock(all.mutex);
    for (const Entry& entry : all.entries)
      if (entry.function == &function) own.push_back(entry);
  }
  for (const Entry& entry : own) entry.job->make();
}

}  // namespace weft::detail::background
