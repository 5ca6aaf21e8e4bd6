// One compiled function called from several threads: same and different arguments, while it is compiled for others.
#include <thread>

#include "tests/trace/support.hpp"

using namespace weft;
using namespace trace_test;

TEST_CASE("threads share specializations and get their own results") {
  auto f = compile(
      [](Tensor& state, const Tensor& x) {
        state = state + x;
        return state * 2;
      },
      {.recompile_limit = 100, .cache_size = 3});
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
