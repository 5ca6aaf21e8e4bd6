// Backends by name: those of Weft's own, and a program's.
#include <atomic>
#include <cmath>
#include <stdexcept>

#include "trace/function.hpp"
#include "trace/support.hpp"
#include "weft/backends.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"
#include "weft/verify.hpp"

using namespace weft;
using trace_test::contains;
using trace_test::message_of;
using trace_test::Numbers;
using trace_test::numbers_of;
using trace_test::vector_of;

namespace {

Tensor twice(const Tensor& x) { return x + x; }

// The graph as the backend has got it last.
std::string& seen() {
  static std::string text;
  return text;
}
BackendExecutable run_by_hand(const GraphView& graph, std::span<const Tensor> examples) {
  seen() = graph.text();
  CHECK(examples.size() == graph.inputs().size());
  return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
}

}  // namespace

TEST_CASE("A backend is named by an enumerator or by a text") {
  const Tensor x = vector_of({1, 2, 3});
  for (const char* name : {"compiled", "cpu", "eager", "aot_eager", "reference"}) {
    CAPTURE(name);
    CHECK(numbers_of(compile(twice, {.backend = name})(x)) == Numbers{2, 4, 6});
  }
  CHECK(numbers_of(compile(twice, {.backend = Backend::eager})(x)) == Numbers{2, 4, 6});
  const std::string name = "eager";
  CHECK(numbers_of(compile(twice, {.backend = name})(x)) == Numbers{2, 4, 6});
  CHECK(numbers_of(compile(twice, {.check = Check::never, .backend = "eager", .cache_size = 3})(x)) ==
        Numbers{2, 4, 6});
  CHECK(contains(explain(compile(twice, {.backend = "aot_eager"}), x).fallback, "aot_eager"));
  CHECK(explain(compile(twice, {.backend = "cpu"}), x).kernels.size() == 1);
}

TEST_CASE("A graph says which inputs are parameters that the function only reads") {
  std::vector<bool> constants;
  register_backend("constants", [&](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    constants.clear();
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) constants.push_back(graph.is_constant(i));
    CHECK(graph.optimized().is_constant(0) == constants[0]);
    CHECK(contains(message_of([&] { graph.is_constant(constants.size()); }), "the graph has no input"));
    return graph.compiled();
  });
  Param weight(vector_of({1, 2, 3}));
  const Tensor x = vector_of({1, 2, 3});
  compile([](const Param& w, const Tensor& x) { return w * x; }, {.backend = "constants"})(weight, x).eval();
  CHECK(constants == std::vector{true, false});
  compile([](Param& w, const Tensor& x) { w = Param(w * x); }, {.backend = "constants"})(weight, x);
  CHECK(constants == std::vector{false, false});
}

TEST_CASE("A name that nobody has is an error of compile(), with those that there are") {
  const std::string message = message_of([] { compile(twice, {.backend = "no such thing"}); });
  CHECK(contains(message, "[compile] no backend is called \"no such thing\"; there are: aot_eager, "));
  CHECK(contains(message, "cpu, cuda, eager, "));
  CHECK(contains(message, AT_LINE(__LINE__ - 3)));
}

TEST_CASE("The backend of a device refuses tensors that are elsewhere") {
  const auto f = compile(twice, {.backend = "cuda"});
  const std::string message = message_of([&] { f(vector_of({1, 2})); });
  CHECK(contains(message, "the backend \"cuda\" was asked for, and a tensor is on cpu: f32[2]"));
}

TEST_CASE("A registered backend gets the graph with names, types, attributes and lines") {
  register_backend("looking", [](const GraphView& graph, std::span<const Tensor> examples) -> BackendExecutable {
    CHECK(examples.size() == 1);
    CHECK(numbers_of(examples[0]) == Numbers{1, 2, 3, 4});
    const std::vector<Tensor>& nodes = graph.nodes();
    REQUIRE(nodes.size() == 5);
    CHECK(NodeView(nodes[0]).name() == "input");
    CHECK(graph.inputs()[0].same(nodes[0]));
    CHECK(NodeView(nodes[1]).name() == "softmax");
    CHECK(NodeView(nodes[1]).is_composite());
    CHECK(NodeView(NodeView(nodes[1]).bodies()[0].nodes()[1]).name() == "amax");
    CHECK(NodeView(nodes[2]).name() == "sum");
    CHECK(NodeView(nodes[2]).attributes() == "axes [1]");
    CHECK(nodes[2].rank() == 2);
    CHECK(nodes[2].dtype() == DType::f32);
    CHECK(NodeView(nodes[4]).operands()[0].same(nodes[3]));
    CHECK(graph.index(graph.outputs()[0]) == 4);
    CHECK(NodeView(nodes[4]).line().line > 0);
    return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
  });
  const auto f = compile([](const Tensor& x) { return exp(sum(softmax(x, 1), 1)); }, {.backend = "looking"});
  const Tensor x = from_list<float>({{1, 2}, {3, 4}});
  CHECK(numbers_of(f(x))[0] == doctest::Approx(std::exp(1.0F)));
}

TEST_CASE("A registered backend gets a training step whole, and state is written back") {
  register_backend("by_hand", run_by_hand);
  const auto step = [](nn::Linear& layer, const Tensor& x) {
    auto [loss, gradient] = value_and_grad([&](const nn::Linear& l) { return mean(square(l(x))); }, layer);
    layer.weight -= 0.1 * gradient.weight;
    return loss;
  };
  nn::Linear own(3, 2), other = own;
  const Tensor x = normal({4, 3}).eval();
  const auto with = compile(step, {.backend = "by_hand"}), without = compile(step, {.backend = Backend::eager});
  for (int i = 0; i < 3; ++i) CHECK(numbers_of(with(own, x)) == numbers_of(without(other, x)));
  CHECK(numbers_of(own.weight) == numbers_of(other.weight));
  CHECK(contains(seen(), "mean_backward"));
}

TEST_CASE("One executable serves calls of varying sizes") {
  static std::atomic<int> asked = 0;
  register_backend("counting", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    ++asked;
    // A size that is compared is as it was decided; no input has the size of the result.
    CHECK(graph.inputs()[0].size(0) != graph.outputs()[0].size(0));
    return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
  });
  const auto f = compile([](const Tensor& x) { return concat({x, x}, 0); }, {.dynamic = true, .backend = "counting"});
  for (const int size : {3, 5, 7}) {
    const Tensor x = ones({size});
    CHECK(f(x).size(0) == 2 * size);
  }
  CHECK(asked == 1);
}

TEST_CASE("A backend may use generated kernels, or the graph after the passes") {
  register_backend("kernels", [](const GraphView& graph, std::span<const Tensor>) { return graph.compiled(); });
  const auto f = [](const Tensor& x, const Tensor& y) { return sum(softmax(matmul(x, y), 1) * y, 0); };
  const Tensor x = normal({6, 6}).eval(), y = normal({6, 6}).eval();
  const Numbers wanted = numbers_of(compile(f)(x, y));
  CHECK(numbers_of(compile(f, {.backend = "kernels"})(x, y)) == wanted);
  CHECK(numbers_of(compile(f, {.dynamic = true, .backend = "kernels"})(x, y)).size() == wanted.size());
  // A transposed argument is put in order.
  const auto g = [](const Tensor& x) { return x * 2; };
  CHECK(numbers_of(compile(g, {.backend = "kernels"})(transpose(x, 0, 1).eval())) ==
        numbers_of(transpose(x, 0, 1) * 2));
}

TEST_CASE("What a backend throws reaches the caller with its name, state is as before, and the next call asks again") {
  static int asked = 0;
  register_backend("failing", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    if (++asked == 1) throw std::runtime_error("not today");
    return [graph, run = 0](std::span<const Tensor> inputs) mutable {
      if (++run == 1) throw std::runtime_error("nor now");
      return graph.run(inputs);
    };
  });
  const auto f = compile([](Tensor& state) { state = state + 1; }, {.backend = "failing"});
  Tensor state = vector_of({1});
  CHECK_THROWS_WITH_AS(f(state), "[compile] the backend \"failing\": not today", Error);
  CHECK(numbers_of(state) == Numbers{1});
  try {
    f(state);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "[compile] the backend \"failing\": nor now");
    CHECK_THROWS_WITH_AS(std::rethrow_if_nested(error), "nor now", std::runtime_error);
  }
  CHECK(numbers_of(state) == Numbers{1});
  f(state);
  CHECK(numbers_of(state) == Numbers{2});
  CHECK(asked == 2);
}

TEST_CASE("A check that fails under symbolic sizes says what they are in the call, by every backend") {
  for (const char* name : {"compiled", "eager", "aot_eager", "reference"}) {
    CAPTURE(name);
    const auto f = compile([](const Tensor& x, const Tensor& index) { return gather(x, 1, index); },
                           {.dynamic = true, .backend = name});
    f(ones({4, 5}), zeros({4, 3}, {DType::i64}));
    CHECK(contains(message_of([&] {
                     f(ones({6, 5}), full({6, 3}, 9, {DType::i64})).eval();
                   }),
                   "[0, s1) of axis 1 of f32[s0,s1]: one of i64[s0,s2], where s0 = 6, s1 = 5, s2 = 3, at "
                   "backends_test.cpp:"));
  }
}

TEST_CASE("What a backend gives is checked") {
  static std::vector<Tensor> given;
  register_backend("wrong", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    if (given.size() == 3) return {};
    if (given.size() == 2) given = {graph.outputs()[0]};
    return [](std::span<const Tensor>) { return given; };
  });
  const auto message = [](std::vector<Tensor> results) {
    given = std::move(results);
    Tensor state = vector_of({1, 2});
    const std::string text = message_of([&] { compile([](Tensor& x) { x = x * 2; }, {.backend = "wrong"})(state); });
    CHECK(numbers_of(state) == Numbers{1, 2});
    CHECK(contains(text, "the backend \"wrong\" gave"));
    CHECK(contains(text, "[compile at backends_test.cpp:"));
    return text;
  };
  CHECK(contains(message({}), "0 results, and the graph has 1"));
  CHECK(contains(message({Tensor()}), "an undefined tensor as result 0"));
  CHECK(contains(message({ones({3})}), "f32[3] as result 0, which is f32[2]"));
  CHECK(contains(message({ones({2}, {.dtype = DType::i32})}), "i32[2] as result 0, which is f32[2]"));
  CHECK(contains(message({ones({1}), ones({1})}), "a value of the graph as result 0"));
  CHECK(contains(message({ones({1}), ones({1}), ones({1})}), "nothing that can be called"));
}

TEST_CASE("Inputs of run() are checked") {
  register_backend("running", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    CHECK(contains(message_of([&] { graph.run({}); }), "[run] the graph has 1 input, and 0 were given"));
    const std::vector<Tensor> wrong{ones({3})}, undefined(1), symbolic{graph.inputs()[0]};
    CHECK(contains(message_of([&] { graph.run(wrong); }), "[run] input 0 is f32[3], and the graph's is f32[2]"));
    CHECK(contains(message_of([&] { graph.run(undefined); }), "[run] input 0 is an undefined tensor"));
    CHECK(contains(message_of([&] { graph.run(symbolic); }), "[run] input 0 is a value of a graph"));
    return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
  });
  CHECK(numbers_of(compile(twice, {.backend = "running"})(vector_of({1, 2}))) == Numbers{2, 4});
}

TEST_CASE("A run is watched, operation by operation") {
  static std::string line;
  register_backend("first_nan", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    return [graph](std::span<const Tensor> inputs) {
      return graph.run(inputs, [](const NodeView& node, std::span<const Tensor> results) {
        if (line.empty() && any(isnan(results[0])))
          line = std::string(node.name()) + ":" + std::to_string(node.line().line);
        if (node.name() == "constant") CHECK(node.number() == 3);
      });
    };
  });
  const auto f = compile([](const Tensor& x) { return exp(log(x) * 3); }, {.dynamic = true, .backend = "first_nan"});
  CHECK(numbers_of(f(vector_of({1, 1}))) == Numbers{1, 1});
  CHECK(line.empty());
  CHECK(std::isnan(numbers_of(f(vector_of({1, -1, 1})))[1]));
  CHECK(line == "log:" + std::to_string(__LINE__ - 4));
}

TEST_CASE("Each piece of a function that decides goes through the backend") {
  static int asked = 0;
  register_backend("pieces", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    ++asked;
    return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
  });
  const auto f = compile(
      [](const Tensor& x) {
        const Tensor y = exp(x);
        return sum(y) > 3 ? y * 2 : y - 1;
      },
      {.backend = "pieces"});
  for (int i = 0; i < 2; ++i) {
    CHECK(numbers_of(f(vector_of({0, 0, 0, 0}))) == Numbers{2, 2, 2, 2});
    CHECK(numbers_of(f(vector_of({0, 0, -100, -100})))[0] == 0);
  }
  CHECK(asked == 3);
}

TEST_CASE("A loop goes through a backend as one operation") {
  register_backend("by_hand", run_by_hand);
  const auto f = [](const Tensor& x) {
    return while_loop([](const Tensor& s) { return sum(s) < 100; }, [](const Tensor& s) { return s * 2; }, x);
  };
  CHECK(numbers_of(compile(f, {.backend = "by_hand"})(vector_of({1, 2}))) == numbers_of(f(vector_of({1, 2}))));
  CHECK(contains(seen(), "while_loop("));
}

TEST_CASE("Beyond the recompile limit a registered backend is not asked") {
  static int asked = 0;
  register_backend("limited", [](const GraphView& graph, std::span<const Tensor>) -> BackendExecutable {
    ++asked;
    return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
  });
  const auto f = compile([](const Tensor& x, int n) { return x + n; }, {.backend = "limited", .recompile_limit = 1});
  for (int n = 0; n < 4; ++n) CHECK(numbers_of(f(vector_of({1}), n)) == Numbers{1.0F + static_cast<float>(n)});
  CHECK(asked == 2);
}

TEST_CASE("Names of Weft's own, empty names and empty functions are refused") {
  CHECK(contains(message_of([] { register_backend("eager", run_by_hand); }), "\"eager\" is a backend of Weft's own"));
  CHECK(contains(message_of([] { register_backend("", run_by_hand); }), "[register_backend] a backend without a name"));
  CHECK(contains(message_of([] { register_backend("empty", {}); }), "the backend \"empty\" is no function"));
}

TEST_CASE("Levels compute the same; the first fuses nothing") {
  const auto f = [](const Tensor& x) { return sum(exp(x) * 2 + x, 0); };
  const Tensor x = normal({8, 8}).eval();
  const auto kernels = [&](Level level) {
    const auto g = compile(f, {.level = level});
    CHECK(numbers_of(g(x)) == numbers_of(compile(f)(x)));
    return explain(g, x).kernels.size();
  };
  CHECK(kernels(Level::O0) == 4);
  CHECK(kernels(Level::O1) == 1);
  CHECK(kernels(Level::O2) == 1);
  CHECK(kernels(Level::O3) == 1);
}

TEST_CASE("The level at which libraries are timed gives the same product, up to the order of sums") {
  const Tensor a = normal({640, 700}).eval(), b = normal({700, 640}).eval();  // large enough for oneDNN
  const auto f = [](const Tensor& x, const Tensor& y) { return matmul(x, y); };
  const Tensor plain = compile(f)(a, b), timed = compile(f, {.level = Level::O3})(a, b);
  CHECK(amax(abs(plain - timed)).item<float>() < 1e-3F);
}

TEST_CASE(
    "The mode max_autotune is the level at which libraries are timed, and no lower one; no mode changes a result") {
  const auto level = [](CompileOptions options) { return detail::with_level_of_mode(options, Loc()).level; };
  CHECK(level({.mode = CompileMode::max_autotune}) == Level::O3);
  CHECK(level({.level = Level::O3, .mode = CompileMode::max_autotune}) == Level::O3);
  CHECK(level({.level = Level::O1, .mode = CompileMode::reduce_overhead}) == Level::O1);
  CHECK(level({}) == Level::O2);
  const auto f = [](const Tensor& x) { return sum(exp(x) * 2 + x, 0); };
  CHECK(contains(message_of([&] { compile(f, {.level = Level::O1, .mode = CompileMode::max_autotune}); }),
                 "[compile] CompileMode::max_autotune is Level::O3, and Level::O1 was asked for"));
  const Tensor x = normal({8, 8}).eval();
  for (const CompileMode mode : {CompileMode::automatic, CompileMode::reduce_overhead, CompileMode::max_autotune}) {
    const auto g = compile(f, {.mode = mode});
    for (int i = 0; i < 3; ++i) CHECK(numbers_of(g(x)) == numbers_of(f(x)));
  }
}

TEST_CASE("Without fusion a training step, a loop and reductions of views give what fusion gives") {
  const auto step = [](nn::Linear& layer, const Tensor& x) {
    auto [loss, gradient] = value_and_grad(
        [&](const nn::Linear& l) { return mean(square(nn::layer_norm(softmax(l(x), 1), {2}) + transpose(x, 0, 1))); },
        layer);
    layer.weight -= 0.1 * gradient.weight;
    layer.bias -= 0.1 * gradient.bias;
    return scan(
               [](const Tensor& s, const Tensor& row) {
                 return std::pair{s * 0.5 + exp(row), s};
               },
               sum(x, 0), x)
               .first +
           loss;
  };
  nn::Linear own(2, 2), other = own;
  const Tensor x = normal({2, 2}).eval();
  const auto with = compile(step, {.level = Level::O0}), without = compile(step);
  for (int i = 0; i < 2; ++i) {
    const Numbers a = numbers_of(with(own, x)), b = numbers_of(without(other, x));
    for (std::size_t k = 0; k < a.size(); ++k) CHECK(a[k] == doctest::Approx(b[k]).epsilon(1e-5));
  }
}
