#include "runtime/parallel.hpp"

#include <omp.h>

#include <algorithm>

#include "base/fork.hpp"
#include "base/options.hpp"
#include "base/processors.hpp"
#include "runtime/workers.hpp"

namespace weft {

namespace {

using workers::Loop;
using workers::Part;

constexpr std::int64_t most_units = (std::int64_t{1} << 32) - 1;  // of a range: a Part has two numbers of 32 bits
// A thread takes this share of what a part still has, so the last chunks are small and all threads end together.
constexpr std::uint64_t share = 4;

constexpr std::uint64_t first_of(std::uint64_t left) { return left >> 32; }
constexpr std::uint64_t end_of(std::uint64_t left) { return left & 0xffffffff; }

// Takes units from the front of a part, or from its end: there its own thread comes last.
bool take(Part& part, bool own, std::uint64_t& first, std::uint64_t& end) {
  std::uint64_t left = part.left.load(std::memory_order_relaxed);
  while (first_of(left) < end_of(left)) {
    const std::uint64_t count = (end_of(left) - first_of(left) + share - 1) / share;
    const std::uint64_t after = own ? left + (count << 32) : left - count;
    if (!part.left.compare_exchange_weak(left, after, std::memory_order_relaxed)) continue;
    first = own ? first_of(left) : end_of(after);
    end = first + count;
    return true;
  }
  return false;
}

bool runs_inline() { return workers::inside_loop() || omp_in_parallel(); }

struct Simple {
  void (*body)(void* context, std::int64_t begin, std::int64_t end);
  void* context;
};

}  // namespace

bool Chunks::next(std::int64_t& begin, std::int64_t& end) {
  if (!loop_) {
    begin = begin_, end = end_;
    begin_ = end_;
    return begin < end;
  }
  if (loop_->failed.load(std::memory_order_relaxed)) return false;
  for (int i = 0; i < loop_->places; ++i) {
    std::uint64_t first, last;
    if (!take(loop_->parts[(place_ + i) % loop_->places], i == 0, first, last)) continue;
    begin = loop_->begin + static_cast<std::int64_t>(first) * loop_->unit;
    end = std::min(loop_->end, loop_->begin + static_cast<std::int64_t>(last) * loop_->unit);
    return true;
  }
  return false;
}

int num_threads() {
  if (threads_lost() || runs_inline()) return 1;
  const int chosen = options().num_threads;
  return std::min(chosen > 0 ? chosen : std::min(omp_get_max_threads(), allowed_processors().count),
                  workers::most_threads);
}

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, std::int64_t most_threads,
                  void (*body)(void* context, Chunks& chunks), void* context) {
  if (begin >= end) return;
  std::int64_t unit = std::max<std::int64_t>(grain, 1), units = (end - begin - 1) / unit + 1;
  const auto places =
      static_cast<int>(units == 1 ? 1 : std::min({units, most_threads, static_cast<std::int64_t>(num_threads())}));
  Loop* const loop = places <= 1 || runs_inline() ? nullptr : workers::claim();
  if (!loop) {
    Chunks whole(begin, end);
    return body(context, whole);
  }
  if (units > most_units) unit *= (units - 1) / most_units + 1, units = (end - begin - 1) / unit + 1;
  loop->begin = begin, loop->end = end, loop->unit = unit;
  loop->body = body, loop->context = context;
  loop->places = places;
  loop->allowed = allowed_processors();
  loop->failed.store(false, std::memory_order_relaxed);
  for (int i = 0; i < places; ++i) {
    const auto first = static_cast<std::uint64_t>(units * i / places),
               last = static_cast<std::uint64_t>(units * (i + 1) / places);
    loop->parts[i].left.store(first << 32 | last, std::memory_order_relaxed);
    loop->parts[i].taken.store(i == 0, std::memory_order_relaxed);
  }
  workers::open(*loop);
  workers::take_part(*loop, 0);
  workers::close(*loop);
  const std::exception_ptr failure = std::move(loop->failure);
  loop->failure = nullptr;
  workers::give_back(*loop);
  if (failure) std::rethrow_exception(failure);
}

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  void (*body)(void* context, std::int64_t begin, std::int64_t end), void* context) {
  if (begin >= end) return;
  if (end - begin <= grain || runs_inline()) return body(context, begin, end);
  Simple simple{body, context};
  parallel_for(
      begin, end, grain, workers::most_threads,
      [](void* context, Chunks& chunks) {
        const Simple& it = *static_cast<const Simple*>(context);
        for (std::int64_t first, last; chunks.next(first, last);) it.body(it.context, first, last);
      },
      &simple);
}

}  // namespace weft
