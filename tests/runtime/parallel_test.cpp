#include "runtime/parallel.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/runtime/happens_before.hpp"
#include "tests/runtime/support.hpp"

using weft::num_threads;
using weft::parallel_for;

namespace {

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

}  // namespace

TEST_CASE("every index is visited once, in pieces of whole grains") {
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
        CHECK(visits.pieces <= std::min<std::int64_t>(threads, (size + grain - 1) / grain));
        CHECK((size == 0) == (visits.pieces == 0));
      }
    }
  }
}

TEST_CASE("work is shared between threads") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  Visits visits(1000);
  parallel_for(0, 1000, 10, visit, &visits);
  CHECK(visits.pieces == 2);
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

TEST_CASE("of the exceptions that pieces throw one arrives, after all pieces have ended") {
  const weft::test::KeepOptions keep;
  for (int threads : {1, 3}) {
    weft::options().num_threads = threads;
    std::atomic<int> begun = 0;
    const auto throws = [](void* begun, std::int64_t, std::int64_t) {
      ++*static_cast<std::atomic<int>*>(begun);
      throw std::runtime_error("no memory");
    };
    CHECK_THROWS_WITH_AS(parallel_for(0, 300, 1, throws, &begun), "no memory", std::runtime_error);
    CHECK(begun == threads);
    Visits visits(300);
    parallel_for(0, 300, 1, visit, &visits);
    CHECK(visits.pieces == threads);
  }
}

// A parallel region of the caller's own, on two threads, as a compiler would write it.
extern "C" void GOMP_parallel(void (*body)(void*), void* context, unsigned threads, unsigned flags);
void run_on_both_threads(void (*body)(void*), void* context) {
  struct Region {
    void (*body)(void*);
    void* context;
    char opened, closed;
  } static region;
  region = {body, context, 0, 0};
  WEFT_HAPPENS_BEFORE(&region.opened);
  GOMP_parallel(
      [](void*) {
        WEFT_HAPPENS_AFTER(&region.opened);
        region.body(region.context);
        WEFT_HAPPENS_BEFORE(&region.closed);
      },
      nullptr, 2, 0);
  WEFT_HAPPENS_AFTER(&region.closed);
}

TEST_CASE("threads that the caller set to another rounding mode round to nearest, and have their mode back") {
  const weft::test::KeepOptions keep;
  weft::options().num_threads = 2;
  struct Modes {
    std::atomic<int> upward = 0, nearest = 0;
  } before, during, after;
  const auto look = [](void* modes) {
    Modes& seen = *static_cast<Modes*>(modes);
    if (std::fegetround() == FE_UPWARD) ++seen.upward;
    if (std::fegetround() == FE_TONEAREST) ++seen.nearest;
  };
  run_on_both_threads([](void*) { std::fesetround(FE_UPWARD); }, nullptr);
  run_on_both_threads(look, &before);
  struct Call {
    void (*look)(void*);
    Modes& modes;
  } call{look, during};
  const auto body = [](void* call, std::int64_t, std::int64_t) {
    static_cast<Call*>(call)->look(&static_cast<Call*>(call)->modes);
  };
  parallel_for(0, 300, 1, body, &call);
  run_on_both_threads(look, &after);
  run_on_both_threads([](void*) { std::fesetround(FE_TONEAREST); }, nullptr);
  CHECK(before.upward == 2);
  CHECK(during.nearest == 2);
  CHECK(after.upward == 2);
}

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
