// Compiled functions called inside value_and_grad and grad: values, gradients and state are those of the plain
// function, and both directions are compiled.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "base/fail.hpp"
#include "ir/node.hpp"
#include "tests/trace/support.hpp"
#include "weft/backends.hpp"
#include "weft/effects.hpp"
#include "weft/grad.hpp"
#include "weft/graph.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"
#include "weft/stance.hpp"
#include "weft/taps.hpp"
#include "weft/transforms.hpp"

using namespace weft;
using namespace trace_test;

namespace {

template <class M>
std::vector<Tensor> tensors_of(const M& value) {
  detail::LeafList leaves;
  M copy = detail::clone<M>(value);
  detail::flatten(copy, leaves);
  std::vector<Tensor> tensors;
  for (const detail::Leaf& leaf : leaves.leaves)
    if (detail::holds_tensor(leaf.kind) && leaf.tensor().defined()) tensors.push_back(leaf.tensor());
  return tensors;
}

// The largest difference of the tensors, relative to the largest element of each.
template <class M>
double difference(const M& a, const M& b) {
  const std::vector<Tensor> left = tensors_of(a), right = tensors_of(b);
  REQUIRE(left.size() == right.size());
  double greatest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    REQUIRE(left[i].shape().same(right[i].shape()));
    if (left[i].element_count().constant() == 0) continue;
    const Tensor x = cast(left[i], DType::f64), y = cast(right[i], DType::f64);
    const double scale = std::max(1e-3, amax(abs(x)).item<double>());
    greatest = std::max(greatest, amax(abs(x - y)).item<double>() / scale);
  }
  return greatest;
}

// The model is differentiated around a call of f(model, x): plainly, and compiled by each backend. Each way sees the
// same random numbers, and a model of its own.
template <class M, class F>
void check_model(F f, const M& model, const Tensor& x, double bound) {
  const auto run = [&](auto function, M& own) {
    seed(17);
    std::vector<ValueAndGrad<Tensor, M>> steps;
    for (int i = 0; i < 2; ++i)
      steps.push_back(value_and_grad([&](M& m) { return mean(square(function(m, x) - 0.5)) * 8; }, own));
    return steps;
  };
  M plain_model = detail::clone<M>(model);
  const auto plain = run(f, plain_model);
  for (const Backend backend : {Backend::compiled, Backend::eager}) {
    CAPTURE(static_cast<int>(backend));
    M own = detail::clone<M>(model);
    const auto compiled = compile(f, {.backend = backend});
    const auto found = run(compiled, own);
    CHECK(specialization_count(compiled) == 1);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(difference(plain[i].value, found[i].value) <= bound);
      CHECK(difference(plain[i].gradients, found[i].gradients) <= bound);
    }
    CHECK(difference(plain_model, own) <= bound);
  }
}

struct Mlp {
  nn::Linear in{12, 24}, out{24, 4};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};
struct Normed {
  nn::Linear in{12, 16};
  nn::BatchNorm1d norm{16};
  nn::Linear out{16, 3};
  Tensor operator()(const Tensor& x) { return out(gelu(norm(in(x)))); }
};
struct Dropped {
  nn::Linear in{12, 32}, out{32, 3};
  Tensor operator()(const Tensor& x) const { return out(tanh(nn::dropout(in(x), 0.4, true))); }
};
struct Embedded {
  nn::Embedding table{20, 8};
  nn::LayerNorm norm{8};
  Tensor operator()(const Tensor& x) const { return norm(table(cast(abs(x) * 4, DType::i64))); }
};
struct Pictures {
  nn::Conv2d conv{2, 4, 3};
  Tensor operator()(const Tensor& x) const { return relu(conv(reshape(x, {4, 2, 6, 6}))); }
};
}  // namespace

TEST_CASE("models inside a level: values, gradients, state and random numbers are the plain function's") {
  seed(5);
  const Tensor x = normal({6, 12});
  SUBCASE("MLP") {
    check_model([](const Mlp& m, const Tensor& x) { return m(x); }, Mlp(), x, 1e-6);
  }
  SUBCASE("batch norm") {
    check_model([](Normed& m, const Tensor& x) { return m(x); }, Normed(), x, 1e-5);
  }
  SUBCASE("dropout") {
    check_model([](const Dropped& m, const Tensor& x) { return m(x); }, Dropped(), x, 1e-6);
  }
  SUBCASE("embedding") {
    check_model([](const Embedded& m, const Tensor& x) { return m(x); }, Embedded(), x, 1e-6);
  }
  SUBCASE("convolution") {
    check_model([](const Pictures& m, const Tensor& x) { return m(x); }, Pictures(), normal({4, 72}), 1e-5);
  }
  SUBCASE("transformer block") {
    check_model([](const nn::TransformerEncoderLayer& m, const Tensor& x) { return m(x); },
                nn::TransformerEncoderLayer(16, 4, {.dim_feedforward = 32, .dropout = 0.1}), normal({5, 2, 16}), 1e-5);
  }
  SUBCASE("LSTM") {
    check_model([](const nn::LSTM& m, const Tensor& x) { return m(x).output; }, nn::LSTM(8, 6), normal({4, 3, 8}),
                1e-5);
  }
}

TEST_CASE("elementwise functions inside a level have the plain function's bits") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const Tensor y = exp(x * w) + sin(x) / (w + 3);
    return where(y > 1, y * tanh(w), sqrt(abs(x) + 0.25) - w);
  };
  const auto compiled = compile(f);
  const Tensor x = normal({7, 33});
  const auto run = [&](auto function) {
    return value_and_grad([&](const std::pair<Tensor, Tensor>& p) { return sum(function(p.first, p.second)); },
                          std::pair{x, normal({33}) * 0 + 0.7});
  };
  const auto plain = run(f), found = run(compiled);
  CHECK(specialization_count(compiled) == 1);
  CHECK(text_of(plain.value) == text_of(found.value));
  CHECK(text_of(plain.gradients.first) == text_of(found.gradients.first));
  CHECK(text_of(plain.gradients.second) == text_of(found.gradients.second));
}

TEST_CASE("derivatives of any order go through a compiled function") {
  const auto f = [](const Tensor& x) { return x * x * x + sin(x) * exp(x); };
  const auto compiled = compile(f);
  const Tensor x = vector_of({0.5, -1, 2});
  const auto orders = [&](auto function) {
    const auto first = [&](const Tensor& x) { return grad([&](const Tensor& x) { return sum(function(x)); }, x); };
    const auto second = [&](const Tensor& x) { return grad([&](const Tensor& x) { return sum(first(x)); }, x); };
    return Numbers{numbers_of(first(x))[1], numbers_of(second(x))[1],
                   numbers_of(grad([&](const Tensor& x) { return sum(second(x)); }, x))[1]};
  };
  const Numbers plain = orders(f), found = orders(compiled);
  for (std::size_t i = 0; i < 3; ++i) CHECK(found[i] == doctest::Approx(plain[i]).epsilon(1e-5));
  CHECK(specialization_count(compiled) == 1);
}

TEST_CASE("tangents of a call are compiled, and those of its derivative too") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    return std::pair{softmax(matmul(tanh(matmul(x, w)), w), 1), sum(x * x, 1)};
  };
  const auto compiled = compile(f, {.recompile_limit = 64});
  const Tensor w = normal({4, 4}), t = normal({4, 4});
  using Two = std::pair<Tensor, Tensor>;
  for (const std::int64_t size : {3, 3, 5, 9}) {
    CAPTURE(size);
    const Tensor x = normal({size, 4});
    const auto all = [&](auto function) {
      const auto weights = [&](const Tensor& w) { return function(x, w).first * x; };
      const auto number = [&](const Tensor& w) { return sum(weights(w)) + sum(w * w * w); };
      const auto both = [&](const Two& p) { return function(p.first, p.second); };
      const auto [values, tangents] = jvp(both, Two{x, w}, Two{x, t});
      const auto twice = jvp([&](const Tensor& w) { return jvp(weights, w, t).tangent; }, w, w).tangent;
      const auto mixed = grad([&](const Tensor& w) { return sum(square(jvp(weights, w, t).tangent)); }, w);
      return std::vector{values.first,      values.second, tangents.first, tangents.second, jvp(weights, w, t).tangent,
                         hvp(number, w, t), twice,         mixed};
    };
    const std::vector<Tensor> plain = all(f), found = all(compiled);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(plain[i], found[i]) <= 2e-5);
    }
  }
  std::string text;
  for (const std::string& line : explain(compiled, normal({3, 4}), w).derivatives) text += line + "\n";
  CHECK(contains(text, "tangents of outputs "));
  // An undefined tangent is zero, and what does not depend has the tangent 0.
  const Tensor x = normal({3, 4});
  const auto [value, tangent] = jvp([&](const Two& p) { return compiled(p.first, p.second); }, Two{x, w}, Two{{}, t});
  CHECK(difference(tangent.second, zeros({3})) == 0);
  CHECK(difference(tangent.first, jvp([&](const Tensor& w) { return f(x, w).first; }, w, t).tangent) <= 2e-5);
  // A while_loop has one.
  const auto root = compile([](const Tensor& a) {
    const auto next = [&](const Tensor& s) { return (s + a / s) / 2; };
    return while_loop([&](const Tensor& s) { return any(abs(next(s) - s) > 1e-6); }, next, a);
  });
  const Tensor a = vector_of({2, 9});
  CHECK(difference(jvp(root, a, ones({2})).tangent, 0.5 / sqrt(a)) <= 1e-5);
}

TEST_CASE("second derivatives go through what a call keeps") {
  const auto f = [](const Tensor& x, const Tensor& w) { return softmax(matmul(tanh(matmul(x, w)), w), 1); };
  const auto compiled = compile(f);
  const Tensor x = normal({3, 4}), w = normal({4, 4});
  const auto second = [&](auto function) {
    return grad(
        [&](const Tensor& w) {
          return sum(square(grad([&](const Tensor& w) { return sum(function(x, w) * x) + sum(w * w); }, w)));
        },
        w);
  };
  CHECK(difference(second(f), second(compiled)) <= 2e-5);
}

TEST_CASE("which arguments are differentiated is guarded; calls that differentiate none are ordinary ones") {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(x * w * w); });
  const Tensor x = vector_of({1, 2}), w = vector_of({3, 4});
  CHECK(f(x, w).item() == 41);
  CHECK(numbers_of(grad([&](const Tensor& w) { return f(x, w); }, w)) == Numbers{6, 16});
  CHECK(specialization_count(f) == 2);
  CHECK(contains(last_recompile_reason(f), "argument 1"));
  CHECK(contains(last_recompile_reason(f), "was not differentiated by a level around the call, is"));
  CHECK(numbers_of(grad([&](const Tensor& x) { return f(x, w); }, x)) == Numbers{9, 16});
  CHECK(specialization_count(f) == 3);
  const auto scaled = compile([](const Tensor& x, Scalar rate) { return sum(x * x * rate); });
  CHECK(grad([&](Scalar rate) { return scaled(x, rate); }, Scalar(3)).item() == 5);
  // Neither depends on a variable: one of the level, or behind stop_gradient.
  const Tensor both = grad([&](const Tensor& w) { return sum(w) * f(x * 2, stop_gradient(w)); }, w);
  CHECK(numbers_of(both) == Numbers{82, 82});
  CHECK(specialization_count(f) == 3);
  CHECK(f(x, w).item() == 41);
}

TEST_CASE("results that are not differentiated, are not used, or are arguments") {
  const auto f = compile([](const Tensor& x) {
    // The second has an infinite derivative at 0, which must not meet a zero gradient.
    return std::tuple{x * 3, sqrt(x), argmax(x, 0), x, x > 0};
  });
  const Tensor x = vector_of({0, 4, 1});
  auto [value, gradient] = value_and_grad(
      [&](const Tensor& x) {
        const auto [triple, root, place, same, positive] = f(x);
        return std::tuple{sum(triple * same) + sum(where(positive, same, 0)), place};
      },
      x);
  CHECK(std::get<0>(value).item() == 3 * 17 + 5);
  CHECK(std::get<1>(value).item() == 1);
  CHECK(numbers_of(gradient) == Numbers{0, 25, 7});
  // Another result is used: another derivative, of the same specialization.
  CHECK(numbers_of(grad([&](const Tensor& x) { return sum(std::get<1>(f(x + 1))); }, x)) ==
        numbers_of(grad([](const Tensor& x) { return sum(sqrt(x + 1)); }, x)));
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("a result without a derivative is an error only where it is differentiated") {
  const auto f = compile([](const Tensor& x) {
    const auto halved =
        while_loop([](const Tensor& y) { return sum(y) > 1; }, [](const Tensor& y) { return y / 2; }, x);
    return std::pair{x * x, halved};
  });
  const Tensor x = vector_of({1, 2});
  CHECK(numbers_of(grad([&](const Tensor& x) { return sum(f(x).first); }, x)) == Numbers{2, 4});
  const std::string plain = message_of([&] {
    grad(
        [](const Tensor& x) {
          return sum(while_loop([](const Tensor& y) { return sum(y) > 1; }, [](const Tensor& y) { return y / 2; }, x));
        },
        x);
  });
  CHECK(contains(plain, "while_loop"));
  CHECK(contains(message_of([&] { grad([&](const Tensor& x) { return sum(f(x).second); }, x); }), "while_loop"));
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("a function of the program is called once, however often what it gave is differentiated") {
  static int calls;
  calls = 0;
  const auto f = compile(
      [](const Tensor& x) {
        const Tensor given =
            host_call({x.shape(), x.dtype()},
                      HostFunction([](const Tensor& x) {
                        ++calls;
                        return x * x;
                      }).with_derivative([](const Tensor& x, const Tensor&, const Tensor& g) { return g * 2 * x; }),
                      x);
        return std::pair{given * x, given * given};
      },
      {.check = Check::never});
  const Tensor x = vector_of({1, 2});
  CHECK(numbers_of(grad([&](const Tensor& x) { return sum(f(x).first); }, x)) == Numbers{3, 12});
  CHECK(numbers_of(grad([&](const Tensor& x) { return sum(f(x).second); }, x)) == Numbers{4, 32});
  CHECK(calls == 2);
}

TEST_CASE("state inside a level: gradients go through it to the next call") {
  const auto f = [](Tensor& state, const Tensor& w) {
    state = state * w + 1;
    return sum(state);
  };
  const auto compiled = compile(f);
  const auto run = [&](auto function) {
    Tensor state = vector_of({1, 2});
    const auto [loss, gradient] = value_and_grad(
        [&](const Tensor& w) {
          function(state, w);
          function(state, w);
          return function(state, w) * sum(state);
        },
        vector_of({2, 3}));
    return text_of(loss) + "; " + text_of(gradient) + "; " + text_of(state);
  };
  CHECK(run(compiled) == run(f));
  CHECK(specialization_count(compiled) == 2);  // the first state depends on no variable
}

TEST_CASE("an argument that is moved in, or can't be copied, inside a level") {
  const auto moved = compile([](Tensor x, const Tensor& w) { return x * w; });
  const Tensor w = vector_of({2, 3});
  CHECK(numbers_of(grad([&](const Tensor& w) { return sum(moved(w * w, w)); }, w)) == Numbers{12, 27});
  const auto drawn = [](Generator& g, const Tensor& w) { return uniform({2}, 0, 1, g) * w; };
  const auto compiled = compile(drawn);
  const auto run = [&](auto function) {
    Generator g(7);
    const Tensor first = grad([&](const Tensor& w) { return sum(function(g, w)) + sum(function(g, w) * w); }, w);
    return text_of(first) + "; " + text_of(uniform({2}, 0, 1, g));
  };
  CHECK(run(compiled) == run(drawn));
}

TEST_CASE("sizes vary inside a level") {
  const auto f = [](const Tensor& x, const Tensor& w) { return tanh(matmul(x, w)) * x; };
  const auto compiled = compile(f);
  const Tensor w = normal({4, 4});
  const auto run = [&](auto function, const Tensor& x) {
    return grad([&](const Tensor& w) { return mean(function(x, w)); }, w);
  };
  for (const std::int64_t size : {3, 5, 9, 2, 1, 64}) {
    const Tensor x = normal({size, 4});
    CAPTURE(size);
    CHECK(difference(run(f, x), run(compiled, x)) <= 1e-6);
  }
  CHECK(specialization_count(compiled) <= 3);
}

TEST_CASE("a function that reads values joins the level; so does every one under with_taps and force_eager") {
  const auto f = compile([](const Tensor& x) { return sum(x) > 0 ? x * 2 : x * 3; });
  for (int i = 0; i < 2; ++i) {
    CHECK(numbers_of(grad([&](const Tensor& x) { return sum(f(x)); }, vector_of({1, 2}))) == Numbers{2, 2});
    CHECK(numbers_of(grad([&](const Tensor& x) { return sum(f(x)); }, vector_of({-1, -2}))) == Numbers{3, 3});
  }
  CHECK(specialization_count(f) == 0);
  const auto tapped = compile([](const Tensor& x) { return tap("inside", x * x); });
  const auto gradient = grad(
      [&](const Tensor& x) {
        const auto [value, taps] = with_taps({"inside"}, [&] { return tapped(x); });
        return sum(value * taps[0]);
      },
      vector_of({1, 2}));
  CHECK(numbers_of(gradient) == Numbers{4, 32});
  const StanceScope eager(Stance::force_eager);
  CHECK(numbers_of(grad([&](const Tensor& x) { return sum(tapped(x)); }, vector_of({1, 2}))) == Numbers{2, 4});
  CHECK(specialization_count(tapped) == 0);
}

TEST_CASE("what throws inside a level leaves everything as it was") {
  const auto f = compile([](Tensor& state, const Tensor& table, const Tensor& index) {
    state = state + 1;
    return sum(gather(table, index));
  });
  Tensor state = zeros({});
  const Tensor table = vector_of({1, 2, 3});
  const auto run = [&](std::int64_t index) {
    return numbers_of(grad(
        [&](const Tensor& table) {
          return f(state, table, from_list<std::int64_t>({index, 0}));
        },
        table));
  };
  CHECK(run(2) == Numbers{1, 0, 1});
  CHECK(contains(message_of([&] { run(3); }), "3"));
  CHECK(state.item() == 1);
  CHECK(run(1) == Numbers{1, 1, 0});
  CHECK(state.item() == 2);
}

TEST_CASE("a result that does not depend on what is differentiated is refused as that of the plain function") {
  struct Both {
    Tensor of_x, of_y, steps;
  };
  const auto plain = [](const Tensor& x, const Tensor& y) {
    return Both{sum(x * x * x), sum(y * y), sum(floor(x)) + sum(stop_gradient(y))};
  };
  const auto compiled = compile([](const Tensor& x, const Tensor& y) {
    return Both{sum(x * x * x), sum(y * y), sum(floor(x)) + sum(stop_gradient(y))};
  });
  // Each result, with respect to each argument, and to both; again from a second derivative.
  const Tensor x = from_list({0.5f, 1.5f}), y = from_list({2.f, -1.f});
  const auto check_all = [&](const auto& pick) {
    const auto tell = [&](const auto& f) {
      std::string text;
      const auto add = [&](const auto& run) {
        try {
          const auto [loss, gradient] = run();
          text += concat_text(loss.item(), " ", text_of(gradient), "\n");
        } catch (const Error& error) {
          text += std::string(error.what()).substr(0, 60) + "\n";
        }
      };
      add([&] { return value_and_grad([&](const Tensor& x) { return pick(f(x, y)); }, x); });
      add([&] { return value_and_grad([&](const Tensor& y) { return pick(f(x, y)); }, y); });
      add([&] { return value_and_grad([&](const Tensor& z) { return pick(f(z, z + 1)); }, x); });
      add([&] {
        return value_and_grad(
            [&](const Tensor& x) { return sum(grad([&](const Tensor& x) { return pick(f(x, x * y)); }, x)); }, x);
      });
      add([&] {
        return value_and_grad(
            [&](const Tensor& x) { return sum(grad([&](const Tensor& y) { return pick(f(x, y)); }, y)); }, x);
      });
      return text;
    };
    CHECK(tell(compiled) == tell(plain));
  };
  check_all([](const Both& b) { return b.of_x; });
  check_all([](const Both& b) { return b.of_y; });
  check_all([](const Both& b) { return b.steps; });
  check_all([](const Both& b) { return b.of_x * b.of_y; });
  check_all([](const Both& b) { return floor(b.of_x) + b.steps; });
}

TEST_CASE("a sparse embedding's gradient stays rows") {
  struct Model {
    nn::Embedding table{6, 2, {.sparse = true}};
  };
  const auto look_up = [](const Model& m, const Tensor& index) { return sum(square(m.table(index))); };
  const auto compiled = compile(look_up);
  const Tensor index = from_list<std::int64_t>({4, 1, 4});
  const auto train = [&](auto function) {
    seed(3);
    Model model;
    optim::Adam adam(model, {.lr = 0.1});
    for (int i = 0; i < 3; ++i)
      adam.update(model, grad([&](const Model& m) { return function(m, index + i % 2); }, model));
    return text_of(model.table.weight);
  };
  CHECK(train(compiled) == train(look_up));
  CHECK(specialization_count(compiled) == 1);
}

TEST_CASE("what a call keeps is gone when the level has closed") {
  const auto f = compile([](const Tensor& x) { return sin(outer(x, x)) * cos(matmul(outer(x, x), outer(x, x))); });
  Tensor held;
  const auto loss = [&](const Tensor& x) {
    held = f(x);
    CHECK(held.node()->operand_count == 1);
    CHECK(held.node()->input(0).node()->output_count > 1);  // the result, and what is kept
    return sum(held);
  };
  const Tensor gradient = grad(loss, vector_of({1, 2}));
  CHECK(held.node()->operand_count == 0);
  CHECK(gradient.node()->operand_count == 0);
}

TEST_CASE("threads differentiate one compiled function at once") {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(tanh(x * w)); });
  const Tensor x = normal({50});
  const Numbers expected = numbers_of(grad([&](const Tensor& w) { return sum(tanh(x * w)); }, ones({50})));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t id = 0; id < wrong.size(); ++id)
    threads.emplace_back([&, id] {
      for (int round = 0; round < 20; ++round)
        wrong[id] += numbers_of(grad([&](const Tensor& w) { return f(x, w); }, ones({50}))) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("made in the background, the derivative too") {
  const auto f = compile([](const Tensor& x) { return sum(x * x * x); }, {.async = true});
  for (int i = 0; i < 3; ++i) {
    CHECK(numbers_of(grad([&](const Tensor& x) { return f(x); }, vector_of({1, 2}))) == Numbers{3, 12});
    wait_compiled(f);
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("a derivative that the stance forbids to compile is an Error, or runs node by node") {
  const auto compiled = compile([](const Tensor& x) { return sum(x * x * 2); });
  const Tensor x = vector_of({1, 2});
  const auto slope = [&] {
    return numbers_of(grad(
        [&](const Tensor& x) {
          const StanceScope forward(Stance::compile);
          return compiled(x);
        },
        x));
  };
  const auto derivatives = [&] { return explain(compiled, x).derivatives.size(); };
  {
    const StanceScope scope(Stance::fail_on_recompile);
    CHECK(contains(message_of(slope), "fail_on_recompile forbids: its derivative has not been compiled yet"));
  }
  for (const Stance stance : {Stance::eager_on_recompile, Stance::eager_then_compile}) {
    const StanceScope scope(stance);
    CHECK(slope() == Numbers{4, 8});
    CHECK(derivatives() == 0);
  }
  {
    const StanceScope scope(Stance::eager_then_compile);
    CHECK(slope() == Numbers{4, 8});
    CHECK(derivatives() == 2);  // the specialization, and what is of it
  }
  for (const Stance stance : {Stance::fail_on_recompile, Stance::eager_on_recompile, Stance::force_eager}) {
    const StanceScope scope(stance);
    CHECK(slope() == Numbers{4, 8});
  }
  CHECK(derivatives() == 2);
}

namespace {
using Three = std::array<Tensor, 3>;
Three three(const Tensor& x) { return {x * 2, x * x, x * x * x}; }
template <class F>
Numbers slope_of(const F& f, std::size_t result) {
  return numbers_of(grad([&](const Tensor& x) { return sum(f(x)[result]); }, vector_of({1, 2})));
}
const Numbers slopes_of_three[] = {{2, 2}, {2, 4}, {3, 12}};
}  // namespace

TEST_CASE("derivatives of other results count towards recompile_limit, and explain() shows them") {
  const auto f = compile(three, {.recompile_limit = 1});
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < 3; ++i) CHECK(slope_of(f, i) == slopes_of_three[i]);
  CHECK(contains(last_recompile_reason(f), "its derivative was compiled for other"));
  const std::vector<std::string> lines = explain(f, vector_of({1, 2})).derivatives;
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "specialization 0");
  CHECK(contains(lines[1], "  of outputs 0, for inputs 0 of the graph: "));
  CHECK(contains(lines[2], "  of outputs 1, for inputs 0 of the graph: "));
  const auto raises = compile(three, {.on_recompile_limit = OnFailure::raise, .recompile_limit = 0});
  CHECK(slope_of(raises, 0) == slopes_of_three[0]);
  CHECK(
      contains(message_of([&] { slope_of(raises, 1); }), "recompiled 0 times, the limit; the last reason: its deriv"));
}

TEST_CASE("explain lists what a call saves for its derivative: bytes, line and why") {
  const int line = __LINE__ + 2;
  const auto f = compile([](const Tensor& x, const Tensor& w) {
    const Tensor hidden = matmul(x, w);
    return matmul(nn::dropout(gelu(hidden), 0.5, true), w);
  });
  const auto loss = [&](const Tensor& x, const Tensor& w) {
    return grad([&](const std::pair<Tensor, Tensor>& p) { return sum(f(p.first, p.second)); }, std::pair{x, w});
  };
  const Tensor x = normal({8, 16}), w = normal({16, 16});
  loss(x, w);
  const std::vector<std::string> lines = explain(f, x, w).derivatives;
  REQUIRE(lines.size() == 4);
  CHECK(lines[1] == "  saved for them, beside arguments and results: 512 bytes");
  CAPTURE(lines[2]);
  CHECK(contains(lines[2], concat_text("512 bytes: matmul, f32[8,16], at compiled_levels_test.cpp:", line,
                                       ": it is expensive to compute again")));
}

TEST_CASE("beside a result without a derivative the others keep what theirs reads, which is compiled at once as well") {
  const auto f = compile(
      [](const Tensor& x, const Tensor& w) {
        const Tensor out = matmul(gelu(matmul(x, w)), w);
        const auto halved =
            while_loop([](const Tensor& y) { return sum(y) > 1; }, [](const Tensor& y) { return y / 2; }, out);
        return std::pair{out, halved};
      },
      {.derivative_at_once = true});
  const Tensor x = normal({8, 16}), w = normal({16, 16});
  const auto loss = [&](const Tensor& x) { return sum(f(x, w).first); };
  const auto plain = [&](const Tensor& x) { return sum(matmul(gelu(matmul(x, w)), w)); };
  CHECK(difference(grad(loss, x), grad(plain, x)) <= 1e-5);
  const std::vector<std::string> lines = explain(f, x, w).derivatives;
  REQUIRE(lines.size() == 4);  // one derivative, and one value that is saved
  CHECK(lines[1] == "  saved for them, beside arguments and results: 512 bytes");
  CHECK(contains(message_of([&] { grad([&](const Tensor& x) { return sum(f(x, w).second); }, x); }), "while_loop"));
}

TEST_CASE("the winners of a maximum are found, whether its operand was saved or computed again") {
  // Recomputed with other bits, the operand would meet no maximum, and its gradient would be 0.
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto f = compile([](const Tensor& x, const Tensor& w) {
      const Tensor y = tanh(matmul(x, w)) * exp(matmul(x, w));
      return amax(y, 1) + sum(maximum(y, y * 0.5 + 0.1));
    });
    const Tensor x = cast(normal({16, 32}), dtype), w = cast(normal({32, 64}), dtype);
    const auto slope = [&](auto function) {
      return grad([&](const Tensor& x) { return sum(cast(function(x, w), DType::f32)); }, x);
    };
    const auto plain = [](const Tensor& x, const Tensor& w) {
      const Tensor y = tanh(matmul(x, w)) * exp(matmul(x, w));
      return amax(y, 1) + sum(maximum(y, y * 0.5 + 0.1));
    };
    CHECK(difference(slope(f), slope(plain)) <= (dtype == DType::f32 ? 1e-5 : 0.02));
  }
}

TEST_CASE("while kernels of a derivative are made, other calls take those that are there") {
  const auto f = compile(three);
  static const auto* shared = &f;
  static std::atomic<bool> armed;
  static std::future<Numbers> other;
  static bool in_time;
  register_pass(PassStage::traced, "meanwhile", "1", [](const GraphView& graph) {
    if (armed.exchange(false)) {
      other = std::async(std::launch::async, [] { return slope_of(*shared, 0); });
      in_time = other.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    }
    return graph;
  });
  CHECK(slope_of(f, 0) == slopes_of_three[0]);
  armed = true;
  CHECK(slope_of(f, 1) == slopes_of_three[1]);
  unregister_pass("meanwhile");
  CHECK(!armed);
  CHECK(in_time);
  CHECK(other.get() == slopes_of_three[0]);
}

TEST_CASE("a compiled function inside a compiled one inside a level, and a level inside of it") {
  const auto inner = compile([](const Tensor& x) { return x * x; });
  static const auto* const shared = &inner;
  const auto outer = compile(
      [](const Tensor& x) { return sum((*shared)(x)*grad([](const Tensor& y) { return sum((*shared)(y)*y); }, x)); });
  // x^2 * 3 x^2, whose derivative is 12 x^3.
  CHECK(numbers_of(grad([&](const Tensor& x) { return outer(x); }, vector_of({1, 2}))) == Numbers{12, 96});
  CHECK(specialization_count(inner) == 0);
  CHECK(specialization_count(outer) == 1);
}

TEST_CASE("Check traces a function inside a level again") {
  static int factor;
  factor = 2;
  const auto f = compile([](const Tensor& x) { return sum(x * factor); }, {.check = Check::every_call});
  const auto run = [&] { return numbers_of(grad([&](const Tensor& x) { return f(x); }, vector_of({1, 2}))); };
  for (int i = 0; i < 3; ++i) CHECK(run() == Numbers{2, 2});
  factor = 3;
  CHECK(contains(message_of(run), "does something else than when it was compiled"));
  CHECK(run() == Numbers{3, 3});
}
