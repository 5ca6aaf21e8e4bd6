#include "runtime/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/float_modes.hpp"
#include "base/fork.hpp"
#include "base/options.hpp"
#include "runtime/happens_before.hpp"

namespace weft {

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
  if (pieces == 1 || omp_in_parallel()) return body(context, begin, end);
  const std::int64_t piece = ((grains - 1) / pieces + 1) * grain;
  std::atomic<bool> failed = false;
  std::exception_ptr failure;  // an exception that left the region would end the process
  [[maybe_unused]] static char opened, closed;
  WEFT_HAPPENS_BEFORE(&opened);
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    WEFT_HAPPENS_AFTER(&opened);
    const DefaultFloatModes modes;  // the threads are the caller's too, who may have set theirs
#pragma omp for schedule(static, 1) nowait
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t first = begin + i * piece;
      if (first >= end) continue;
      try {
        body(context, first, std::min(end, first + piece));
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
    WEFT_HAPPENS_BEFORE(&closed);
  }
  WEFT_HAPPENS_AFTER(&closed);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace weft
