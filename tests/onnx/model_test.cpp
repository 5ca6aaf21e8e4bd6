// Models that the test writes: what loading gives, and what is refused.
#include "weft/onnx.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/fail.hpp"
#include "onnx/file.hpp"
#include "tests/message_of.hpp"
#include "tests/needs_compiler.hpp"
#include "weft/package.hpp"
#include "weft/weft.hpp"

using namespace weft;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

using onnx::AttributeData;
using onnx::GraphData;
using onnx::ModelData;
using onnx::NodeData;
using onnx::TensorData;
using onnx::ValueData;
using Integers = std::vector<std::int64_t>;
using Tensors = std::vector<Tensor>;

AttributeData integers(const char* name, Integers values) {
  AttributeData made{name, AttributeData::Kind::integers};
  made.integers = std::move(values);
  return made;
}
AttributeData integer(const char* name, std::int64_t value) {
  AttributeData made{name, AttributeData::Kind::integer};
  made.integer = value;
  return made;
}
TensorData tensor(const char* name, const Tensor& value) {
  TensorData made{name, onnx::element_type(value.dtype())};
  for (Dim size : value.shape()) made.sizes.push_back(size.constant());
  const io::HostElements elements(value, {});
  made.bytes.assign(elements.bytes().begin(), elements.bytes().end());
  return made;
}
TensorData sizes(const char* name, const Integers& values) {
  return tensor(name, from_span(values, {static_cast<std::int64_t>(values.size())}));
}
ValueData port(const char* name, std::vector<onnx::AxisData> axes) { return {name, 1, true, std::move(axes)}; }
std::vector<std::byte> bytes_of(const ModelData& model) {
  const std::string text = onnx::serialize_model(model);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}
onnx::Model load(const ModelData& model) { return onnx::load(bytes_of(model)); }
// A model of operator set 13 over x [batch, 1, 6, 6], or these axes.
ModelData model_of(GraphData graph, std::vector<onnx::AxisData> axes = {{-1, "batch"}, {1}, {6}, {6}}) {
  ModelData model{8, {{"", 13}}, "test"};
  graph.name = "graph";
  if (graph.inputs.empty()) graph.inputs = {port("x", std::move(axes))};
  if (graph.outputs.empty()) graph.outputs = {port("y", {{-1, "batch"}, {-1, ""}})};
  model.graph = std::move(graph);
  return model;
}

// Convolution, pool, and two products over what Shape, Gather and Concat say.
const Tensor kernel = uniform({2, 1, 3, 3}), kernel_bias = uniform({2}), first = uniform({8, 5}),
             second = uniform({3, 5}), bias = uniform({3});
ModelData small_network() {
  GraphData g;
  g.nodes = {
      {"conv", "Conv", "", {"x", "conv.weight", "conv.bias"}, {"a"}, {integers("kernel_shape", {3, 3})}},
      {"relu", "Relu", "", {"a"}, {"b"}},
      {"pool", "MaxPool", "", {"b"}, {"c"}, {integers("kernel_shape", {2, 2}), integers("strides", {2, 2})}},
      {"shape", "Shape", "", {"c"}, {"sizes"}},
      {"batch", "Gather", "", {"sizes", "zero"}, {"n"}, {integer("axis", 0)}},
      {"axes", "Unsqueeze", "", {"n", "first_axis"}, {"n1"}},
      {"flat", "Concat", "", {"n1", "eight"}, {"to"}, {integer("axis", 0)}},
      {"reshape", "Reshape", "", {"c", "to"}, {"d"}},
      {"fc1", "MatMul", "", {"d", "fc1.weight"}, {"e"}},
      {"tanh", "Tanh", "", {"e"}, {"f"}},
      {"fc2", "Gemm", "", {"f", "fc2.weight", "fc2.bias"}, {"y"}, {integer("transB", 1)}},
  };
  TensorData zero = sizes("zero", {0});
  zero.sizes = {};
  g.initializers = {tensor("conv.weight", kernel), tensor("conv.bias", kernel_bias),
                    tensor("fc1.weight", first),   tensor("fc2.weight", second),
                    tensor("fc2.bias", bias),      zero,
                    sizes("first_axis", {0}),      sizes("eight", {8})};
  return model_of(std::move(g));
}
Tensor expected(const Tensor& x) {
  const Tensor c = max_pool2d(relu(conv2d(x, kernel, kernel_bias)), 2);
  return matmul(tanh(matmul(reshape(c, {x.size(0), 8}), first)), transpose(second)) + bias;
}
bool same(const Tensor& a, const Tensor& b) { return allclose(a, b, {.rtol = 1e-5, .atol = 1e-6}).item<bool>(); }

}  // namespace

TEST_CASE("a model of a file computes what its graph says, and its floats are parameters by their names") {
  const onnx::Model model = load(small_network());
  std::string names;
  for (const auto& [name, value] : model.parameters) names += name + " ";
  CHECK(names == "conv.bias conv.weight fc1.weight fc2.bias fc2.weight ");
  CHECK(model.buffers.empty());
  CHECK(onnx::inputs(model)[0].name == "x");
  CHECK(onnx::inputs(model)[0].type == "f32[batch,1,6,6]");
  CHECK(onnx::outputs(model)[0].type == "f32[batch,?]");
  const Tensor x = uniform({4, 1, 6, 6}, -1);
  CHECK(same(model({x})[0], expected(x)));
}

TEST_CASE("a compiled function calls it for any batch: sizes that the graph computes stay symbolic" *
          needs(a_compiler)) {
  const onnx::Model model = load(small_network());
  const auto f = compile([](const onnx::Model& m, const Tensors& x) { return m(x); });
  for (std::int64_t batch : {4, 2, 7}) {
    const Tensor x = uniform({batch, 1, 6, 6}, -1);
    mark_dynamic(x, 0);
    CHECK(same(f(model, {x})[0], expected(x)));
  }
  CHECK(specialization_count(f) == 1);
  // Another graph with parameters of the same names is another model.
  ModelData other = small_network();
  other.graph.nodes[9].operation = "Sigmoid";
  const Tensor x = uniform({4, 1, 6, 6}, -1);
  CHECK(!same(f(load(other), {x})[0], f(model, {x})[0]));
}

TEST_CASE("it is trained, saved and packaged as any other model" * needs(a_compiler)) {
  onnx::Model model = load(small_network());
  const Tensor x = uniform({4, 1, 6, 6}, -1), y = uniform({4, 3});
  const auto loss_of = [&](const onnx::Model& m) { return mean(square(m({x})[0] - y)); };
  const auto gradients = value_and_grad(loss_of, model).gradients;
  const Tensor z = matmul(tanh(matmul(reshape(max_pool2d(relu(conv2d(x, kernel, kernel_bias)), 2), {4, 8}), first)),
                          transpose(second)) +
                   bias;
  CHECK(same(gradients.parameters.at("fc2.bias").tensor(), sum((z - y) * (2.0 / 12), 0)));

  optim::SGD opt(model, {.lr = 0.1});
  const auto step = compile([](onnx::Model& m, optim::SGD& o, const Tensor& in, const Tensor& out) {
    auto [loss, grads] = value_and_grad([&](const onnx::Model& each) { return mean(square(each({in})[0] - out)); }, m);
    o.update(m, grads);
    return loss;
  });
  const double before = step(model, opt, x, y).item();
  for (int i = 0; i < 20; ++i) step(model, opt, x, y);
  CHECK(loss_of(model).item() < before / 2);

  const auto folder = std::filesystem::temp_directory_path() / concat_text("weft_onnx_", getpid());
  std::filesystem::create_directories(folder);
  io::save(folder / "m.safetensors", model);
  onnx::Model again = load(small_network());
  io::load(folder / "m.safetensors", again);
  CHECK(same(again({x})[0], model({x})[0]));

  const auto f = compile([](const onnx::Model& m, const Tensors& in) { return m(in); });
  package((folder / "m.weft").string(), "forward", f, model, Tensors{x});
  const auto there =
      load_package((folder / "m.weft").string()).function<Tensors(const onnx::Model&, const Tensors&)>("forward");
  CHECK(same(there(model, {x})[0], model({x})[0]));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a tensor may lie in a file in the folder of the model, and nowhere else") {
  const auto folder = std::filesystem::temp_directory_path() / concat_text("weft_onnx_there_", getpid());
  std::filesystem::create_directories(folder / "in");
  const Tensor values = uniform({2, 3});
  for (const char* name : {"in/w.bin", "w.bin"})
    std::ofstream(folder / name, std::ios::binary) << "1234" << tensor("w", values).bytes;
  const auto load_from = [&](const char* location, const char* offset) {
    GraphData g;
    g.nodes = {{"", "MatMul", "", {"x", "w"}, {"y"}}};
    g.initializers = {{"w", 1, {2, 3}}};
    g.initializers[0].place = {{"location", location}, {"offset", offset}, {"length", "24"}};
    std::ofstream(folder / "in/m.onnx", std::ios::binary)
        << onnx::serialize_model(model_of(std::move(g), {{-1, "n"}, {2}}));
    return onnx::load((folder / "in/m.onnx").string());
  };
  const Tensor x = uniform({4, 2});
  CHECK(same(load_from("w.bin", "4")({x})[0], matmul(x, values)));
  const auto refusal = [&](const char* location, const char* offset) {
    return test::message_of([&] { load_from(location, offset); });
  };
  const std::string outside = "which is not in the folder of the model";
  CHECK(refusal("../w.bin", "4").find(outside) != std::string::npos);
  CHECK(refusal((folder / "in/w.bin").c_str(), "4").find(outside) != std::string::npos);
  CHECK(refusal("w.bin", "5").find("wants 24 bytes from 5 on of w.bin, which has 28") != std::string::npos);
  CHECK(refusal("absent.bin", "4").find("absent.bin") != std::string::npos);
  std::filesystem::create_symlink("../w.bin", folder / "in/link.bin");
  CHECK(refusal("link.bin", "4").find(outside) != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what can't be read is refused in a sentence") {
  const auto refusal = [](ModelData model) { return test::message_of([&] { load(model); }); };
  const auto with = [&](std::vector<NodeData> nodes, std::vector<TensorData> tensors = {}) {
    GraphData g;
    g.nodes = std::move(nodes);
    g.initializers = std::move(tensors);
    return refusal(model_of(std::move(g)));
  };
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(with({{"a", "Rubbish", "", {"x"}, {"b"}}, {"c", "Other", "my.domain", {"b"}, {"y"}}}),
      "operations that are not known in operator set 13: Rubbish, my.domain.Other");
  has(with({{"a", "Relu", "", {"b"}, {"c"}}, {"c", "Relu", "", {"c"}, {"b"}}, {"d", "Relu", "", {"b"}, {"y"}}}),
      "node a (Relu) reads b, which no input and no earlier node gives: the graph has a cycle");
  has(with({{"a", "Relu", "", {"x"}, {"b"}}}), "nothing gives the output y");
  has(with({{"a", "Relu", "", {"x"}, {"y"}}, {"b", "Relu", "", {"x"}, {"y"}}}), "the name y is given twice");
  TensorData large{"w", 1, {1 << 20, 1 << 20}, "four"};
  has(with({{"a", "Add", "", {"x", "w"}, {"y"}}}, {large}), "tensor w has 4 bytes, and its sizes say 4398046511104");
  large.sizes = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  has(with({{"a", "Add", "", {"x", "w"}, {"y"}}}, {large}), "tensor w has a size that no tensor has");
  ModelData old = small_network();
  old.operator_sets[""] = 99;
  has(refusal(old), "it is of operator set 99");
  const std::string rubbish = "no model";
  has(test::message_of([&] { onnx::load(std::as_bytes(std::span(rubbish))); }), "it is no ONNX model, or damaged");

  const onnx::Model model = load(small_network());
  has(test::message_of([&] {
        model({uniform({4, 2, 6, 6})});
      }),
      "input 0 (x) must be f32[batch,1,6,6], and is f32[4,2,6,6]");
  has(test::message_of([&] { model({}); }), "the model takes 1 input, and gets 0");
  has(test::message_of([&] { onnx::Model()({}); }), "of a model that was not loaded");
}

TEST_CASE("a damaged file is an Error, or another model") {
  const std::vector<std::byte> whole = bytes_of(small_network());
  const Tensor x = uniform({2, 1, 6, 6}, -1);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = whole;
    const std::size_t at = random() % bytes.size();
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 4) {
      case 0: bytes[at] ^= static_cast<std::byte>(1 << random() % 8); break;
      case 1: bytes[at] = static_cast<std::byte>(random()); break;
      case 2: bytes.erase(place); break;
      default: bytes.resize(at);
    }
    try {
      for (const Tensor& each : onnx::load(bytes)({x})) each.eval();
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
