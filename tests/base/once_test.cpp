#include "base/once.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

TEST_CASE("once: what throws is done again by the next call, and nothing is done twice") {
  weft::Once once;
  int tries = 0;
  const auto make = [&] {
    if (++tries < 3) throw std::runtime_error("not yet");
  };
  CHECK_THROWS_AS(once(make), std::runtime_error);
  CHECK_THROWS_AS(once(make), std::runtime_error);
  for (int i = 0; i < 3; ++i) once(make);
  CHECK(tries == 3);
}

TEST_CASE("once: threads that come together wait for the one that does it") {
  weft::Once once;
  std::atomic<int> made{0};
  int seen = 0;  // what is done once is visible to all
  std::vector<std::jthread> threads;
  std::atomic<bool> all_saw{true};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      once([&] {
        std::this_thread::yield();
        seen = 7;
        ++made;
      });
      if (seen != 7) all_saw = false;
    });
  threads.clear();
  CHECK(made == 1);
  CHECK(all_saw);
}
