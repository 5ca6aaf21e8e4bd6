// minimize(): a wrong compilation becomes a small graph, with the stage that is wrong.
#include <doctest/doctest.h>

#include <weft/backends.hpp>
#include <weft/effects.hpp>
#include <weft/minimize.hpp>
#include <weft/weft.hpp>

#include "ir/parse.hpp"
#include "trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// A pass that is wrong: products of these become sums.
struct WrongPass {
  explicit WrongPass(PassStage stage) {
    using pattern::x, pattern::y;
    register_rewrite(stage, "wrong", "1", tanh(x) * y,
                     [](const PatternMatch& match) { return tanh(match[x]) + match[y]; });
  }
  ~WrongPass() { unregister_pass("wrong"); }
};

struct Model {
  nn::Linear first{8, 16}, second{16, 8};
  Buffer calls{zeros({})};
  Tensor operator()(const Tensor& x) { return second(relu(first(x))); }
};
Tensor standardized(const Tensor& x) { return (x - mean(x, 1, true)) / sqrt(mean(square(x), 1, true) + 1e-5); }
Tensor program(Model& model, const Tensor& x) {
  model.calls += 1;
  const Tensor hidden = standardized(model(x));
  const Tensor gate = tanh(hidden * 2) * sigmoid(x);  // the wrong pass makes a sum of it
  return softmax(gate + hidden, 1);
}

}  // namespace

TEST_CASE("a function that is right has nothing to minimize") {
  Model model;
  auto f = compile([](Model& model, const Tensor& x) { return program(model, x); });
  const Minimization m = minimize(f, model, normal({4, 8}));
  CHECK(!m.found());
  CHECK(m.operations_all > 5);
  CHECK(to_string(m).find("nothing is wrong in ") == 0);
  CHECK(model.calls.tensor().item() == 0);
}

TEST_CASE("a wrong pass is named, and the graph that is left holds what it breaks") {
  for (const PassStage stage : {PassStage::traced, PassStage::joint, PassStage::before_fusion}) {
    Model model;
    auto f = compile([](Model& model, const Tensor& x) { return program(model, x); });
    const Tensor x = normal({4, 8});
    const WrongPass wrong(stage);
    CHECK(!verify(f, model, x).same());
    const Minimization m = minimize(f, model, x);
    REQUIRE(m.found());
    CHECK(m.stage == "wrong");
    CHECK(m.operations <= 3);
    CHECK(m.operations_all > 8);
    CHECK(contains(m.graph, "mul("));
    CHECK(to_text(parse_graph(m.graph)) == m.graph);
    const std::string again = check_graph(m.graph, m.inputs);
    CHECK(again == m.symptom + " (wrong)");
    CHECK(contains(m.program, "weft::check_graph(graph, inputs)"));
    CHECK(contains(m.program, m.graph));
    unregister_pass("wrong");
    CHECK(check_graph(m.graph, m.inputs).empty());
  }
}

TEST_CASE("what is found under options is found again under them") {
  Model model;
  auto f = compile([](Model& model, const Tensor& x) { return program(model, x); },
                   {.level = Level::O0, .region = Region::never});
  const WrongPass wrong(PassStage::traced);
  const Minimization m = minimize(f, model, normal({4, 8}));
  REQUIRE(m.found());
  CHECK(contains(m.program, "check_graph(graph, inputs, {.level = weft::Level::O0, .region = weft::Region::never})"));
  CHECK(check_graph(m.graph, m.inputs, {.level = Level::O0, .region = Region::never}) == m.symptom + " (wrong)");
}

TEST_CASE("a pass that throws is found too") {
  struct Throws {
    Throws() {
      register_pass(PassStage::joint, "throws", "1", [](const GraphView& graph) {
        for (const Tensor& value : graph.nodes())
          if (NodeView(value).name() == "exp") throw std::runtime_error("no exp");
        return graph;
      });
    }
    ~Throws() { unregister_pass("throws"); }
  } const registered;
  auto f = compile([](const Tensor& x) { return sum(exp(x * 2) + sqrt(abs(x))) * 3; });
  const Minimization m = minimize(f, normal({6}));
  REQUIRE(m.found());
  CHECK(m.symptom == "it throws: [compile] the pass \"throws\": no exp");
  CHECK(m.operations == 1);
}

TEST_CASE("of a function that decides each piece is looked at, and effects are left out") {
  const WrongPass wrong(PassStage::joint);
  static int seen = 0;
  auto f = compile([](const Tensor& x) {
    host_call([](const Tensor&) { ++seen; }, x);
    if (sum(x) > 0) return tanh(x + 1) * x + 2;
    return x;
  });
  const Minimization m = minimize(f, full({3}, 2.f));
  REQUIRE(m.found());
  CHECK(m.stage == "wrong");
  CHECK(m.operations <= 3);
  CHECK(seen == 1);
}

TEST_CASE("what a host_call gives values to is not asked for again, and does not count") {
  static int seen = 0;
  auto f = compile([](const Tensor& x) {
    return host_call(
               like(x),
               [](const Tensor& x) {
                 ++seen;
                 return x * 2;
               },
               x + 1) *
           3;
  });
  const Minimization m = minimize(f, full({3}, 2.f));
  CHECK(!m.found());
  CHECK(m.operations_all == 0);
  CHECK(seen == 1);
}

TEST_CASE("what check_graph is given must fit") {
  CHECK(contains(message_of([] { check_graph("nonsense", {}); }), "1"));
  const std::string text = "%0 f32[2] = input(0)\n%1 f32[2] = neg(%0)\nreturn %1\n";
  CHECK(contains(message_of([&] { check_graph(text, {}); }), "[check_graph] the graph has 1 inputs, given are 0"));
}
