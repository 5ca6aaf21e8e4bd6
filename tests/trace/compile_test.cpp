// What a compiled function computes: the same as the plain function, for every kind of argument and result, by each
// backend.
#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"

using namespace weft;
using namespace trace_test;

namespace {

enum class Mode { add, multiply };
struct Linear {
  Param weight, bias;
  Tensor operator()(const Tensor& x) const { return x * weight + bias; }
};
struct Model {
  Linear in;
  std::vector<Linear> blocks;
  std::optional<Buffer> calls;
  Tensor operator()(const Tensor& x) const {
    Tensor y = in(x);
    for (const Linear& block : blocks) y = block(y);
    return y;
  }
};
Model make_model() {
  auto linear = [](float weight, float bias) { return Linear{vector_of({weight, weight}), vector_of({bias, bias})}; };
  return {linear(2, 1), {linear(3, 0), linear(1, -1)}, Buffer(vector_of({0}))};
}
struct Out {
  Tensor loss;
  std::vector<Tensor> parts;
  Scalar rate;
  int count;
};

Tensor free_function(const Tensor& x, float factor) { return x * factor; }

}  // namespace

TEST_CASE("tensors in, a tensor out; called again with other numbers") {
  for (Backend backend : backends) {
    auto f = compile([](const Tensor& x) { return (x + 1) * 2; }, {.backend = backend});
    CHECK(numbers_of(f(vector_of({1, 2, 3}))) == Numbers{4, 6, 8});
    CHECK(numbers_of(f(vector_of({5, 6, 7}))) == Numbers{12, 14, 16});
    CHECK(numbers_of(f(vector_of({1}))) == Numbers{4});
    CHECK(specialization_count(f) == 2);
  }
}

TEST_CASE(
    "a model by const reference, a function pointer, numbers, enums and text as constants of the specialization") {
  for (Backend backend : backends) {
    Model model = make_model();
    auto f = compile([](const Model& m, const Tensor& x) { return m(x); }, {.backend = backend});
    CHECK(numbers_of(f(model, vector_of({1, 2}))) == Numbers{8, 14});
    model.in.bias = vector_of({0, 0});
    CHECK(numbers_of(f(model, vector_of({1, 2}))) == Numbers{5, 11});
    CHECK(specialization_count(f) == 1);
    auto g = compile(&free_function, {.backend = backend});
    CHECK(numbers_of(g(vector_of({1, 2}), 3)) == Numbers{3, 6});
    auto h = compile(
        [](const Tensor& x, Mode mode, const std::string& name) {
          return mode == Mode::add ? x + static_cast<int>(name.size()) : x * static_cast<int>(name.size());
        },
        {.backend = backend});
    CHECK(numbers_of(h(vector_of({1, 2}), Mode::add, "abc")) == Numbers{4, 5});
    CHECK(numbers_of(h(vector_of({1, 2}), Mode::multiply, "abc")) == Numbers{3, 6});
    CHECK(numbers_of(h(vector_of({1, 2}), Mode::multiply, "ab")) == Numbers{2, 4});
    CHECK(specialization_count(h) == 3);
  }
}

TEST_CASE("a Scalar and an Index vary without a compilation") {
  for (Backend backend : backends) {
    auto f =
        compile([](const Tensor& x, Scalar rate, Index offset) { return x * rate + offset; }, {.backend = backend});
    for (int i = 0; i < 5; ++i)
      CHECK(numbers_of(f(vector_of({1, 2}), i * 0.5, i)) == Numbers{i * 0.5f + i, i * 1.0f + i});
    CHECK(specialization_count(f) == 1);
    CHECK(f(vector_of({1, 2}), 0.5, 1).dtype() == DType::f32);
  }
}

TEST_CASE("state by reference is written back, on the call that traces and on those that replay") {
  for (Backend backend : backends) {
    Model model = make_model();
    Tensor sum = vector_of({0, 0});
    auto step = compile(
        [](Model& m, Tensor& sum, const Tensor& x) {
          Tensor y = m.in(x);
          sum += y;
          m.in.bias = m.in.bias + 1;
          m.calls = Buffer(*m.calls + 1);
          return y;
        },
        {.backend = backend});
    CHECK(numbers_of(step(model, sum, vector_of({1, 2}))) == Numbers{3, 5});
    CHECK(numbers_of(sum) == Numbers{3, 5});
    CHECK(numbers_of(model.in.bias) == Numbers{2, 2});
    CHECK(numbers_of(step(model, sum, vector_of({1, 2}))) == Numbers{4, 6});
    CHECK(numbers_of(step(model, sum, vector_of({1, 2}))) == Numbers{5, 7});
    CHECK(numbers_of(sum) == Numbers{12, 18});
    CHECK(numbers_of(*model.calls) == Numbers{3});
    CHECK(numbers_of(model.in.weight) == Numbers{2, 2});
    CHECK(specialization_count(step) == 1);
  }
}

TEST_CASE("plain numbers in state are guarded, and written back") {
  struct Counter {
    Tensor value;
    int steps = 0;
    bool even = true;
    std::array<float, 2> history = {0, 0};
  };
  for (Backend backend : backends) {
    Counter counter{vector_of({0})};
    auto f = compile(
        [](Counter& c) {
          c.value += c.even ? 1 : 10;
          c.even = !c.even;
          c.steps = 7;
          c.history[1] = 2.5f;
        },
        {.backend = backend});
    for (int i = 0; i < 4; ++i) f(counter);
    CHECK(numbers_of(counter.value) == Numbers{22});
    CHECK(counter.even);
    CHECK(counter.steps == 7);
    CHECK(counter.history[1] == 2.5f);
    CHECK(specialization_count(f) == 3);  // (0, even), (7, odd), (7, even)
  }
}

TEST_CASE("results: structs, vectors, tuples, Scalars, numbers, nothing, and arguments handed back") {
  for (Backend backend : backends) {
    auto f = compile(
        [](const Tensor& x, Scalar rate) {
          return Out{sum(x), {x + 1, x, x + 2}, rate * 2, 7};
        },
        {.backend = backend});
    for (int i = 0; i < 2; ++i) {
      Tensor x = vector_of({1, 2});
      Out out = f(x, 0.25);
      CHECK(out.loss.item() == 3);
      CHECK(numbers_of(out.parts[0]) == Numbers{2, 3});
      CHECK(out.parts[1].same(x));
      CHECK(numbers_of(out.parts[2]) == Numbers{3, 4});
      CHECK(out.rate.item() == 0.5);
      CHECK(out.count == 7);
    }
    auto pair = compile([](const Tensor& x) { return std::pair{x * 2, std::array{x, x * 3}}; }, {.backend = backend});
    for (int i = 0; i < 2; ++i) {
      auto [a, b] = pair(vector_of({1}));
      CHECK(numbers_of(a) == Numbers{2});
      CHECK(numbers_of(b[1]) == Numbers{3});
    }
  }
}

TEST_CASE("outputs that are inputs, other outputs, constants, and swapped state") {
  for (Backend backend : backends) {
    auto swap_state = compile(
        [](Tensor& a, Tensor& b) {
          std::swap(a, b);
          return a;
        },
        {.backend = backend});
    Tensor a = vector_of({1}), b = vector_of({2});
    Tensor a_before = a, b_before = b;
    CHECK(swap_state(a, b).same(b_before));
    CHECK(a.same(b_before));
    CHECK(b.same(a_before));
    auto twice = compile(
        [](const Tensor& x) {
          Tensor y = x + 1;
          return std::tuple{y, y, full({2}, 3.0)};
        },
        {.backend = backend});
    for (int i = 0; i < 2; ++i) {
      auto [y, z, three] = twice(vector_of({1, 2}));
      CHECK(numbers_of(y) == Numbers{2, 3});
      CHECK(numbers_of(z) == Numbers{2, 3});
      CHECK(numbers_of(three) == Numbers{3, 3});
    }
  }
}

TEST_CASE("the same tensor passed twice is two inputs, and old values stay when state moves on") {
  for (Backend backend : backends) {
    auto f = compile(
        [](Tensor& state, const Tensor& x, const Tensor& y) {
          state = state * 2;
          return x + y;
        },
        {.backend = backend});
    Tensor x = vector_of({1, 2});
    Tensor state = x;  // the same value: must not be overwritten
    std::vector<Tensor> history = {state};
    for (int i = 0; i < 3; ++i) {
      CHECK(numbers_of(f(state, x, x)) == Numbers{2, 4});
      history.push_back(state);
    }
    CHECK(numbers_of(x) == Numbers{1, 2});
    for (int i = 0; i < 4; ++i)
      CHECK(numbers_of(history[static_cast<std::size_t>(i)]) == Numbers{std::ldexp(1.0f, i), std::ldexp(2.0f, i)});
  }
}

TEST_CASE("pending, transposed, sliced, expanded and constant arguments are taken as they are") {
  for (Backend backend : backends) {
    auto f = compile([](const Tensor& x) { return x * 2; }, {.backend = backend});
    Tensor base = from_list<float>({1, 2, 3, 4, 5, 6}, {2, 3});
    CHECK(numbers_of(f(base + 1)) == Numbers{4, 6, 8, 10, 12, 14});
    CHECK(numbers_of(f(transpose(base))) == Numbers{2, 8, 4, 10, 6, 12});
    CHECK(numbers_of(f(slice(base, 0, 1))) == Numbers{8, 10, 12});
    CHECK(numbers_of(f(slice(base, 1, 2, slice_end, -2))) == Numbers{6, 2, 12, 8});
    CHECK(numbers_of(f(expand(vector_of({1, 2, 3}), {2, 3}))) == Numbers{2, 4, 6, 2, 4, 6});
    CHECK(numbers_of(f(full({2, 3}, 4))) == Numbers{8, 8, 8, 8, 8, 8});
    CHECK(numbers_of(f(zeros({0}))).empty());
    CHECK(f(full({}, 4)).item() == 8);
  }
}

TEST_CASE("compiled functions nest, and are compiled inside a differentiation level") {
  static const auto inner = compile([](const Tensor& x) { return x * x; });
  for (Backend backend : backends) {
    auto outer = compile([](const Tensor& x) { return inner(x) + 1; }, {.backend = backend});
    CHECK(numbers_of(outer(vector_of({2, 3}))) == Numbers{5, 10});
  }
  CHECK(specialization_count(inner) == 0);
  auto [value, gradient] = value_and_grad([](const Tensor& x) { return sum(inner(x)); }, vector_of({2, 3}));
  CHECK(value.item() == 13);
  CHECK(numbers_of(gradient) == Numbers{4, 6});
  CHECK(specialization_count(inner) == 1);
}

TEST_CASE("a training step: gradients inside compile") {
  for (Backend backend : backends) {
    Linear model{vector_of({2, 2}), vector_of({1, 1})};
    auto step = compile(
        [](Linear& m, const Tensor& x, Scalar rate) {
          auto [loss, g] = value_and_grad([&](const Linear& m) { return sum(m(x)); }, m);
          m.weight = m.weight - g.weight.tensor() * rate;
          m.bias = m.bias - g.bias.tensor() * rate;
          return loss;
        },
        {.backend = backend});
    CHECK(step(model, vector_of({3, 4}), 0.5).item() == 16);
    CHECK(numbers_of(model.weight) == Numbers{0.5, 0});
    CHECK(step(model, vector_of({3, 4}), 1).item() == 2.5);
    CHECK(numbers_of(model.weight) == Numbers{-2.5, -4});
    CHECK(numbers_of(model.bias) == Numbers{-0.5, -0.5});
  }
}

TEST_CASE("bound arguments are read again on each call; a model compiles by itself") {
  Tensor shift = vector_of({1, 1});
  auto f = compile(
      [](Tensor& shift, const Tensor& x) {
        shift = shift * 2;
        return x + shift;
      },
      bind(shift));
  CHECK(numbers_of(f(vector_of({0, 0}))) == Numbers{2, 2});
  shift = vector_of({5, 5});
  CHECK(numbers_of(f(vector_of({0, 0}))) == Numbers{10, 10});
  Model model = make_model();
  auto whole = compile(model);
  CHECK(numbers_of(whole(vector_of({1, 2}))) == Numbers{8, 14});
  model.in.bias = vector_of({0, 0});
  CHECK(numbers_of(whole(vector_of({1, 2}))) == Numbers{5, 11});
}

TEST_CASE("generic lambdas: each call says what the types are") {
  auto f = compile([](const auto& model, auto& state, auto factor) {
    state = state + 1;
    return model(state) * factor;
  });
  Model model = make_model();
  const Linear linear{vector_of({2, 2}), vector_of({1, 1})};
  Tensor state = vector_of({0, 0});
  CHECK(numbers_of(f(model, state, 2)) == Numbers{16, 16});
  CHECK(numbers_of(f(linear, state, 2.0f)) == Numbers{10, 10});
  CHECK(numbers_of(state) == Numbers{2, 2});
  CHECK(specialization_count(f) == 2);
}

TEST_CASE("{} after what is compiled are its default options") {
  const Tensor x = ones({2});
  const auto twice = compile([](const Tensor& x) { return sum(x * 2); }, {});
  const auto any = compile([](const auto& x) { return sum(x * 3); }, {}, Loc::current());
  CHECK(twice(x).item() == 4);
  CHECK(any(x).item() == 6);
  CHECK(sum(compile(relu, {})(x)).item() == 2);
  const Linear layer{vector_of({2, 2}), vector_of({1, 1})};
  CHECK(sum(compile(layer, {})(x)).item() == 6);
  const auto bound = compile([](const Linear& layer, const Tensor& x) { return layer(x); }, bind(layer), {});
  CHECK(sum(bound(x)).item() == 6);
  CHECK(compile([](const Tensor& x) { return x; }, bind())(x).size(0) == 2);
}

TEST_CASE("copies share what was compiled; a function may be const") {
  const auto f = compile([](const Tensor& x) { return x + 1; });
  auto copy = f;
  copy(vector_of({1}));
  f(vector_of({2}));
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("a result keeps its value when the function is called again") {
  for (Backend backend : backends) {
    auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = backend});
    Tensor first = f(vector_of({1, 2}));
    auto view = first.data<float>();
    Tensor second = f(vector_of({10, 20}));
    CHECK(numbers_of(first) == Numbers{2, 3});
    CHECK(view[1] == 3);
    CHECK(numbers_of(second) == Numbers{11, 21});
  }
}

TEST_CASE("a value that is read twice by each of forty steps, and by a reduction besides") {
  auto f = compile([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = y * y;
    return std::pair{y, sum(y, 0)};
  });
  const auto [power, total] = f(ones({3, 4}));
  CHECK(numbers_of(power) == Numbers(12, 1));
  CHECK(numbers_of(total) == Numbers(4, 3));
}
