// Children that are forked while other threads are inside of Weft: none of them may hang, and each computes and
// compiles.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

TEST_CASE("twenty children, forked while other threads evaluate, call, trace and compile") {
  auto called = compile([](const Tensor& x) { return sum(exp(x) * 0.5, 0); });
  auto compiled = compile([](const Tensor& x, float number) { return matmul(x, transpose(x)) + number; },
                          {.recompile_limit = 100000, .cache_size = 4});
  auto traced = compile([](const Tensor& x, float number) { return x * number; },
                        {.backend = Backend::eager, .recompile_limit = 100000});
  const Tensor x = zeros({500, 30}).eval();
  const Numbers expected = numbers_of(called(x));
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  const auto start = [&](auto body) {
    threads.emplace_back([&done, body] {
      for (int i = 0; !done; ++i) body(i);
    });
  };
  start([&](int) { sum(exp(x + 1) * uniform({30})).eval(); });
  start([&](int) { called(x); });
  start([&](int i) { compiled(x, 2000.0f + static_cast<float>(i)); });
  start([&](int i) { traced(x, static_cast<float>(i)); });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(120);  // a hang ends in a signal
      bool right = numbers_of(called(x)) == expected;
      right = right && numbers_of(sum(x + 1, 1)) == Numbers(500, 30.0f);
      right = right && numbers_of(uniform({3})).size() == 3;
      right = right && numbers_of(traced(x, -1.0f)) == Numbers(15000, -0.0f);
      if (i % 4 == 0) {
        const float number = 0.5f + static_cast<float>(getpid());  // no cache has a kernel with it
        right = right && numbers_of(compiled(x, number)) == Numbers(250000, number);
        auto slope = compile([](const Tensor& v) { return grad([](const Tensor& w) { return sum(w * w); }, v); });
        right = right && numbers_of(slope(x + 1)) == Numbers(15000, 2.0f);
      }
      _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(numbers_of(called(x)) == expected);
}

namespace {
bool fork_now = false;
pid_t forked = -1;
}  // namespace

TEST_CASE("a process forked inside of a trace: both go on with it") {
  auto f = compile(
      [](const Tensor& x) {
        if (fork_now) forked = fork();
        if (forked == 0) alarm(60);
        return x + 1;
      },
      {.check = Check::never});
  fork_now = true;
  const Numbers numbers = numbers_of(f(vector_of({1, 2})));
  fork_now = false;
  const bool right = numbers == Numbers{2, 3} && numbers_of(f(vector_of({1, 2, 3}))) == Numbers{2, 3, 4};
  if (forked == 0) _exit(right ? 0 : 1);
  CHECK(right);
  int status = -1;
  waitpid(forked, &status, 0);
  CHECK(status == 0);
}
