// Functions that a file defines itself are their bodies.
#include <doctest/doctest.h>

#include "base/fail.hpp"
#include "tests/message_of.hpp"
#include "tests/onnx/support.hpp"

using namespace onnx_test;
using onnx::FunctionData;
using weft::test::message_of;

namespace {

AttributeData number(const char* name, double value) {
  AttributeData made{name, AttributeData::Kind::number};
  made.number = value;
  return made;
}
// An attribute of a node in a function: that of the call.
AttributeData reference(const char* name, const char* of, AttributeData::Kind kind = AttributeData::Kind::number) {
  AttributeData made{name, kind};
  made.reference = of;
  return made;
}

// y = leaky_relu(x, alpha) * w + beta; of operator set 13, as its model.
FunctionData scaled(const char* domain = "mine") {
  FunctionData f{"scaled", domain};
  f.inputs = {"x", "w"};
  f.outputs = {"y"};
  f.attributes = {"alpha"};
  f.defaults = {number("beta", 2)};
  f.nodes = {{"relu", "LeakyRelu", "", {"x"}, {"z"}, {reference("alpha", "alpha")}},
             {"", "Constant", "", {}, {"c"}, {reference("value_float", "beta")}},
             {"", "Mul", "", {"z", "w"}, {"t"}},
             {"", "Add", "", {"t", "c"}, {"y"}}};
  f.operator_sets = {{"", 13}};
  return f;
}
Tensor expected_scaled(const Tensor& x, const Tensor& w, double alpha, double beta = 2) {
  return leaky_relu(x, alpha) * w + beta;
}

// Calls it twice, once from a branch that reads what is outside of it. Outputs: y, the input itself, and y again.
FunctionData twice() {
  GraphData yes, no;
  yes.nodes = {{"", "scaled", "mine", {"t", "w"}, {"u"}, {reference("alpha", "slope"), number("beta", 3)}}};
  yes.outputs = {{"u"}};
  no.nodes = {{"", "Identity", "", {"t"}, {"v"}}};
  no.outputs = {{"v"}};
  FunctionData f{"twice", "mine"};
  f.inputs = {"x", "w", "least", "most"};
  f.outputs = {"y", "x", "y"};
  f.attributes = {"slope"};
  f.nodes = {{"", "scaled", "mine", {"x", "w"}, {"t"}, {reference("alpha", "slope")}},
             {"", "Constant", "", {}, {"flag"}, {attribute("value", tensor("", full({}, 1, {DType::boolean})))}},
             {"", "If", "", {"flag"}, {"r"}, {graph("then_branch", yes), graph("else_branch", no)}},
             {"", "Clip", "", {"r", "least", "most"}, {"y"}}};
  f.operator_sets = {{"", 13}, {"mine", 1}};
  return f;
}

ModelData calling(std::vector<NodeData> nodes, std::vector<FunctionData> functions) {
  GraphData g;
  g.nodes = std::move(nodes);
  ModelData model = model_of(std::move(g), {{-1, "n"}, {3}});
  model.operator_sets["mine"] = 1;
  model.functions = std::move(functions);
  return model;
}

const Tensor weight = uniform({3}, 0.5, 2);

}  // namespace

TEST_CASE("functions of a file, nested, with attributes by reference, defaults, and inputs that are left out") {
  ModelData data =
      calling({{"first", "twice", "mine", {"x", "weight", "", "most"}, {"t", "same"}, {number("slope", 0.25)}},
               {"", "twice", "mine", {"t", "weight"}, {"y", "", "again"}, {number("slope", 0.5)}},
               {"", "Sub", "", {"again", "same"}, {"z"}}},
              {scaled(), twice()});
  data.graph.initializers = {tensor("weight", weight), tensor("most", full({}, 4))};
  data.graph.outputs.push_back(port("z", {}));
  const onnx::Model model = load(data);
  CHECK(model.parameters.size() == 1);
  const auto expected = [](const Tensor& x) {
    const Tensor t = minimum(expected_scaled(expected_scaled(x, weight, 0.25), weight, 0.25, 3), 4);
    const Tensor y = expected_scaled(expected_scaled(t, weight, 0.5), weight, 0.5, 3);
    return Tensors{y, y - x};
  };
  const auto check = [&](const Tensors& found, const Tensor& x) {
    for (std::size_t i = 0; i < 2; ++i) CHECK(allclose(found[i], expected(x)[i], {.rtol = 1e-6}).item<bool>());
  };
  const auto f = compile([](const onnx::Model& m, const Tensors& x) { return m(x); }, {.fullgraph = true});
  for (std::int64_t n : {2, 5}) {
    const Tensor x = uniform({n, 3}, -1);
    mark_dynamic(x, 0);
    check(model({x}), x);
    check(f(model, {x}), x);
  }
  CHECK(specialization_count(f) == 1);
  // What is an argument of a function is a parameter, or state, by what its body does with it.
  FunctionData normalizes{"normalizes", "mine"};
  normalizes.inputs = {"x", "g", "b", "m", "v"};
  normalizes.outputs = {"y"};
  normalizes.nodes = {{"", "BatchNormalization", "", {"x", "g", "b", "m", "v"}, {"y"}}};
  normalizes.operator_sets = {{"", 13}};
  ModelData normal = calling({{"", "normalizes", "mine", {"x", "gain", "shift", "mean", "var"}, {"y"}}}, {normalizes});
  for (const char* name : {"gain", "shift", "mean", "var"})
    normal.graph.initializers.push_back(tensor(name, ones({3})));
  const onnx::Model layer = load(normal);
  CHECK(layer.parameters.contains("gain"));
  CHECK(layer.buffers.contains("mean"));
  CHECK(layer.buffers.contains("var"));
}

TEST_CASE("functions of one name in two domains, of other operator sets, and in the place of a known operation") {
  const Tensor x = uniform({2, 3}, -1);
  FunctionData negates = scaled("other"), older{"ends", "mine"}, relu{"Relu", ""};
  negates.attributes.clear(), negates.defaults.clear();
  negates.nodes = {{"", "Neg", "", {"x"}, {"y"}}};
  // Squeeze has its axes as an attribute up to set 12, as an input from 13 on.
  older.inputs = {"x"}, older.outputs = {"y"};
  older.nodes = {{"", "Unsqueeze", "", {"x"}, {"t"}, {integers("axes", {0})}},
                 {"", "Squeeze", "", {"t"}, {"y"}, {integers("axes", {0})}}};
  older.operator_sets = {{"", 11}};
  relu.inputs = {"x"}, relu.outputs = {"y"};
  relu.nodes = {{"", "Abs", "", {"x"}, {"y"}}};
  relu.operator_sets = {{"", 13}};
  const auto model = [&](const FunctionData& last) {
    ModelData data = calling({{"", "scaled", "mine", {"x", "x"}, {"a"}, {number("alpha", 0.5)}},
                              {"", "scaled", "other", {"a", "a"}, {"b"}},
                              {"", "ends", "mine", {"b"}, {"c"}},
                              {"", "Relu", "", {"c"}, {"y"}}},
                             {scaled(), negates, last, relu});
    return load(data);
  };
  CHECK(same(model(older)({x})[0], abs(expected_scaled(x, x, 0.5))));
  // The same nodes of another operator set are another model.
  FunctionData newer = older;
  newer.nodes = {{"", "Identity", "", {"x"}, {"y"}}};
  const onnx::Model eleventh = model(newer);
  newer.operator_sets = {{"", 13}};
  CHECK(model(newer).graph != eleventh.graph);
}

TEST_CASE("functions that can't be their bodies are refused in a sentence") {
  const auto refused = [](const ModelData& data, const char* words) {
    const std::string message = message_of([&] { load(data); });
    CAPTURE(message);
    CHECK(message.starts_with("[onnx::load] model.onnx: "));
    CHECK(message.find(words) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  const NodeData call{"call", "scaled", "mine", {"x", "x"}, {"y"}, {number("alpha", 1)}};
  load(calling({call}, {scaled()}));
  FunctionData endless = scaled();
  endless.nodes = {{"", "again", "mine", {"x"}, {"y"}}};
  FunctionData again{"again", "mine", "", {"x"}, {"y"}, {}, {}, {{"", "scaled", "mine", {"x"}, {"y"}}}};
  refused(calling({call}, {endless, again}), "the function scaled calls itself, which no function may");
  FunctionData lacking = scaled();
  lacking.nodes[0] = {"", "absent", "mine", {"x"}, {"z"}};
  refused(calling({call}, {lacking}), "it has operations that are not known in operator set 13: mine.absent");
  refused(calling({call}, {scaled(), scaled()}), "the function scaled is defined twice");
  NodeData other = call;
  other.inputs.push_back("x");
  refused(calling({other}, {scaled()}), "node call (scaled) has 3 inputs, and the function scaled has 2");
  other = call;
  other.outputs.push_back("z");
  refused(calling({other}, {scaled()}), "node call (scaled) has 2 outputs, and the function scaled has 1");
  other = call;
  other.inputs.pop_back();
  const std::string message = message_of([&] { load(calling({other}, {scaled()}))({ones({2, 3})}); });
  CHECK(message.find("[Mul] ") == 0);
  CHECK(message.find("input 1 is missing") != std::string::npos);
  other = call;
  other.attributes.clear();
  refused(calling({other}, {scaled()}), "node call (scaled) does not give the attribute alpha of the function scaled");
  refused(calling({{"", "LeakyRelu", "", {"x"}, {"y"}, {reference("alpha", "alpha")}}}, {}),
          "has the attribute alpha of a function, and is in none");
  FunctionData silent = scaled();
  silent.outputs = {"nothing"};
  refused(calling({call}, {silent}), "nothing gives the output y");
  FunctionData newest = scaled();
  newest.operator_sets = {{"", 99}};
  refused(calling({call}, {newest}), "the function scaled is of operator set 99, and those up to 24 are read");
  // Each calls the next one twice.
  std::vector<FunctionData> doubling;
  for (int i = 0; i < 40; ++i) {
    FunctionData& f = doubling.emplace_back(FunctionData{concat_text("f", i), "mine", "", {"x"}, {"y"}});
    const std::string next = i < 39 ? concat_text("f", i + 1) : std::string("Neg"), domain = i < 39 ? "mine" : "";
    f.nodes = {{"", next, domain, {"x"}, {"t"}}, {"", next, domain, {"t"}, {"y"}}};
    for (int k = 0; i == 39 && k < 4; ++k) f.nodes.push_back({"", "Neg", "", {"t"}, {concat_text("unread", k)}});
  }
  refused(calling({{"", "f0", "mine", {"x"}, {"y"}}}, doubling), "it has more than 131072 nodes");
  std::vector<FunctionData> chain;
  for (int i = 0; i < 20000; ++i) {
    const std::string next = i < 19999 ? concat_text("f", i + 1) : std::string("Neg"), domain = i < 19999 ? "mine" : "";
    chain.push_back({concat_text("f", i), "mine", "", {"x"}, {"y"}, {}, {}, {{"", next, domain, {"x"}, {"y"}}}});
  }
  refused(calling({{"", "f0", "mine", {"x"}, {"y"}}}, chain), "functions call one another more than 64 deep");
  // Calls alone, no node.
  std::vector<FunctionData> empty;
  for (int i = 0; i < 40; ++i) {
    FunctionData& f = empty.emplace_back(FunctionData{concat_text("f", i), "mine", "", {"x"}, {"x"}});
    if (i < 39)
      for (int k = 0; k < 2; ++k) f.nodes.push_back({"", concat_text("f", i + 1), "mine", {"x"}, {""}});
  }
  refused(calling({{"", "f0", "mine", {"x"}, {"y"}}}, empty), "it calls functions more than 131072 times");
}
