#include "runtime/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

#include "base/float_modes.hpp"
#include "base/fork.hpp"
#include "base/options.hpp"

namespace weft {

namespace {

// piece(i) for each i, on as many threads as there are pieces. ThreadSanitizer does not see how libgomp orders a region
// after what stood before it, and before what follows: in its build a loop makes threads of its own.
#ifdef __SANITIZE_THREAD__
thread_local bool in_team = false;

bool inside_loop() { return in_team; }
template <class Piece>
void on_team(std::int64_t pieces, const Piece& piece) {
  const auto work = [&piece](std::int64_t i) {
    in_team = true;
    piece(i);
    in_team = false;
  };
  std::vector<std::thread> team;
  for (std::int64_t i = 1; i < pieces; ++i) team.emplace_back(work, i);
  work(0);
  for (std::thread& thread : team) thread.join();
}
#else
bool inside_loop() { return omp_in_parallel(); }
template <class Piece>
void on_team(std::int64_t pieces, const Piece& piece) {
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(pieces))
  for (std::int64_t i = 0; i < pieces; ++i) piece(i);
}
#endif

}  // namespace

int num_threads() {
  if (threads_lost()) return 1;
  const int chosen = options().num_threads;
  return chosen > 0 ? chosen : omp_get_max_threads();
}

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  void (*body)(void* context, std::int64_t begin, std::int64_t end), void* context) {
  if (begin >= end) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t grains = (end - begin - 1) / grain + 1;
  const std::int64_t pieces = grains == 1 ? 1 : std::min<std::int64_t>(grains, num_threads());
  if (pieces == 1 || inside_loop()) return body(context, begin, end);
  const std::int64_t piece = ((grains - 1) / pieces + 1) * grain;
  std::atomic<bool> failed = false;
  std::exception_ptr failure;  // an exception that left the region would end the process
  on_team(pieces, [&](std::int64_t i) {
    const DefaultFloatModes modes;  // the threads are the caller's too, who may have set theirs
    const std::int64_t first = begin + i * piece;
    if (first >= end) return;
    try {
      body(context, first, std::min(end, first + piece));
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace weft
