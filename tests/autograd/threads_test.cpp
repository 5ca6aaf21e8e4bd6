// What threads may share: a model that they differentiate and only read, and values that are still pending.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

using namespace weft;

namespace {

struct Shared {
  nn::Linear first{3, 4}, second{4, 1};
  Buffer scale = ones({4});
  int calls = 0;
};
constexpr int threads = 4;

template <class F>
int wrong_in_threads(F body) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> running;
  for (int id = 0; id < threads; ++id)
    running.emplace_back([&, id] {
      try {
        wrong += body(id);
      } catch (...) {
        wrong += 1;
      }
    });
  for (std::thread& thread : running) thread.join();
  return wrong;
}
bool equal_everywhere(const Tensor& a, const Tensor& b) { return all(a == b).item<bool>(); }

Tensor loss_of(const Shared& m, const Tensor& x) { return sum(m.second(tanh(m.first(x)) * m.scale)); }

}  // namespace

TEST_CASE("four threads differentiate one model that is not const and that they only read") {
  for (int round = 0; round < 5; ++round) {
    Shared model;  // its first values are pending: threads meet there too
    const Tensor x = sin(arange(6, {DType::f32})) + 0;
    const Tensor rows = reshape(x, {2, 3});
    std::vector<Tensor> gradients(threads);
    const Tensor before = model.first.weight;
    CHECK(wrong_in_threads([&](int id) {
            int wrong = 0;
            for (int i = 0; i < 50; ++i) {
              Shared g = id % 2 ? grad([&](const Shared& m) { return loss_of(m, rows); }, model)
                                : grad([&](Shared& m) { return loss_of(m, rows); }, model);
              Tensor now = g.first.weight;
              now.eval();
              if (i > 0) wrong += !equal_everywhere(now, gradients[static_cast<std::size_t>(id)]);
              gradients[static_cast<std::size_t>(id)] = now;
            }
            return wrong;
          }) == 0);
    CHECK(model.first.weight.tensor().same(before));
    const Shared alone = grad([&](const Shared& m) { return loss_of(m, rows); }, model);
    for (const Tensor& gradient : gradients) CHECK(equal_everywhere(gradient, alone.first.weight));
  }
}

TEST_CASE("threads evaluate, use and differentiate through values that are pending in all of them") {
  for (int round = 0; round < 40; ++round) {
    Tensor shared = arange(100, {DType::f32});
    for (int i = 0; i < 20; ++i) shared = shared * 1.5f - shared * 0.5f;
    const Tensor half = shared * 0.5f;
    CHECK(wrong_in_threads([&](int id) {
            Tensor sum_of_all = id % 2 ? sum(shared) : sum(half) * 2;
            int wrong = sum_of_all.item() != 4950;
            const Tensor gradient = grad([&](const Tensor& v) { return sum(v * shared + v * half); }, ones({100}));
            return wrong + (sum(gradient).item() != 4950 * 1.5);
          }) == 0);
  }
}

TEST_CASE("compiled functions of several threads evaluate pending arguments that they share") {
  const auto f = compile([](const Tensor& x) { return sum(x * 2); });
  for (int round = 0; round < 40; ++round) {
    const Tensor shared = arange(100, {DType::f32}) + 1 - 1;
    CHECK(wrong_in_threads([&](int) { return f(shared).item() != 9900; }) == 0);
  }
}

TEST_CASE("what f writes to buffers and numbers of its model stays, and nothing of it where f throws") {
  Shared model;
  const Tensor x = ones({1, 3});
  auto f = [&](Shared& m) {
    m.scale = m.scale * 2;
    ++m.calls;
    m.first.weight = m.first.weight * 2;
    return loss_of(m, x);
  };
  const Tensor weight = model.first.weight;
  grad(f, model);
  CHECK(equal_everywhere(model.scale, full({4}, 2)));
  CHECK(model.calls == 1);
  CHECK(model.first.weight.tensor().same(weight));
  auto throws = [&](Shared& m) -> Tensor {
    f(m);
    throw 1;
  };
  CHECK_THROWS_AS(grad(throws, model), int);
  CHECK(equal_everywhere(model.scale, full({4}, 2)));
  CHECK(model.calls == 1);
  std::vector<Tensor> list = {ones({2})};
  auto grows = [](std::vector<Tensor>& v) {
    v.push_back(v[0] * 2);
    return sum(v[0]);
  };
  CHECK_THROWS_WITH_AS(grad(grows, list), doctest::Contains("must not change lengths"), Error);
  CHECK(list.size() == 1);
}

TEST_CASE("what f computes in another thread, and what another thread computes of f's values, keeps its gradient") {
  const Tensor x = ones({4});
  const Tensor gradient = grad(
      [&](const Tensor& w) {
        Tensor b, c;
        std::thread([&] {
          b = x * 2.0f;
          b.eval();
          c = w * 3.0f;
          c.eval();
        }).join();
        return sum(w * b + c);
      },
      ones({4}));
  CHECK(equal_everywhere(gradient, full({4}, 5)));
}

TEST_CASE("another thread may evaluate a value of f while it is differentiated") {
  for (int round = 0; round < 20; ++round) {
    Tensor shown;
    std::atomic<bool> ready = false;
    std::thread reader([&] {
      while (!ready) std::this_thread::yield();
      shown.eval();
    });
    const Tensor gradient = grad(
        [&](const Tensor& w) {
          Tensor y = w;
          for (int i = 0; i < 400; ++i) {
            y = y * 1.0f;
            if (i == 200) shown = y;
          }
          ready = true;
          return sum(y);
        },
        ones({3}));
    reader.join();
    CHECK(equal_everywhere(gradient, ones({3})));
  }
}
