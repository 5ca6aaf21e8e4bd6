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

TEST_CASE("gradients go through what a disabled function records, which runs once for them") {
  // Of the value's range another formula: a graph that only the values decide.
  static constexpr auto routed = [](const Tensor& y, const Tensor& scale) {
    ++inner_runs;
    return y.data<float>()[0] > 3 ? y * y * scale : sin(y) + scale;
  };
  static constexpr auto loss_of = [](const Tensor& w, const Tensor& x, auto part) {
    const Tensor y = part(matmul(x, w), sum(w));
    return sum(y * w) + mean(square(y));
  };
  auto f = compile([](const Tensor& w, const Tensor& x) {
    const auto [loss, gradient] = value_and_grad([&](const Tensor& w) { return loss_of(w, x, disable(routed)); }, w);
    return std::pair{loss, gradient * 2};
  });
  inner_runs = 0;
  for (int i = 0; i < 6; ++i) {
    const Tensor w = from_list({0.5f, 1.f + i, -0.25f}), x = full({3, 3}, 0.5f * i) + arange(3);
    const auto [loss, gradient] = f(w, x);
    CHECK(inner_runs == i + 1);
    const auto [plain_loss, plain] = value_and_grad([&](const Tensor& w) { return loss_of(w, x, routed); }, w);
    inner_runs = i + 1;
    CHECK(loss.item() == doctest::Approx(plain_loss.item()).epsilon(1e-5));
    for (std::size_t k = 0; k < 3; ++k) CHECK(at(gradient, k) == doctest::Approx(2 * at(plain, k)).epsilon(1e-5));
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("second derivatives, several results, what is written to an argument, and chains of disabled functions") {
  static constexpr auto first = [](Tensor& state, const Tensor& y, int power) {
    state = state + y;
    return std::pair{power == 2 ? y * y : y * y * y, exp(y * 0.5)};
  };
  static constexpr auto second = [](const Tensor& a, const Tensor& b) { return a * b + stop_gradient(a); };
  static constexpr auto run = [](const Tensor& x, auto first, auto second) {
    return grad(
        [&](const Tensor& x) {
          return sum(square(grad(
              [&](const Tensor& x) {
                Tensor state = x * 3;
                const auto [a, b] = first(state, x + 1, 3);
                return sum(second(a, b) * x) + sum(square(state));
              },
              x)));
        },
        x);
  };
  auto f = compile([](const Tensor& x) { return run(x, disable(first), disable(second)); });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = from_list({0.25f, -0.5f * i, 1.f});
    const Tensor given = f(x), plain = run(x, first, second);
    for (std::size_t k = 0; k < 3; ++k) CHECK(at(given, k) == doctest::Approx(at(plain, k)).epsilon(1e-4));
  }
}

TEST_CASE("what is differentiated through a disabled function of a training step is the model's") {
  struct Model {
    Param w = Param(full({2, 2}, 0.5f)), b = Param(zeros({2}));
    WEFT_MEMBERS(w, b)
  };
  static constexpr auto loss_of = [](const Model& m, const Tensor& x, auto part) {
    return mean(square(part(m, matmul(x, m.w.tensor())) - 1));
  };
  static constexpr auto part = [](const Model& m, const Tensor& y) { return tanh(y + m.b.tensor()) * m.w.tensor()[0]; };
  static constexpr auto step = [](Model& m, const Tensor& x, auto loss) {
    const auto gradients = grad([&](const Model& m) { return loss(m, x); }, m);
    m.w = m.w.tensor() - gradients.w.tensor() * 0.1;
    m.b = m.b.tensor() - gradients.b.tensor() * 0.1;
  };
  auto compiled = compile([](Model& m, const Tensor& x) {
    step(m, x, [](const Model& m, const Tensor& x) { return loss_of(m, x, disable(part)); });
  });
  Model a, b;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = full({3, 2}, 0.25f * i) + arange(2);
    compiled(a, x);
    step(b, x, [](const Model& m, const Tensor& x) { return loss_of(m, x, part); });
  }
  for (std::size_t k = 0; k < 4; ++k) CHECK(at(a.w.tensor(), k) == doctest::Approx(at(b.w.tensor(), k)).epsilon(1e-5));
  CHECK(at(a.b.tensor(), 1) == doctest::Approx(at(b.b.tensor(), 1)).epsilon(1e-5));
}

TEST_CASE("a gradient beside a disabled function; refused: in a loop, with fullgraph, where nothing depends") {
  auto constant = compile([](const Tensor& x) {
    return grad([](const Tensor& x) { return sum(disable([](const Tensor& y) { return stop_gradient(y) * 2; })(x)); },
                x);
  });
  CHECK(message_of([&] { constant(ones({2})); }).find("the loss does not depend on what it is") != std::string::npos);
  auto beside = compile([](const Tensor& x) {
    return grad([&](const Tensor& w) { return sum(w * disable([](const Tensor& y) { return y * 2; })(x + 1)); }, x);
  });
  for (int i = 0; i < 3; ++i) CHECK(at(beside(full({2}, i)), 0) == 2 * (i + 1));
  auto looped = compile([](const Tensor& x) {
    return fori(
        0, 2, [](const Index&, Tensor y) { return disable([](const Tensor& y) { return y + 1; })(y); }, x);
  });
  const std::string refusal = "[disable] a disabled function runs on values, and there are none ";
  CHECK(message_of([&] { looped(ones({2})); }).find(refusal + "in the body of a loop, which is recorded once") == 0);
  auto of_examples = compile([](const Tensor& x) {
    return vmap([](const Tensor& y) { return disable([](const Tensor& z) { return z + 1; })(y); })(x);
  });
  CHECK(message_of([&] { of_examples(ones({2, 2})); }).find(refusal + "inside vmap, which is recorded once") == 0);
  auto full_graph =
      compile([](const Tensor& x) { return disable([](const Tensor& y) { return y + 1; })(x); }, {.fullgraph = true});
  CHECK(message_of([&] { full_graph(ones({2})); }).find(refusal + "in a function that is compiled with {.fullgraph") ==
        0);
}

TEST_CASE("other shapes are compiled for, results of a device-independent kind keep their dtype") {
  auto f = compile([](const Tensor& x) {
    const Tensor found = disable([](const Tensor& y) { return cast(y, DType::f64) + 0.5; })(x);
    return cast(found * 2, DType::f32);
  });
  for (int n = 1; n < 5; ++n)
    for (int i = 0; i < 2; ++i) CHECK(at(f(full({n}, i)), n - 1) == 2 * i + 1);
}
