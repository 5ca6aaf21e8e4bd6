// Eager evaluation by several threads: of what each has recorded itself, and of values that they share before they are
// computed.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "record/evaluate.hpp"
#include "weft/grad.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

// f(id) on each of several threads, which begin together.
template <class F>
void on_threads(int count, F f) {
  std::atomic<int> waiting = count;
  std::vector<std::thread> threads;
  for (int id = 0; id < count; ++id)
    threads.emplace_back([&, id] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      f(id);
    });
  for (std::thread& thread : threads) thread.join();
}

float first_of(const Tensor& x) { return x.data<float>()[0]; }

}  // namespace

TEST_CASE("a thread evaluates what it has recorded while another one evaluates") {
  const EvaluationLock held;
  const std::uint64_t here = this_thread();
  int ended = 0;
  for (int i = 0; i < 2; ++i) {  // of two threads in a row one has another lock than this thread
    std::atomic<bool> done = false;
    std::thread other([&] {
      if (this_thread() % 32 == here % 32) return;
      CHECK(first_of(ones({3}) + 1) == 2);
      done = true;
    });
    other.join();
    ended += done;
  }
  CHECK(ended >= 1);
}

TEST_CASE("threads that evaluate the same pending values at once compute each once, and get the same") {
  for (int round = 0; round < 200; ++round) {
    Tensor shared = ones({64}) * static_cast<float>(round);
    for (int i = 0; i < 20; ++i) shared = shared + 1;
    std::vector<float> found(4);
    on_threads(4, [&](int id) {
      Tensor own = shared;
      for (int i = 0; i <= id; ++i) own = own * 2 + shared;
      found[static_cast<std::size_t>(id)] = first_of(own);
    });
    const float base = static_cast<float>(round) + 20;
    for (int id = 0; id < 4; ++id) {
      float expected = base;
      for (int i = 0; i <= id; ++i) expected = expected * 2 + base;
      REQUIRE(found[static_cast<std::size_t>(id)] == expected);
    }
  }
}

TEST_CASE("threads hand pending values on to each other, and each reads some") {
  Tensor passed[4];
  for (Tensor& each : passed) each = ones({8});
  for (int round = 0; round < 100; ++round) {
    Tensor next[4];
    on_threads(4, [&](int id) {
      const Tensor &own = passed[id], &other = passed[(id + round) % 4];
      next[id] = own + other * 0.5;
      if ((id + round) % 3 == 0) next[id].eval();
      if (round % 5 == 0) next[id] = next[id] / first_of(next[id]);
    });
    for (int id = 0; id < 4; ++id) passed[id] = next[id];
  }
  Tensor alone[4];
  for (Tensor& each : alone) each = ones({8});
  for (int round = 0; round < 100; ++round) {
    Tensor next[4];
    for (int id = 0; id < 4; ++id) {
      next[id] = alone[id] + alone[(id + round) % 4] * 0.5;
      if (round % 5 == 0) next[id] = next[id] / first_of(next[id]);
    }
    for (int id = 0; id < 4; ++id) alone[id] = next[id];
  }
  for (int id = 0; id < 4; ++id) CHECK(first_of(passed[id]) == first_of(alone[id]));
}

TEST_CASE("another thread may compute a part of what is differentiated, and evaluate it") {
  for (int round = 0; round < 50; ++round) {
    // A thread that has recorded much has higher numbers than this one; one that is new has lower ones.
    Tensor busy = ones({4});
    if (round % 2 == 0)
      std::thread([&] {
        for (int i = 0; i < 3000; ++i) busy = (busy * 1).eval();
      }).join();
    const Tensor constant = busy;
    const Tensor gradient = grad(
        [&](const Tensor& x) {
          Tensor y = x * 3;
          std::thread([&] {
            y = y * constant + x;
            y.eval();
            y = y * y;
          }).join();
          return sum(y);
        },
        full({4}, 2));
    REQUIRE(first_of(gradient) == 64);  // of (4 x)^2
  }
}

TEST_CASE("threads that differentiate at once get their own gradients") {
  std::vector<int> wrong(4, 0);
  on_threads(4, [&](int id) {
    for (int i = 1; i <= 50; ++i) {
      const Tensor x = full({16}, i);
      const Tensor g = grad(
          [&](const Tensor& v) {
            Tensor y = v * static_cast<float>(id + 1);
            if (i % 2) y.eval();
            return sum(y * v);
          },
          x);
      wrong[static_cast<std::size_t>(id)] += first_of(g) != static_cast<float>(2 * (id + 1) * i);
    }
  });
  CHECK(wrong == std::vector<int>(4, 0));
}
