// A value that threads replace, in a child that is forked meanwhile.
#include "base/shared_value.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace weft;

TEST_CASE("a value that is replaced stays with those who have it") {
  SharedValue<const int> value;
  CHECK(value.load() == nullptr);
  CHECK(value.exchange(std::make_shared<const int>(1)) == nullptr);
  const auto first = value.load();
  CHECK(value.exchange(std::make_shared<const int>(2)) == first);
  CHECK(*first == 1);
  CHECK(*value.load() == 2);
}

TEST_CASE("threads that read at once count their uses apart, and all of them hold the value") {
  SharedValue<const int> value;
  value.exchange(std::make_shared<const int>(1));
  const auto here = value.load();
  std::shared_ptr<const int> there;
  std::thread([&] { there = value.load(); }).join();
  CHECK(here == there);
  CHECK((here.owner_before(there) || there.owner_before(here)));
  std::weak_ptr<const int> one = value.exchange(std::make_shared<const int>(2));
  CHECK(!one.expired());
  there.reset();
  CHECK(*here == 1);
  const std::weak_ptr<const int> own = here;
  CHECK(own.use_count() == 1);
}

TEST_CASE("a forked child reads and replaces what other threads of its parent read and replaced") {
  SharedValue<const int> value;
  const auto one = std::make_shared<const int>(1), two = std::make_shared<const int>(2);
  value.exchange(one);
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      while (!done) {
        for (int reads = 0; reads < 20; ++reads) (void)value.load();
        value.exchange(i == 0 ? one : two);
      }
    });
  int wrong = 0;
  for (int i = 0; i < 200 && wrong == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      const auto before = value.exchange(two);
      _exit(before && value.load() == two ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status != 0;
  }
  done = true;
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}
