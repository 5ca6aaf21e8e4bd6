// A compiled function that is differentiated outside, as two compiled calls: results are read in between, the
// derivative is taken twice, never, and on another thread; what was saved is freed.
#include <stdexcept>
#include <thread>

#include "ir/node.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"
#include "weft/transforms.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct Layers {
  Param w, v;
  WEFT_MEMBERS(w, v)
};
Layers some_layers() {
  seed(4);
  Layers layers;
  layers.w = normal({8, 16}) * 0.3;
  layers.v = normal({16, 4}) * 0.3;
  return layers;
}
constexpr auto model = [](const Layers& m, const Tensor& x) { return matmul(gelu(matmul(x, m.w)), m.v); };

std::string slopes(const Layers& gradients) { return text_of(gradients.w) + " " + text_of(gradients.v); }

}  // namespace

TEST_CASE("results of a split step can be read before its derivative runs") {
  const auto f = compile(model);
  const Layers layers = some_layers();
  const Tensor x = normal({5, 8});
  const Layers expected = grad([&](const Layers& m) { return sum(square(f(m, x))); }, layers);
  float seen = 0;
  const Layers found = grad(
      [&](const Layers& m) {
        const Tensor y = f(m, x);
        seen = sum(y).item<float>();
        return sum(square(y));
      },
      layers);
  CHECK(slopes(found) == slopes(expected));
  CHECK(std::abs(seen - sum(model(layers, x)).item<float>()) <= 1e-4f);
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("the first call compiles the derivative where it is asked to") {
  const Layers layers = some_layers();
  const Tensor x = normal({5, 8});
  for (const bool at_once : {false, true}) {
    CAPTURE(at_once);
    const auto f = compile(model, {.derivative_at_once = at_once});
    const auto stops = [&](const Layers& m) -> Tensor {
      f(m, x).eval();
      throw std::runtime_error("before the derivative");
    };
    CHECK_THROWS_AS(grad(stops, layers), std::runtime_error);
    const auto derivatives = [&] {
      std::string all;
      for (const std::string& line : explain(f, layers, x).derivatives) all += line + "\n";
      return all;
    };
    CHECK(contains(derivatives(), "of outputs 0, for inputs ") == at_once);
    const std::string before = derivatives();
    const Layers found = grad([&](const Layers& m) { return sum(square(f(m, x))); }, layers);
    CHECK((derivatives() == before) == at_once);  // it is the one that was asked for
    CHECK(slopes(found) == slopes(grad([&](const Layers& m) { return sum(square(compile(model)(m, x))); }, layers)));
  }
}

TEST_CASE("a split step runs twice in one level, and is dropped without its derivative") {
  const auto f = compile(model);
  const Layers layers = some_layers();
  const Tensor x = normal({5, 8}), other = normal({5, 8});
  const auto loss = [&](const auto& function, const Layers& m) {
    return sum(square(function(m, x))) + sum(function(m, other) * 3);
  };
  const Layers plain = grad([&](const Layers&m) { return loss(model, m); }, layers),
               found = grad(
                   [&](const Layers&m) {
                     const Tensor unused = f(m, x);  // nobody asks for its derivative
                     return loss(f, m);
                   },
                   layers);
  CHECK(amax(abs(plain.w - found.w)).item<float>() <= 1e-5f);
  CHECK(amax(abs(plain.v - found.v)).item<float>() <= 1e-5f);
  // Of one call, twice: the second time for another loss.
  const auto pair = grad(
      [&](const Layers& m) {
        const Tensor y = f(m, x);
        return sum(y) + sum(square(y));
      },
      layers);
  const Layers one = grad([&](const Layers&m) { return sum(f(m, x)); }, layers),
               two = grad([&](const Layers&m) { return sum(square(f(m, x))); }, layers);
  CHECK(amax(abs(pair.w - one.w - two.w)).item<float>() <= 1e-5f);
}

TEST_CASE("the derivative of a split step runs on another thread") {
  const auto f = compile(model);
  const Layers layers = some_layers();
  const Tensor x = normal({5, 8});
  const std::string expected = slopes(grad([&](const Layers& m) { return sum(square(f(m, x))); }, layers));
  std::string found[3];
  std::vector<std::thread> threads;
  for (std::string& each : found)
    threads.emplace_back([&] { each = slopes(grad([&](const Layers& m) { return sum(square(f(m, x))); }, layers)); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : found) CHECK(each == expected);
  // The pullback, after the function has returned, there as well.
  const auto made = vjp([&](const Layers& m) { return f(m, x); }, layers);
  const Tensor seed = made.value * 2;
  const Layers here = made.pullback(seed);
  Layers there;
  std::thread([&] {
    there = made.pullback(seed);
    slopes(there);
  }).join();
  CHECK(slopes(here) == slopes(there));
  CHECK(amax(abs(here.w - grad([&](const Layers& m) { return sum(square(f(m, x))); }, layers).w)).item<float>() <=
        1e-4f);
}
