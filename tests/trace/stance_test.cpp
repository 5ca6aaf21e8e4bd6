// Kernels that are made in the background, ahead of calls, or not at all.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <weft/weft.hpp>

#include "base/log.hpp"
#include "base/options.hpp"
#include "runtime/host/jit.hpp"
#include "tests/needs_compiler.hpp"

using namespace weft;
using namespace weft::test;

namespace {

Tensor wave(const Tensor& x) { return sum(sin(x) * 2 + cos(x), 1); }
// A value that no other test of this file computes, so that its kernels are not in memory.
template <int number>
Tensor of_its_own(const Tensor& x) {
  return sin(x * (number + 0.5)) - tanh(x + number);
}
int runs = 0;
Tensor counted_run(const Tensor& x) {
  ++runs;
  return x * 2 + 1;
}

// Of the threads of this process, how many have this niceness: field 19 of proc(5), the 17th after the name.
int threads_of_niceness(int wanted) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "stat");
    std::string text;
    std::getline(file, text);
    std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
    for (int i = 0; i < 17; ++i) fields >> text;
    count += text == std::to_string(wanted);
  }
  return count;
}

bool near(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>() < 1e-5; }

}  // namespace

TEST_CASE("an async function runs eagerly until its kernels are there, and gives the same" * needs(a_compiler)) {
  Generator generator(1);
  auto f = compile(wave, {.check = Check::never, .async = true});
  const Tensor x = uniform({64, 33}, -1, 1, generator);
  for (int i = 0; i < 3; ++i) CHECK(near(f(x), wave(x)));
  wait_compiled(f);
  CHECK(near(f(x), wave(x)));
  CHECK(explain(f, x).kernels.size() == 1);
  CHECK(explain(f, x).fallback.empty());
  CHECK(near(f(uniform({5, 7}, -1, 1, generator)), wave(zeros({5, 7}))) == false);
  wait_compiled(f);
  CHECK(specialization_count(f) == 2);
}

TEST_CASE("kernels are begun when the call that asks for them has ended" * needs(a_compiler)) {
  static std::string compiler;  // there is none until the call is about to end
  auto f = compile(
      [](const Tensor& x) {
        host_call([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(60));
          weft::options().compiler = compiler;
        });
        return of_its_own<5>(x);
      },
      {.check = Check::never, .async = true});
  const Tensor x = full({30}, 0.5);
  compiler = std::exchange(weft::options().compiler, "/nonexistent/compiler");
  CHECK(near(f(x), of_its_own<5>(x)));
  wait_compiled(f);
  CHECK(explain(f, x).fallback.empty());
}

TEST_CASE("state is written once a call, whoever runs it") {
  struct Counter {
    Buffer total;
  } counter{Buffer(zeros({4}))};
  auto f = compile(
      [](Counter& c, const Tensor& x) {
        c.total = c.total + x * 3;
        return sum(c.total);
      },
      {.async = true});
  const Tensor x = full({4}, 1);
  double expected = 0;
  for (int i = 0; i < 20; ++i) {
    if (i == 10) wait_compiled(f);
    expected += 12;
    CHECK(f(counter, x).item<double>() == expected);
  }
}

TEST_CASE("decisions and loops in the background") {
  auto f = compile(
      [](Tensor x) {
        int rounds = 0;
        while (sum(x).item<bool>() && rounds < 40) {
          x = maximum(x - 1, 0);
          ++rounds;
        }
        return x + rounds;
      },
      {.async = true});
  for (int i = 0; i < 12; ++i) {
    const Tensor y = f(full({16}, 3 * i));
    CHECK(max(abs(y - 3 * i)).item<double>() == 0);
    if (i == 6) wait_compiled(f);
  }
  wait_compiled(f);  // the next test changes the compiler
}

TEST_CASE("a compile error in the background is reported, and the function goes on") {
  const struct Broken {
    std::string compiler = std::exchange(weft::options().compiler, "/nonexistent/compiler");
    ~Broken() { weft::options().compiler = compiler; }
  } broken;
  auto f = compile(of_its_own<1>, {.on_compile_error = OnFailure::raise, .async = true});
  const Tensor x = full({30}, 0.5);
  CHECK(near(f(x), of_its_own<1>(x)));
  CHECK_THROWS_AS(wait_compiled(f), CompileError);
  CHECK(near(f(x), of_its_own<1>(x)));
  CHECK(explain(f, x).fallback.find("nonexistent") != std::string::npos);
  wait_compiled(f);  // said once
}

TEST_CASE("warm_up compiles, computes nothing and writes no state") {
  struct Counter {
    Buffer total;
  } counter{Buffer(zeros({4}))};
  auto f = compile([](Counter& c, const Tensor& x) {
    c.total = c.total + x;
    return c.total * 2;
  });
  const Tensor x = full({4}, 1);
  CHECK_FALSE(is_compiled(f, counter, x));
  warm_up(f, counter, x);
  CHECK(is_compiled(f, counter, x));
  CHECK(sum(counter.total).item<double>() == 0);
  const StanceScope scope(Stance::fail_on_recompile);
  CHECK(sum(f(counter, x)).item<double>() == 8);
}

TEST_CASE("stances") {
  const Tensor x = full({6}, 1), y = full({3, 2}, 1);
  auto f = compile(counted_run, {.check = Check::never});
  runs = 0;
  {
    const StanceScope scope(Stance::force_eager);
    CHECK(sum(f(x)).item<double>() == 18);
    CHECK(specialization_count(f) == 0);
    CHECK(runs == 1);
  }
  {
    const StanceScope scope(Stance::eager_then_compile);
    f(x);
    CHECK(specialization_count(f) == 0);
    f(x);
    CHECK(specialization_count(f) == 1);
    CHECK(runs == 3);
    f(x);
    CHECK(runs == 3);
  }
  {
    const StanceScope scope(Stance::eager_on_recompile);
    CHECK(sum(f(y)).item<double>() == 18);
    CHECK(sum(f(x)).item<double>() == 18);
    CHECK(specialization_count(f) == 1);
    CHECK(runs == 4);
  }
  {
    const StanceScope scope(Stance::fail_on_recompile);
    CHECK(sum(f(x)).item<double>() == 18);
    CHECK_THROWS_WITH_AS(f(y), doctest::Contains("fail_on_recompile"), Error);
    {
      const StanceScope inner(Stance::compile);
      f(y);
    }
    f(y);
  }
  set_stance(Stance::force_eager);
  runs = 0;
  f(x);
  CHECK(runs == 1);
  std::thread([&] { f(x); }).join();
  CHECK(runs == 2);
  set_stance(Stance::compile);
  f(x);
  CHECK(runs == 2);
}

TEST_CASE("a stance counts for outcomes that are new") {
  auto f = compile([](const Tensor& x) { return sum(x) > 0 ? x * 2 : x - 1; });
  const Tensor x = full({6}, 1);
  f(x);
  const StanceScope scope(Stance::eager_on_recompile);
  CHECK(sum(f(-x)).item<double>() == -12);
  CHECK(explain(f, x).decisions.size() == 1);
  const StanceScope inner(Stance::fail_on_recompile);
  CHECK_THROWS_WITH_AS(f(-x), doctest::Contains("fail_on_recompile"), Error);
  CHECK(sum(f(x)).item<double>() == 12);
}

TEST_CASE("threads call and compile one function at once, each key once") {
  auto f = compile(of_its_own<2>, {.dynamic = false, .recompile_limit = 32});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const Tensor x = full({3 + (t + i) % 4, 5}, 0.25 * t);
        if (!near(f(x), of_its_own<2>(x))) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(specialization_count(f) == 4);
}

TEST_CASE("a child that is forked while kernels are made makes its own") {
  auto f = compile(of_its_own<3>, {.async = true});
  const Tensor x = full({9}, 0.5);
  f(x);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const bool first = near(f(x), of_its_own<3>(x));
    wait_compiled(f);
    _exit(first && near(f(x), of_its_own<3>(x)) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  wait_compiled(f);
}

TEST_CASE("the threads that make kernels are nicer than the process by 4, whatever its own niceness is") {
  auto f = compile(of_its_own<4>, {.async = true});
  const Tensor x = full({9}, 0.5);
  const pid_t child = fork();  // where these threads are not yet
  if (child == 0) {
    alarm(60);
    const int own = std::min(getpriority(PRIO_PROCESS, 0) + 3, 19);
    setpriority(PRIO_PROCESS, 0, own);
    f(x);
    wait_compiled(f);
    const auto made = [&] { return threads_of_niceness(std::min(own + 4, 19)) > 0; };
    while (!made()) usleep(1000);  // a thread sets its own
    _exit(getpriority(PRIO_PROCESS, 0) == own ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
