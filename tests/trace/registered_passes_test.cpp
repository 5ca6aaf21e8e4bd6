// A program's own passes and patterns.
#include <atomic>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "base/options.hpp"
#include "trace/support.hpp"
#include "weft/backends.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"
#include "weft/loops.hpp"
#include "weft/random.hpp"
#include "weft/verify.hpp"

using namespace weft;
using trace_test::contains;
using trace_test::message_of;
using trace_test::Numbers;
using trace_test::numbers_of;
using trace_test::vector_of;

namespace {

// Takes the passes of a test back.
struct Registered {
  std::vector<std::string> names;
  ~Registered() {
    for (const std::string& name : names) unregister_pass(name);
  }
};
bool has_pass(const Explanation& explanation, const std::string& name) {
  for (const Explanation::Pass& pass : explanation.passes)
    if (pass.name == name) return true;
  return false;
}
GraphView as_it_is(const GraphView& graph) { return graph; }

}  // namespace

TEST_CASE("SiLU and a product become a kernel of the user's") {
  const Registered registered{{"swiglu"}};
  // From here on it is what a user writes.
  static constexpr auto swiglu = elementwise([](auto gate, auto up) { return gate * up / (1 + exp(-gate)); });
  using pattern::x, pattern::y;
  register_rewrite(PassStage::joint, "swiglu", "1", x * sigmoid(x) * y,
                   [](const PatternMatch& match) { return swiglu(match[x], match[y]); });
  const auto f = compile([](const Tensor& gate, const Tensor& up) { return silu(gate) * up; });
  // To here.
  const Tensor gate = normal({4, 8}).eval(), up = normal({4, 8}).eval();
  const Explanation found = explain(f, gate, up);
  CHECK(contains(found.graph, "silu"));
  CHECK_FALSE(contains(found.optimized, "sigmoid("));
  CHECK(contains(found.optimized, "exp("));
  CHECK(contains(found.optimized, "registered_passes_test.cpp:" + std::to_string(__LINE__ - 7)));  // the model's line
  CHECK(has_pass(found, "swiglu"));
  REQUIRE(found.kernels.size() == 1);
  const Numbers is = numbers_of(f(gate, up)), was = numbers_of(silu(gate) * up);
  for (std::size_t i = 0; i < is.size(); ++i) CHECK(is[i] == doctest::Approx(was[i]).epsilon(1e-5));
}

TEST_CASE("A pattern matches a composite by its name, as traced") {
  const Registered registered{{"swish"}};
  using pattern::x, pattern::y;
  register_rewrite(PassStage::traced, "swish", "1", pattern::call("silu", x) * y, [](const PatternMatch& match) {
    CHECK(match.node().name() == "mul");
    return relu(match[x]) + match[y];
  });
  const auto f = compile([](const Tensor& x, const Tensor& y) { return y * silu(x) - gelu(y); });
  const Tensor a = vector_of({-1, 2}), b = vector_of({3, 5});
  CHECK(numbers_of(f(a, b)) == numbers_of(relu(a) + b - gelu(b)));
}

TEST_CASE("The stages see the forms of the graph that they are named after") {
  const Registered registered{{"a", "b", "c"}};
  std::string traced, joint, last;
  const auto seeing = [](std::string& text) {
    return [&text](const GraphView& graph) {
      text = graph.text();
      return graph;
    };
  };
  register_pass(PassStage::before_fusion, "c", "1", seeing(last));
  register_pass(PassStage::traced, "a", "1", seeing(traced));
  register_pass(PassStage::joint, "b", "1", seeing(joint));
  const auto f = compile(
      [](const Tensor& x) { return value_and_grad([](const Tensor& x) { return sum(silu(x) * 1); }, x).gradients; });
  f(vector_of({1, 2}));
  CHECK(contains(traced, "\"silu_backward\""));
  CHECK(contains(traced, "variable("));
  CHECK_FALSE(contains(joint, "\"silu_backward\""));
  CHECK(contains(joint, "sigmoid("));
  CHECK(contains(joint, "variable("));
  CHECK(contains(last, "sigmoid("));
  CHECK_FALSE(contains(last, "variable("));
}

TEST_CASE("What a pass records is taken apart like the rest") {
  const Registered registered{{"last"}};
  register_pass(PassStage::before_fusion, "last", "1", [](const GraphView& graph) {
    return graph.rewrite([](const NodeView& node) {
      return node.name() == "tanh" ? softmax(matmul(node.operands()[0], node.operands()[0]), 1) : Tensor();
    });
  });
  const auto f = compile([](const Tensor& x) { return tanh(x) + 1; });
  const Tensor x = normal({5, 5}).eval();
  const Numbers is = numbers_of(f(x)), wanted = numbers_of(softmax(matmul(x, x), 1) + 1);
  for (std::size_t i = 0; i < is.size(); ++i) CHECK(is[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
}

TEST_CASE("Under a memory budget a pass sees the graph that is compiled, and none that is only planned") {
  const Registered registered{{"count"}};
  int calls = 0;
  std::string seen;
  register_pass(PassStage::before_fusion, "count", "1", [&](const GraphView& graph) {
    ++calls;
    seen = graph.text();
    return graph;
  });
  static constexpr auto slope = [](const Tensor& w, const Tensor& x) {
    return grad(
        [&](const Tensor& w) {
          Tensor y = x;
          for (int i = 0; i < 4; ++i) y = tanh(matmul(y, w));
          return sum(y * y);
        },
        w);
  };
  const Tensor w = normal({16, 16}).eval(), x = normal({512, 16}).eval();
  for (const double budget : {1.0, 0.3}) {
    CAPTURE(budget);
    calls = 0;
    compile(slope, {.memory_budget = budget})(w, x);
    CHECK(calls == 1);
    CHECK(contains(seen, " recomputation ") == (budget < 1));
  }
}

TEST_CASE("A function that was compiled is compiled anew when passes change, and finds what it had") {
  const Registered registered{{"plus"}};
  static int added = 0;
  const auto plus = [](const GraphView& graph) {
    return graph.rewrite(
        [](const NodeView& node) { return node.name() == "exp" ? exp(node.operands()[0]) + added : Tensor(); });
  };
  const auto f = compile([](const Tensor& x) { return exp(x); });
  const Tensor x = vector_of({0});
  CHECK(numbers_of(f(x)) == Numbers{1});
  added = 10;
  register_pass(PassStage::joint, "plus", "1", plus);
  CHECK_FALSE(is_compiled(f, x));
  CHECK(numbers_of(f(x)) == Numbers{11});
  CHECK(last_recompile_reason(f) == "the set of registered passes changed");
  added = 20;
  register_pass(PassStage::joint, "plus", "1", plus);
  CHECK(numbers_of(f(x)) == Numbers{11});  // the same version
  register_pass(PassStage::joint, "plus", "2", plus);
  CHECK(numbers_of(f(x)) == Numbers{21});
  CHECK(unregister_pass("plus"));
  CHECK_FALSE(unregister_pass("plus"));
  CHECK(is_compiled(f, x));
  CHECK(numbers_of(f(x)) == Numbers{1});
  CHECK(specialization_count(f) == 3);
}

TEST_CASE("Passes change while threads call") {
  const Registered registered{{"changing"}};
  const auto f = compile([](const Tensor& x) { return exp(x); });
  const Tensor x = zeros({3}).eval();
  std::atomic<int> running = 3, wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int call = 0; call < 200; ++call) {
        const Numbers found = numbers_of(f(x));
        wrong += found != Numbers{1, 1, 1} && found != Numbers{2, 2, 2};
      }
      --running;
    });
  while (running > 0) {
    register_pass(PassStage::joint, "changing", "1", [](const GraphView& graph) {
      return graph.rewrite(
          [](const NodeView& node) { return node.name() == "exp" ? node.operands()[0] + 2 : Tensor(); });
    });
    unregister_pass("changing");
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(specialization_count(f) <= 2);
}

TEST_CASE("Passes run where kernels are made: verify holds them against the recorded function") {
  const Registered registered{{"wrong"}};
  register_pass(PassStage::joint, "wrong", "1", [](const GraphView& graph) {
    return graph.rewrite([](const NodeView& node) { return node.name() == "exp" ? node.operands()[0] * 2 : Tensor(); });
  });
  const auto f = [](const Tensor& x) { return exp(x); };
  const Tensor x = vector_of({3});
  CHECK(numbers_of(compile(f)(x)) == Numbers{6});
  CHECK(numbers_of(compile(f, {.backend = "aot_eager"})(x)) == Numbers{6});
  CHECK(numbers_of(compile(f, {.backend = "eager"})(x)) == numbers_of(exp(x)));
  CHECK(numbers_of(compile(f, {.backend = "reference"})(x))[0] == doctest::Approx(std::exp(3.0F)));
  CHECK_FALSE(verify(compile(f), x).differences.empty());
}

TEST_CASE("Passes see the bodies of loops") {
  const Registered registered{{"loop"}};
  register_pass(PassStage::joint, "loop", "1", [](const GraphView& graph) {
    return graph.rewrite(
        [](const NodeView& node) { return node.name() == "cos" ? sin(node.operands()[0]) : Tensor(); });
  });
  static constexpr auto body = [](const Tensor& s, const Tensor& row) { return std::pair{s + cos(row), s * 2}; };
  const auto wanted = [](const Tensor& s, const Tensor& row) { return std::pair{s + sin(row), s * 2}; };
  const auto f = compile([](const Tensor& s, const Tensor& rows) { return scan(body, s, rows).first; });
  const Tensor s = zeros({3}), rows = normal({4, 3}).eval();
  const Numbers is = numbers_of(f(s, rows)), was = numbers_of(scan(wanted, s, rows).first);
  for (std::size_t i = 0; i < is.size(); ++i) CHECK(is[i] == doctest::Approx(was[i]).epsilon(1e-5));
}

TEST_CASE("Passes work on graphs of symbolic sizes, on checks, on draws and on decisions") {
  const Registered registered{{"same", "copy"}};
  register_pass(PassStage::traced, "same", "1", as_it_is);
  register_pass(PassStage::joint, "copy", "1", [](const GraphView& graph) {
    return graph.rewrite([](const NodeView& node) {
      return node.name() == "tanh" ? expm1(2 * node.operands()[0]) / (exp(2 * node.operands()[0]) + 1) : Tensor();
    });
  });
  const auto f = compile(
      [](const Tensor& x, const Tensor& index) {
        const Tensor y = x[index] + tanh(uniform(x.shape())) * 0;
        return sum(y) > 0 ? concat({y, y}, 0) : tanh(y);
      },
      {.dynamic = true});
  const Tensor index = from_list<std::int64_t>({1, 0, 1});
  for (const float number : {1.0F, -1.0F}) {
    const Tensor x = full({3}, number);
    const Numbers is = numbers_of(f(x, index));
    CHECK(is.size() == (number > 0 ? 6 : 3));
    CHECK(is[0] == doctest::Approx(number > 0 ? number : std::tanh(number)));
  }
  CHECK_THROWS_AS(f(ones({3}), from_list<std::int64_t>({1, 0, 9})), Error);
}

TEST_CASE("What a pass throws reaches the caller with its name, and state is as before") {
  const Registered registered{{"throwing"}};
  register_pass(PassStage::traced, "throwing", "1",
                [](const GraphView&) -> GraphView { throw std::runtime_error("no pass today"); });
  const auto f = compile([](Tensor& state) { state = state + 1; });
  Tensor state = vector_of({1});
  CHECK_THROWS_WITH_AS(f(state), "[compile] the pass \"throwing\": no pass today", Error);
  CHECK(numbers_of(state) == Numbers{1});
  unregister_pass("throwing");
  observe_fusion("watching", [](const FusedSteps&) { throw std::runtime_error("nothing seen"); });
  CHECK_THROWS_WITH_AS(f(state), "[compile] the observer of fusion \"watching\": nothing seen", Error);
  observe_fusion("watching", {});
  f(state);
  CHECK(numbers_of(state) == Numbers{2});
}

TEST_CASE("A replacement that does not fit is refused with the operation and the model's line") {
  const Registered registered{{"bad"}};
  static GraphView::Replace replace;
  const auto message = [](const char* version, GraphView::Replace with) {
    replace = std::move(with);
    register_pass(PassStage::joint, "bad", version, [](const GraphView& graph) { return graph.rewrite(replace); });
    const auto f = compile([](const Tensor& x) { return exp(x); });
    return message_of([&] { f(vector_of({1, 2})); });
  };
  const auto of_exp = [](auto make) {
    return [make](const NodeView& node) { return node.name() == "exp" ? make(node) : Tensor(); };
  };
  const std::string line = "at registered_passes_test.cpp:" + std::to_string(__LINE__ - 6);
  const std::string other_type = message("1", of_exp([](const NodeView& node) { return sum(node.operands()[0]); }));
  CHECK(contains(other_type, "exp gives f32[2], and what replaces it f32[]"));
  CHECK(contains(other_type, line));
  static const Tensor outside = ones({2});
  CHECK(contains(message("2", of_exp([](const NodeView&) { return outside; })), "from outside: use constant()"));
  CHECK(contains(message("3", of_exp([](const NodeView& node) { return node.operands()[0] + outside; })),
                 "from outside the trace"));
  CHECK(contains(
      message("4", [](const NodeView& node) { return node.name() == "input" ? node.results()[0] * 2 : Tensor(); }),
      "input is an input, which stays"));
  CHECK(contains(message("5", of_exp([](const NodeView& node) { return node.operands()[0] + uniform({2}); })),
                 "draws from the default generator"));
  CHECK(contains(message("6", of_exp([](const NodeView& node) {
                           return sum(node.operands()[0]) > 0 ? node.operands()[0] : Tensor();
                         })),
                 "at registered_passes_test.cpp"));
  CHECK(contains(message("7", of_exp([](const NodeView& node) {
                           return node.operands()[0][cast(node.operands()[0], DType::i64)];
                         })),
                 "checks something"));
}

TEST_CASE("WEFT_SKIP_PASSES leaves a registered pass out") {
  const Registered registered{{"skipped"}};
  register_pass(PassStage::joint, "skipped", "1", [](const GraphView& graph) {
    return graph.rewrite([](const NodeView& node) { return node.name() == "exp" ? node.operands()[0] : Tensor(); });
  });
  const std::vector<std::string> before = std::exchange(options().skip_passes, {"skipped"});
  CHECK(numbers_of(compile([](const Tensor& x) { return exp(x) + 1; })(vector_of({0}))) == Numbers{2});
  options().skip_passes = before;
  CHECK(numbers_of(compile([](const Tensor& x) { return exp(x) + 1; })(vector_of({0}))) == Numbers{1});
}

TEST_CASE("A pass keeps inputs and outputs") {
  const Registered registered{{"other"}};
  static std::optional<GraphView> kept;
  register_pass(PassStage::traced, "other", "1", [](const GraphView& graph) {
    if (!kept) kept = graph;
    return *kept;
  });
  const auto f = compile([](const Tensor& x) { return exp(x); });
  CHECK(numbers_of(f(vector_of({0}))) == Numbers{1});
  CHECK(contains(message_of([&] {
                   f(vector_of({0, 0}));
                 }),
                 "the pass \"other\" gave a graph of other inputs or outputs"));
  kept.reset();
}

TEST_CASE("A pass needs a name, a version and a function; a pattern is an operation") {
  CHECK(contains(message_of([] { register_pass(PassStage::joint, "", "1", as_it_is); }), "a pass without a name"));
  CHECK(contains(message_of([] { register_pass(PassStage::joint, "p", "", as_it_is); }), "has no version"));
  CHECK(contains(message_of([] { register_pass(PassStage::joint, "p", "1", {}); }), "is no function"));
  CHECK(contains(message_of([] {
                   register_rewrite(PassStage::joint, "p", "1", pattern::x,
                                    [](const PatternMatch& m) { return m[pattern::x]; });
                 }),
                 "the pattern of \"p\" is no operation"));
}

TEST_CASE("An observer sees the steps after fusion") {
  std::vector<FusedSteps> all;
  observe_fusion("test", [&](const FusedSteps& steps) { all.push_back(steps); });
  compile([](const Tensor& x) { return sum(exp(x) * 2); })(vector_of({1, 2}));
  observe_fusion("test", {});
  compile([](const Tensor& x) { return sum(exp(x) * 3); })(vector_of({1, 2}));
  REQUIRE(all.size() == 1);
  REQUIRE(all[0].steps.size() == 1);
  CHECK(all[0].steps[0].operations.size() == 3);
  CHECK(contains(all[0].text, "exp("));
}
