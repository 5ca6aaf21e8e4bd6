#include "base/ending.hpp"

#include <link.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/cache_lines.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_wait{5}, longest_sleep{10};
constexpr std::chrono::microseconds between_looks{200};

// How many threads are inside, by the numbers of the threads.
using Inside = ThreadSlots<std::atomic<int>>;
Inside& inside() {
  static constinit Lazy<Inside> all;
  return all.get();
}
constinit std::atomic<std::uint64_t> ending_thread = 0;  // that called exit(); 0: none
constinit std::atomic<unsigned long long> known_loads = 0;
thread_local constinit int depth = 0;
thread_local constinit const std::atomic<bool>* ends_sleep = nullptr;

int count_inside() {
  int count = 0;
  for (const auto& slot : inside().all()) count += slot.value.load();
  return count;
}

void wait_for_others() {
  std::uint64_t nobody = 0;
  if (!ending_thread.compare_exchange_strong(nobody, this_thread())) return;
  if (threads_lost()) return;  // a forked child has none of them
  const auto until = Clock::now() + longest_wait;
  while (count_inside() > (depth > 0 ? 1 : 0) && Clock::now() < until) std::this_thread::sleep_for(between_looks);
}

unsigned long long count_loads() {
  unsigned long long loads = 0;
  const auto read = [](dl_phdr_info* info, std::size_t, void* to) {
    *static_cast<unsigned long long*>(to) = info->dlpi_adds;
    return 1;  // the first has it
  };
  dl_iterate_phdr(read, &loads);
  return loads;
}

}  // namespace

void NotEnding::enter() {
  if (depth++ > 0) return;
  std::atomic<int>& slot = inside().of(this_thread());
  slot.fetch_add(1);  // first: the thread that ends writes its number, and then counts
  const std::uint64_t ending = ending_thread.load();
  if (ending == 0 || ending == this_thread()) [[likely]]
    return;
  slot.fetch_sub(1);
  --depth;
  const auto until = Clock::now() + longest_sleep;
  while (!(ends_sleep && ends_sleep->load()) && Clock::now() < until) std::this_thread::sleep_for(between_looks);
  throw Error("[cuda] the process is ending");
}
void NotEnding::leave() {
  if (--depth == 0) inside().of(this_thread()).fetch_sub(1);
}

void throw_at_end_when(const std::atomic<bool>* flag) { ends_sleep = flag; }

void wait_before_end() {
  NotEnding::libraries_end.store(true);
  known_loads.store(count_loads());
  std::atexit(wait_for_others);
}
void wait_before_end_of_new_libraries() {
  if (count_loads() != known_loads.load()) wait_before_end();
}

}  // namespace weft
