// disable(): a part of a compiled function that runs as plain C++.
#include <doctest/doctest.h>

#include <stdexcept>
#include <weft/effects.hpp>
#include <weft/weft.hpp>

#include "ir/node.hpp"
#include "trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// Element i of a tensor of f32.
float at(const Tensor& x, std::size_t i) { return numbers_of(x)[i]; }

int runs = 0, inner_runs = 0;

}  // namespace

TEST_CASE("a disabled function runs in each call, with the values of that call") {
  auto f = compile([](const Tensor& x) {
    const auto clipped = disable([](const Tensor& y) {
      ++inner_runs;
      CHECK(y.node()->trace == 0);
      return y.data<float>()[0] > 3 ? full({2}, 100.f) : y - 1;
    });
    const Tensor y = clipped(x * 2);
    return y * 3 + x;
  });
  inner_runs = 0;
  for (int i = 0; i < 5; ++i) CHECK(at(f(full({2}, 1.f * i)), 1) == (2 * i > 3 ? 300 + i : 3 * (2 * i - 1) + i));
  CHECK(inner_runs == 5);
  CHECK(specialization_count(f) == 1);
  const Explanation e = explain(f, full({2}, 1));
  CHECK(e.decisions[0].find("each call runs the function's code") == 0);
}

TEST_CASE("outside of compile it is the function") {
  const auto f = disable([](const Tensor& x, int n) { return x * n; });
  CHECK(at(f(full({2}, 3), 2), 0) == 6);
}

TEST_CASE("structures, several arguments, and what is written to an argument") {
  struct State {
    Tensor sum = zeros({2});
    int count = 0;
  };
  auto f = compile([](State& state, const Tensor& x) {
    state.sum = state.sum + x;
    const auto add = disable([](State& s, const Tensor& y, double factor) {
      s.sum = s.sum * factor + y.data<float>()[0];
      ++s.count;
      return std::pair{s.sum + 1, y};
    });
    const auto [a, same] = add(state, x * 2, 0.5);
    state.sum = state.sum + same;
    return a;
  });
  State state, plain;
  for (int i = 1; i < 5; ++i) {
    const Tensor x = full({2}, i);
    const Tensor given = f(state, x);
    plain.sum = (plain.sum + x) * 0.5 + 2. * i;
    CHECK(given.data<float>()[0] == at(plain.sum + 1, 0));
    plain.sum = plain.sum + x * 2;
    CHECK(state.sum.data<float>()[1] == plain.sum.data<float>()[1]);
    CHECK(state.count == i);
  }
}

TEST_CASE("a function without tensors gives inputs, not constants") {
  static float now;
  auto f = compile([](const Tensor& x) {
    const auto clock = disable([] { return full({}, now); });
    return x * clock();
  });
  for (int i = 0; i < 4; ++i) {
    now = 1.5f * static_cast<float>(i);
    CHECK(f(full({}, 2.f)).item() == 3 * i);
  }
  CHECK(explain(f, full({}, 2.f)).fallback.empty());
}

TEST_CASE("in it, compiled functions and gradients are as anywhere else") {
  static const auto inner = compile([](const Tensor& x) {
    ++runs;
    return grad([](const Tensor& x) { return sum(x * x); }, x);
  });
  auto f = compile([](const Tensor& x) { return disable([](const Tensor& y) { return inner(y + 1); })(x) * 2; });
  runs = 0;
  for (int i = 0; i < 4; ++i) CHECK(at(f(full({2}, i)), 0) == 4 * (i + 1));
  CHECK(runs <= 3);  // a trace, and checks
}

TEST_CASE("an exception passes, and state is as before") {
  auto f = compile([](Tensor& state, const Tensor& x) {
    state = state + x;
    disable([](const Tensor& s) {
      if (sum(s).item() > 5) throw std::runtime_error("too much");
    })(state);
  });
  Tensor state = zeros({2});
  f(state, ones({2}));
  f(state, ones({2}));
  CHECK_THROWS_WITH_AS(f(state, ones({2})), "too much", std::runtime_error);
  CHECK(sum(state).item() == 4);
}

TEST_CASE("what is caught inside of the compiled function leaves it going on") {
  auto f = compile([](const Tensor& x) {
    Tensor y = x * 2;
    try {
      disable([](Tensor& y) {
        y = y + 100;
        throw std::runtime_error("caught");
      })(y);
    } catch (const std::runtime_error&) {
      return x + 1;
    }
    return y;
  });
  for (int i = 0; i < 3; ++i) CHECK(f(full({}, 1.f * i)).item() == i + 1);
}

TEST_CASE("refused: where a derivative would go through it, in a loop, with fullgraph") {
  auto differentiated = compile([](const Tensor& x) {
    return grad([](const Tensor& x) { return sum(disable([](const Tensor& y) { return y * 2; })(x + 1)); }, x);
  });
  CHECK(message_of([&] { differentiated(ones({2})); })
            .find("[disable] an argument, f32[2], depends on what is differentiated, and no derivative goes through a "
                  "disabled function: apply stop_gradient to it, or use host_call with a derivative, at "
                  "disable_test.cpp:") == 0);
  auto beside = compile([](const Tensor& x) {
    return grad([&](const Tensor& w) { return sum(w * disable([](const Tensor& y) { return y * 2; })(x + 1)); }, x);
  });
  for (int i = 0; i < 3; ++i) CHECK(at(beside(full({2}, i)), 0) == 2 * (i + 1));
  auto looped = compile([](const Tensor& x) {
    return fori(
        0, 2, [](const Index&, Tensor y) { return disable([](const Tensor& y) { return y + 1; })(y); }, x);
  });
  CHECK(message_of([&] { looped(ones({2})); }).find("[disable] a disabled function reads values, which a loop's") == 0);
  auto full_graph =
      compile([](const Tensor& x) { return disable([](const Tensor& y) { return y + 1; })(x); }, {.fullgraph = true});
  CHECK(message_of([&] { full_graph(ones({2})); }).find("{.fullgraph = true}") != std::string::npos);
}

TEST_CASE("other shapes are compiled for, results of a device-independent kind keep their dtype") {
  auto f = compile([](const Tensor& x) {
    const Tensor found = disable([](const Tensor& y) { return cast(y, DType::f64) + 0.5; })(x);
    return cast(found * 2, DType::f32);
  });
  for (int n = 1; n < 5; ++n)
    for (int i = 0; i < 2; ++i) CHECK(at(f(full({n}, i)), n - 1) == 2 * i + 1);
}
