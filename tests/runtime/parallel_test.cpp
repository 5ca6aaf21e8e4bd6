#include "runtime/parallel.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/processors.hpp"
#include "runtime/workers.hpp"
#include "tests/runtime/support.hpp"
#include "tests/runtime/tasks.hpp"

using weft::Chunks;
using weft::num_threads;
using weft::parallel_for;
using weft::test::Task;

namespace {

// Whether the condition came to hold within ten seconds.
template <class Condition>
bool comes(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Visits {
  std::vector<std::atomic<int>> counts;
  std::atomic<int> pieces = 0;
  std::int64_t grain = 1;
  std::atomic<bool> ragged = false;  // a piece that starts off a multiple of the grain
  explicit Visits(std::int64_t size) : counts(static_cast<std::size_t>(size)) {}
};

void visit(void* context, std::int64_t begin, std::int64_t end) {
  Visits& visits = *static_cast<Visits*>(context);
  ++visits.pieces;
  if (begin % visits.grain != 0) visits.ragged = true;
  for (std::int64_t i = begin; i < end; ++i) ++visits.counts[static_cast<std::size_t>(i)];
}

// A loop of two threads, each of which calls f once both have come.
template <class Function>
void on_both_threads(Function f) {
  struct Meeting {
    Function& f;
    std::atomic<int> come = 0;
    std::atomic<bool> met = true;
  } meeting{f};
  parallel_for(
      0, 1000, 1, 2,
      [](void* context, Chunks& chunks) {
        Meeting& it = *static_cast<Meeting*>(context);
        ++it.come;
        if (!comes([&] { return it.come == 2; })) it.met = false;
        for (std::int64_t begin, end; chunks.next(begin, end);) {
        }
        it.f();
      },
      &meeting);
  CHECK(meeting.met);
}

}  // namespace

TEST_CASE("every index is visited once, in chunks of whole grains") {
  const weft::test::KeepOptions keep;
  for (int threads : {1, 2, 3, 7}) {
    weft::options().num_threads = threads;
    for (std::int64_t size : {0, 1, 2, 15, 16, 17, 100, 1000}) {
      for (std::int64_t grain : {1, 16, 64, 2000}) {
        CAPTURE(threads);
        CAPTURE(size);
        CAPTURE(grain);
        Visits visits(size);
        visits.grain = grain;
        parallel_for(0, size, grain, visit, &visits);
        for (const auto& count : visits.counts) REQUIRE(count == 1);
        CHECK_FALSE(visits.ragged);
        CHECK((size == 0) == (visits.pieces == 0));
        if (threads == 1) CHECK(visits.pieces <= 1);
      }
    }
  }
}

TEST_CASE("a range of more grains than a loop counts is cut into larger ones") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 3;
  struct Covered {
    std::atomic<std::int64_t> indexes = 0;
    std::atomic<bool> ragged = false;
  } covered;
  constexpr std::int64_t begin = -7, size = (std::int64_t{1} << 58) - 1;
  const auto cover = [](void* context, std::int64_t first, std::int64_t last) {
    static_cast<Covered*>(context)->indexes += last - first;
    if ((first - begin) % 2 != 0) static_cast<Covered*>(context)->ragged = true;
  };
  parallel_for(begin, begin + size, 2, cover, &covered);
  CHECK(covered.indexes == size);
  CHECK_FALSE(covered.ragged);
}

TEST_CASE("each thread runs the body once, has a place of its own, and there are no more of them than asked for") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 5;
  for (const int most : {1, 2, 3, 9}) {
    struct Places {
      std::atomic<int> taken[9] = {}, indexes = 0;
    } places;
    parallel_for(
        0, 100, 1, most,
        [](void* context, Chunks& chunks) {
          Places& it = *static_cast<Places*>(context);
          ++it.taken[chunks.place()];
          weft::for_each_index(chunks, [&](std::int64_t) { ++it.indexes; });
        },
        &places);
    CHECK(places.indexes == 100);
    CHECK(places.taken[0] == 1);
    for (int i = 0; i < 9; ++i) CHECK(places.taken[i] <= (i < std::min(most, 5) ? 1 : 0));
  }
}

TEST_CASE("work is shared between threads") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  std::atomic<int> threads = 0;
  on_both_threads([&] { ++threads; });
  CHECK(threads == 2);
}

TEST_CASE("a thread that does not go on delays the chunk that it is in: the others do the rest") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  constexpr int size = 1000;
  struct Loop {
    std::atomic<int> done = 0, held = 0;
    std::atomic<bool> rest_was_done = false;
  } loop;
  const auto hold_the_first = [](void* context, std::int64_t begin, std::int64_t end) {
    Loop& it = *static_cast<Loop*>(context);
    if (begin == 0) {
      it.held = static_cast<int>(end);
      it.rest_was_done = comes([&] { return it.done == size - it.held; });
    }
    it.done += static_cast<int>(end - begin);
  };
  parallel_for(0, size, 1, hold_the_first, &loop);
  CHECK(loop.done == size);
  CHECK(loop.rest_was_done);
  CHECK(loop.held <= size / 4);
}

TEST_CASE("a loop does not wait for a thread that has not come") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  std::atomic<bool> inside = false, done = false;
  // The one worker is held in this loop.
  std::thread other([&] {
    struct Held {
      std::atomic<bool>&inside, &done;
    } held{inside, done};
    parallel_for(
        0, 1000, 1, 2,
        [](void* context, Chunks& chunks) {
          Held& it = *static_cast<Held*>(context);
          if (chunks.place() == 0) {
            comes([&] { return it.inside.load(); });
          } else {
            it.inside = true;
            comes([&] { return it.done.load(); });
          }
          for (std::int64_t begin, end; chunks.next(begin, end);) {
          }
        },
        &held);
  });
  REQUIRE(comes([&] { return inside.load(); }));
  Visits visits(1000);
  parallel_for(0, 1000, 1, visit, &visits);
  for (const auto& count : visits.counts) REQUIRE(count == 1);
  CHECK_FALSE(done.load());
  done = true;
  other.join();
}

TEST_CASE("threads of all loops are as many as one loop has") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 8;
  std::vector<std::thread> callers;
  std::atomic<int> ready = 0, most_workers = 0;
  for (int i = 0; i < 6; ++i)
    callers.emplace_back([&] {
      ++ready;
      comes([&] { return ready == 6; });
      for (int k = 0; k < 50; ++k) {
        Visits visits(500);
        parallel_for(0, 500, 1, visit, &visits);
        for (const auto& count : visits.counts)
          if (count != 1) ready = -1;
      }
      most_workers = std::max(most_workers.load(), static_cast<int>(weft::test::worker_tasks().size()));
    });
  for (std::thread& thread : callers) thread.join();
  CHECK(ready == 6);
  CHECK(most_workers == 7);
}

TEST_CASE("a loop inside a loop has one thread") {
  std::atomic<int> most = 0;
  parallel_for(
      0, 2, 1,
      [](void* context, std::int64_t, std::int64_t) {
        auto& most = *static_cast<std::atomic<int>*>(context);
        if (num_threads() > most) most = num_threads();
      },
      &most);
  CHECK(most == 1);
}

TEST_CASE("a thread that is single for a time runs its loops alone, also where it is inside of a loop") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 3;
  {
    const weft::workers::SingleThread outer;
    { const weft::workers::SingleThread inner; }
    CHECK(num_threads() == 1);
  }
  CHECK(num_threads() == 3);
}

TEST_CASE("a thread that may run on one processor runs its loops alone, on that one") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 0;
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    const int processor = sched_getcpu();
    CPU_SET(processor, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(num_threads() == 1);
    Visits visits(1000);
    parallel_for(0, 1000, 1, visit, &visits);
    CHECK(visits.pieces == 1);
  }).join();
}

TEST_CASE("a worker runs on the processors of the thread whose loop it is") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  on_both_threads([] {});  // started on any of them
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    const int processor = sched_getcpu();
    CPU_SET(processor, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    std::atomic<int> there = 0;
    on_both_threads([&] { there += sched_getcpu() == processor; });
    CHECK(there == 2);
  }).join();
  std::atomic<int> free = 0;
  on_both_threads([&] {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) free += CPU_EQUAL(&mask, &weft::allowed_processors().mask);
  });
  CHECK(free == 2);
}

TEST_CASE("threads without work sleep within a millisecond, and take no signals") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  std::int64_t least = 1'000'000'000;
  for (int i = 0; i < 5; ++i) {
    on_both_threads([] {});
    const std::vector<Task> others = weft::test::other_tasks();
    std::int64_t before = 0, after = 0;
    for (const Task& task : others) before += task.ran();
    REQUIRE(
        comes([&] { return std::all_of(others.begin(), others.end(), [](const Task& it) { return it.sleeps(); }); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const Task& task : others) CHECK(task.sleeps());
    for (const Task& task : others) after += task.ran();
    least = std::min(least, after - before);
  }
  CHECK(least < 1'000'000);
  const std::vector<Task> workers = weft::test::worker_tasks();
  CHECK_FALSE(workers.empty());
  for (const Task& worker : workers) CHECK((worker.blocks(SIGINT) && worker.blocks(SIGTERM) && worker.blocks(SIGALRM)));
}

TEST_CASE("a loop inside a loop, and loops of several threads at once, are complete") {
  struct Context {
    std::atomic<int> total = 0;
  } context;
  const auto outer = [](void* context, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto inner = [](void* inside, std::int64_t first, std::int64_t last) {
        static_cast<Context*>(inside)->total += static_cast<int>(last - first);
      };
      parallel_for(0, 10, 1, inner, context);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { parallel_for(0, 100, 1, outer, &context); });
  for (std::thread& thread : threads) thread.join();
  CHECK(context.total == 4 * 100 * 10);
}

TEST_CASE("of the exceptions that bodies throw one arrives, after those that have begun have ended; no chunk follows") {
  const weft::test::KeepOptions keep;
  for (int threads : {1, 3}) {
    weft::options().num_threads = threads;
    struct Begun {
      std::atomic<int> chunks = 0, ended = 0;
    } begun;
    const auto throws = [](void* context, std::int64_t, std::int64_t) {
      struct End {
        Begun& begun;
        ~End() { ++begun.ended; }
      } end{*static_cast<Begun*>(context)};
      ++end.begun.chunks;
      throw std::runtime_error("no memory");
    };
    CHECK_THROWS_WITH_AS(parallel_for(0, 300, 1, throws, &begun), "no memory", std::runtime_error);
    CHECK(begun.chunks >= 1);
    CHECK(begun.chunks <= threads);
    CHECK(begun.ended == begun.chunks);
    Visits visits(300);
    parallel_for(0, 300, 1, visit, &visits);
    for (const auto& count : visits.counts) REQUIRE(count == 1);
  }
}

TEST_CASE("a thread that is set to another rounding mode rounds to nearest in a loop, and has its mode back") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  std::atomic<int> nearest = 0;
  std::fesetround(FE_UPWARD);
  on_both_threads([&] { nearest += std::fegetround() == FE_TONEAREST; });
  CHECK(std::fegetround() == FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  CHECK(nearest == 2);
}

// A parallel region of the caller's own, on two threads, as a compiler would write it.
extern "C" void GOMP_parallel(void (*body)(void*), void* context, unsigned threads, unsigned flags);

#ifndef __SANITIZE_THREAD__  // which does not see how libgomp orders a region
TEST_CASE("a call inside a parallel region of OpenMP runs inline") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  static std::atomic<int> pieces;
  pieces = 0;
  GOMP_parallel(
      [](void*) {
        Visits visits(1000);
        parallel_for(0, 1000, 1, visit, &visits);
        pieces += visits.pieces;
      },
      nullptr, 2, 0);
  CHECK(pieces == 2);
}
#endif

TEST_CASE("a child forked off after threads were started runs its loops alone and does not hang") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  Visits parent(1000);
  parallel_for(0, 1000, 1, visit, &parent);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);  // a hang ends in a signal
    Visits visits(1000);
    parallel_for(0, 1000, 1, visit, &visits);
    _exit(num_threads() == 1 && visits.pieces == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(num_threads() == 2);
}
