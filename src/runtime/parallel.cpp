#include "runtime/parallel.hpp"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "base/options.hpp"

namespace weft {

namespace {

std::atomic<bool> threads_started = false;
std::atomic<bool> threads_lost = false;  // by fork: libgomp would wait for threads that the child does not have

void watch_for_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { threads_lost.store(threads_lost.load() || threads_started.load()); });
  static_cast<void>(registered);
}

}  // namespace

int num_threads() {
  if (threads_lost.load(std::memory_order_relaxed)) return 1;
  const int chosen = options().num_threads;
  return chosen > 0 ? chosen : omp_get_max_threads();
}

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  void (*body)(void* context, std::int64_t begin, std::int64_t end), void* context) {
  if (begin >= end) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t grains = (end - begin - 1) / grain + 1;
  const std::int64_t pieces = grains == 1 ? 1 : std::min<std::int64_t>(grains, num_threads());
  if (pieces == 1 || omp_in_parallel()) return body(context, begin, end);
  watch_for_forks();
  threads_started.store(true, std::memory_order_relaxed);
  const std::int64_t piece = ((grains - 1) / pieces + 1) * grain;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(pieces))
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = begin + i * piece;
    if (first < end) body(context, first, std::min(end, first + piece));
  }
}

}  // namespace weft
