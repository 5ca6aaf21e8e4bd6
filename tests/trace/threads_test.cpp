// One compiled function called from several threads: same and different arguments, while it is compiled for others.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/fork.hpp"
#include "tests/trace/support.hpp"
#include "trace/function.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

TEST_CASE("threads share specializations and get their own results") {
  auto f = compile(
      [](Tensor& state, const Tensor& x) {
        state = state + x;
        return state * 2;
      },
      {.dynamic = false, .recompile_limit = 100, .cache_size = 3});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t id = 0; id < 4; ++id)
    threads.emplace_back([&, id] {
      for (int round = 0; round < 30; ++round) {
        std::int64_t size = 1 + (round + static_cast<int>(id)) % 6;
        Tensor state = zeros({size});
        for (int i = 1; i <= 3; ++i) {
          Tensor y = f(state, ones({size}));
          wrong[id] += numbers_of(y) != Numbers(static_cast<std::size_t>(size), 2.0f * static_cast<float>(i));
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
  CHECK(specialization_count(f) >= 6);
}

namespace {
struct Twins {
  Param left{zeros({64})}, right{zeros({64})};
};
}  // namespace

TEST_CASE("one thread trains a model while others serve copies of it") {
  auto step = compile([](Twins& m, const Tensor& x) {
    m.left = m.left + x;
    m.right = m.right + x;
  });
  auto serve = compile([](const Twins& m, const Tensor& x) { return stack({sum(m.left * x), sum(m.right * x)}); });
  const Tensor x = ones({64}).eval();
  std::mutex mutex;
  Twins latest;
  constexpr int steps = 300;
  std::atomic<int> wrong = 0;
  std::atomic<bool> ended = false;
  std::vector<std::thread> servers;
  for (int id = 0; id < 3; ++id)
    servers.emplace_back([&] {
      float before = 0;
      while (!ended) {
        const Twins own = [&] {
          const std::lock_guard lock(mutex);
          return latest;
        }();
        const Numbers first = numbers_of(serve(own, x)), again = numbers_of(serve(own, x));
        wrong += first[0] != first[1] || first != again || first[0] < before || std::fmod(first[0], 64) != 0;
        before = first[0];
      }
    });
  Twins model;
  for (int i = 0; i < steps; ++i) {
    step(model, x);
    const std::lock_guard lock(mutex);
    latest = model;
  }
  ended = true;
  for (std::thread& thread : servers) thread.join();
  CHECK(wrong == 0);
  CHECK(numbers_of(serve(latest, x)) == Numbers(2, 64.0f * steps));
  CHECK(specialization_count(serve) == 1);
}

TEST_CASE("threads that draw from the default generator at once draw different numbers") {
  constexpr std::int64_t size = 20000;  // long enough for threads to meet
  auto draw = compile([](const Tensor& x) { return x + uniform({size}); });
  seed(7);
  draw(zeros({size})).eval();
  constexpr std::size_t threads = 4, draws = 50;
  std::vector<Numbers> drawn(threads * draws);
  std::vector<std::thread> running;
  for (std::size_t id = 0; id < threads; ++id)
    running.emplace_back([&, id] {
      for (std::size_t i = 0; i < draws; ++i)
        drawn[id * draws + i] = numbers_of(slice(id % 2 ? uniform({size}) : draw(zeros({size})), 0, 0, 4));
    });
  for (std::thread& thread : running) thread.join();
  std::sort(drawn.begin(), drawn.end());
  CHECK(std::adjacent_find(drawn.begin(), drawn.end()) == drawn.end());
}

namespace {
// Whether a call on a thread that has made it before ends while this one holds every mutex of the process.
template <class Call>
bool ends_without_locks(Call call, double seconds) {
  enum { warming, warm, go, ended };
  std::atomic<int> stage = warming;
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) call();
    stage = warm;
    while (stage != go) std::this_thread::yield();
    call();
    stage = ended;
  });
  while (stage != warm) std::this_thread::yield();
  constexpr int count = static_cast<int>(LockOrder::count);
  for (int i = 0; i < count; ++i) process_mutex(static_cast<LockOrder>(i)).lock();
  stage = go;
  for (double waited = 0; stage != ended && waited < seconds; waited += 1e-3)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool has_ended = stage == ended;
  for (int i = count; i-- > 0;) process_mutex(static_cast<LockOrder>(i)).unlock();
  other.join();
  return has_ended;
}
}  // namespace

TEST_CASE("a call that has been seen takes a lock only to draw, for pending arguments, and for large blocks") {
  auto compiled = compile([](const Tensor& x) { return (x + 1) * 2; }, {.check = Check::never});
  auto draws = compile([](const Tensor& x) { return x + uniform({16}); }, {.check = Check::never});
  const Tensor small = ones({16}).eval(), large = ones({100000}).eval();
  CHECK(ends_without_locks([&] { compiled(small); }, 20));
  CHECK_FALSE(ends_without_locks([&] { compiled(small + 1); }, 0.1));
  CHECK_FALSE(ends_without_locks([&] { compiled(large); }, 0.1));
  CHECK_FALSE(ends_without_locks([&] { draws(small); }, 0.1));
}

TEST_CASE("calls of a function on two threads count themselves in different cache lines, and nothing but themselves") {
  auto f = compile([](const Tensor& x) { return (x + 1) * 2; }, {.check = Check::never});
  const Tensor x = ones({16}).eval();
  f(x);
  detail::Function& function = *f.function().get();
  const std::uint64_t ticks = function.tick;
  for (int i = 0; i < 10; ++i) f(x);
  CHECK(function.tick == ticks);
  CHECK(function.current.load()->list.front()->calls == 0);
  CHECK(function.readers.count() == 0);
  detail::Readers::Count* const here = function.readers.enter(this_thread());
  bool apart = false;  // of two threads one has another line than this one: lines follow the numbers of threads
  for (int i = 0; i < 2; ++i)
    std::thread([&] {
      detail::Readers::Count* const there = function.readers.enter(this_thread());
      apart = apart || std::abs(reinterpret_cast<char*>(here) - reinterpret_cast<char*>(there)) >= 64;
      function.readers.leave(there);
    }).join();
  CHECK(apart);
  CHECK(function.readers.count() == 1);
  function.readers.leave(here);
}
