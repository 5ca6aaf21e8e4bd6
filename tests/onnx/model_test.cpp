// Models that the test writes: what loading gives, and what is refused.
#include "weft/onnx.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/fail.hpp"
#include "tests/message_of.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/onnx/support.hpp"
#include "weft/memory.hpp"
#include "weft/package.hpp"
#include "weft/weft.hpp"

using namespace weft;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

using namespace onnx_test;

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
// y = x, or -x where `flag` is false; doubled by a loop; added up by a scan; and what two constants say.
ModelData nested_network() {
  const auto value = [](const char* name) { return ValueData{name, 1, true, {{2}, {3}}}; };
  const auto row = [](const char* name) { return ValueData{name, 1, true, {{3}}}; };
  GraphData yes, no, body, step, g;
  yes.nodes = {{"", "Identity", "", {"x"}, {"then"}}};
  yes.outputs = {value("then")};
  no.nodes = {{"", "Neg", "", {"x"}, {"else"}}};
  no.outputs = {value("else")};
  // It ends for two reasons, so that it ends though one of them is damaged.
  body.nodes = {{"", "Less", "", {"i", "two"}, {"on"}}, {"", "Mul", "", {"v", "factor"}, {"w"}}};
  body.initializers = {tensor("factor", full({3}, 2))};
  body.inputs = {{"i", 7, true, {}}, {"before", 9, true, {}}, value("v")};
  body.outputs = {{"on", 9, true, {}}, value("w")};
  step.nodes = {{"", "Add", "", {"s", "r"}, {"t"}}, {"", "Identity", "", {"t"}, {"u"}}};
  step.inputs = {row("s"), row("r")};
  step.outputs = {row("t"), row("u")};
  TensorData flag = tensor("", full({}, 1, {DType::boolean})), two = sizes("", {2});
  two.sizes = {};
  g.nodes = {
      {"flag", "Constant", "", {}, {"flag"}, {attribute("value", flag)}},
      {"two", "Constant", "", {}, {"two"}, {attribute("value", two)}},
      {"start", "Constant", "", {}, {"start"}, {attribute("value", tensor("", zeros({3})))}},
      {"if", "If", "", {"flag"}, {"a"}, {graph("then_branch", yes), graph("else_branch", no)}},
      {"loop", "Loop", "", {"five", "flag", "a"}, {"b"}, {graph("body", body)}},
      {"scan", "Scan", "", {"start", "b"}, {"c", "y"}, {graph("body", step), integer("num_scan_inputs", 1)}},
  };
  g.initializers = {sizes("five", {5})};
  g.initializers[0].sizes = {};
  return model_of(std::move(g), {{2}, {3}});
}
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
  has(with({{"a", "Add", "", {"x", "w"}, {"y"}}}, {tensor("w", bias), tensor("w", bias)}), "the name w is given twice");
  // Of an operand of one axis there is no axis for a zero point each.
  GraphData product;
  const Tensor row = full({6}, 3, {DType::u8}), matrix = full({6, 2}, 2, {DType::u8}),
               several = full({4}, 1, {DType::u8});
  product.nodes = {{"a", "MatMulInteger", "", {"row", "matrix", "several"}, {"z"}}, {"b", "Relu", "", {"x"}, {"y"}}};
  product.initializers = {tensor("row", row), tensor("matrix", matrix), tensor("several", several)};
  has(test::message_of([&] {
        load(model_of(std::move(product)))({uniform({2, 1, 6, 6})});
      }),
      "has several zero points for an operand of 1 axes");
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

TEST_CASE("a model that asks for what no memory is there for is an Error") {
  const Tensor x = uniform({2, 3});
  const auto refusal = [&](std::vector<NodeData> nodes, std::vector<TensorData> tensors, const char* part) {
    GraphData g;
    g.nodes = std::move(nodes);
    g.initializers = std::move(tensors);
    ModelData model = model_of(std::move(g), {{2}, {3}});
    model.operator_sets[""] = 18;
    const std::string text = test::message_of([&] {
      for (const Tensor& each : load(model)({x})) each.eval();
    });
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto one = [](const char* operation, std::vector<std::string> inputs, std::vector<AttributeData> attributes) {
    return std::vector<NodeData>{{"", operation, "", std::move(inputs), {"y"}, std::move(attributes)}};
  };
  const Integers nine(9, 1);
  const auto scalar = [](const char* name, std::int64_t value) {
    TensorData made = sizes(name, {value});
    made.sizes = {};
    return made;
  };
  SUBCASE("more axes than a tensor has") {
    TensorData deep = tensor("deep", ones({1}));
    deep.sizes = nine;
    const char* const axes = "has 9 axes, and a tensor has at most 8";
    refusal(one("Add", {"x", "deep"}, {}), {deep}, axes);
    refusal(one("Constant", {}, {attribute("value", deep)}), {}, axes);
    GraphData branch;
    branch.initializers = {deep};
    branch.outputs = {port("deep", {})};
    refusal(one("If", {"flag"}, {graph("then_branch", branch), graph("else_branch", branch)}),
            {tensor("flag", full({}, 1, {DType::boolean}))}, axes);
    const char* const gives = "gives 9 axes, and a tensor has at most 8";
    refusal(one("ConstantOfShape", {"nine"}, {attribute("value", sizes("", {1}))}), {sizes("nine", nine)}, gives);
    refusal(one("Reshape", {"v", "nine"}, {}), {sizes("v", {1}), sizes("nine", nine)}, gives);
    refusal(one("Unsqueeze", {"v", "axes"}, {}), {sizes("v", {1}), sizes("axes", {0, 1, 2, 3, 4, 5, 6, 7})}, gives);
  }
  SUBCASE("axes that are not there") {
    const TensorData lengths = sizes("lengths", {1, 3});
    refusal(one("ReverseSequence", {"x", "lengths"}, {integer("batch_axis", 7), integer("time_axis", 1)}), {lengths},
            "there is no axis 7 of 2");
    refusal(one("ReverseSequence", {"x", "lengths"}, {integer("batch_axis", 0), integer("time_axis", -3)}), {lengths},
            "there is no axis -3 of 2");
    GraphData g;
    g.nodes = one("ReverseSequence", {"x", "lengths"}, {integer("batch_axis", -2), integer("time_axis", -1)});
    g.initializers = {lengths};
    const Tensor y = load(model_of(std::move(g), {{2}, {3}}))({x})[0];
    CHECK(same(y, stack({select(x, 0, 0), flip(select(x, 0, 1), 0)}, 0)));
  }
  SUBCASE("a matrix of bands that no memory holds, and bands of no number") {
    const auto mel = [&](std::int64_t bands, std::int64_t points, std::int64_t rate) {
      return std::vector<TensorData>{scalar("bands", bands), scalar("points", points), scalar("rate", rate),
                                     tensor("low", full({}, 0)), tensor("high", full({}, 4000))};
    };
    const auto node = one("MelWeightMatrix", {"bands", "points", "rate", "low", "high"}, {});
    const char* const part = "wants a number of bands, of points and a rate that are positive";
    refusal(node, mel(std::int64_t{1} << 32, std::int64_t{1} << 33, 8000), part);
    refusal(node, mel(INT64_MAX, 16, 8000), part);
    refusal(node, mel(8, INT64_MAX, 8000), part);
    refusal(node, mel(-3, 16, 8000), part);
    refusal(node, mel(8, 16, 0), part);
    for (const double high : {std::nan(""), HUGE_VAL, 1e30}) {
      auto tensors = mel(8, 16, 8000);
      tensors[4] = tensor("high", full({}, high));
      refusal(node, tensors, "(nothing thrown)");
    }
  }
  SUBCASE("inputs that are missing") {
    const std::vector<TensorData> two{sizes("v", {1}), sizes("w", {1})};
    refusal(one("Add", {"v"}, {}), two, "input 1 is missing");
    refusal(one("Equal", {"v"}, {}), two, "input 1 is missing");
    refusal(one("Where", {"v", "w"}, {}), two, "input 2 is missing");
    refusal(one("Reshape", {"v"}, {}), two, "input 1 is missing");
    refusal(one("Concat", {}, {integer("axis", 0)}), {}, "input 0 is missing");
  }
  SUBCASE("elements that are of no dtype") {
    const char* const part = ", which is no dtype";
    refusal(one("ConstantOfShape", {"v"}, {attribute("value", TensorData{"", 8, {1}})}), {sizes("v", {1})}, part);
    GraphData branch;
    branch.initializers = {TensorData{"far", 13, {1}, std::string(8, '\0')}};
    branch.outputs = {port("far", {})};
    refusal(one("If", {"flag"}, {graph("then_branch", branch), graph("else_branch", branch)}),
            {tensor("flag", full({}, 1, {DType::boolean}))}, part);
  }
  SUBCASE("a scan of which the body gives too little") {
    GraphData body;
    body.nodes = {{"", "Add", "", {"a", "b"}, {"c"}}};
    body.inputs = {port("a", {}), port("b", {}), port("r", {})};
    body.outputs = {port("c", {})};
    refusal(one("Scan", {"x", "x", "x"}, {graph("body", body), integer("num_scan_inputs", 1)}), {},
            "its body gives too few outputs");
  }
  SUBCASE("products of sizes that no integer holds") {
    const Integers most(6, 1 << 20);
    refusal(one("Col2Im", {"x", "image", "block"}, {}), {sizes("image", most), sizes("block", most)},
            "its blocks do not fit its images, or are too large");
    refusal(one("TfIdfVectorizer", {"v"},
                {integers("ngram_counts", {0}), integers("ngram_indexes", {INT64_MAX}), integers("pool_int64s", {1})}),
            {sizes("v", {1})}, "its counts or places are not those of its pool");
  }
}

TEST_CASE("integers that no size holds keep their values, and one that bounds a slice leaves sizes symbolic" *
          needs(a_compiler)) {
  GraphData g;
  TensorData i32 = tensor("i32", full({2}, 1 << 16, {DType::i32}));
  g.nodes = {
      {"", "Add", "", {"far", "step"}, {"near"}},
      {"", "Less", "", {"far", "near"}, {"less"}},
      {"", "Mul", "", {"i32", "i32"}, {"wrapped"}},
      {"", "Constant", "", {}, {"constant"}, {integer("value_int", INT64_MIN)}},
      {"", "Shape", "", {"x"}, {"sizes"}},
      {"", "Slice", "", {"sizes", "zero", "end"}, {"all"}},
      {"", "ConstantOfShape", "", {"all"}, {"filled"}, {attribute("value", sizes("", {INT64_MAX}))}},
  };
  g.initializers = {sizes("far", {INT64_MAX, INT64_MIN}), sizes("step", {-1, 1}), sizes("zero", {0}),
                    sizes("end", {INT64_MAX}), i32};
  for (const char* name : {"far", "near", "less", "wrapped", "constant", "filled"}) g.outputs.push_back(port(name, {}));
  const onnx::Model model = load(model_of(std::move(g), {{-1, "n"}, {3}}));
  const auto check = [](const Tensors& y, std::int64_t n) {
    const auto at = [](const Tensor& t, int i) { return select(flatten(t), 0, i).item<std::int64_t>(); };
    CHECK(at(y[0], 0) == INT64_MAX);
    CHECK(at(y[0], 1) == INT64_MIN);
    CHECK(at(y[1], 0) == INT64_MAX - 1);
    CHECK(at(y[1], 1) == INT64_MIN + 1);
    CHECK(!select(y[2], 0, 0).item<bool>());
    CHECK(select(y[2], 0, 1).item<bool>());
    CHECK(select(y[3], 0, 0).item<std::int32_t>() == 0);
    CHECK(y[4].item<std::int64_t>() == INT64_MIN);
    CHECK(y[5].shape() == Shape::of(n, 3));
    CHECK(at(y[5], 1) == INT64_MAX);
  };
  check(model({uniform({2, 3})}), 2);
  const auto f = compile([](const onnx::Model& m, const Tensors& x) { return m(x); });
  for (std::int64_t n : {4, 7, 9}) {
    const Tensor x = uniform({n, 3});
    mark_dynamic(x, 0);
    check(f(model, {x}), n);
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("files of one graph with other constants in other files are other models") {
  const auto folder = std::filesystem::temp_directory_path() / concat_text("weft_onnx_two_", getpid());
  std::vector<onnx::Model> models;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / name / "w.bin", std::ios::binary) << tensor("", full({2}, *name == 'a' ? 1 : 2)).bytes;
    TensorData there{"", 1, {}};
    there.place = {{"location", "w.bin"}, {"offset", "0"}, {"length", "4"}};
    TensorData initial = there;
    initial.name = "w";
    initial.place[1].second = "4";
    GraphData branch, g;
    branch.nodes = {{"", "Constant", "", {}, {"c"}, {attribute("value", there)}}};
    branch.outputs = {port("c", {})};
    g.nodes = {{"", "Add", "", {"x", "w"}, {"z"}},
               {"", "If", "", {"flag"}, {"d"}, {graph("then_branch", branch), graph("else_branch", branch)}},
               {"", "Mul", "", {"z", "d"}, {"y"}}};
    g.initializers = {initial, tensor("flag", full({}, 1, {DType::boolean}))};
    std::ofstream(folder / name / "m.onnx", std::ios::binary) << onnx::serialize_model(model_of(std::move(g), {{2}}));
    models.push_back(onnx::load((folder / name / "m.onnx").string()));
  }
  std::filesystem::remove_all(folder);
  CHECK(models[0].graph != models[1].graph);
  const Tensor x = uniform({2});
  CHECK(same(models[0]({x})[0], x + 1));
  CHECK(same(models[1]({x})[0], (x + 2) * 2));
}

namespace {

void check_damaged(const std::vector<std::byte>& whole, const Tensor& x, int least_refused) {
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
  CHECK(refused > least_refused);
}

}  // namespace

// Of a file on disk the elements of large initializers are not parsed: they are found in it.
TEST_CASE("large initializers are read where they lie in the file, small and repeated ones as protobuf reads them") {
  const Tensor large = uniform({64, 48}, -1), bias = uniform({48}, -1);
  const Tensor counts = arange(2048), x = uniform({3, 64}, -1);
  GraphData g;
  g.nodes = {{"product", "MatMul", "", {"x", "large"}, {"a"}},
             {"sum", "Add", "", {"a", "bias"}, {"y"}},
             {"same", "Identity", "", {"counts"}, {"z"}}};
  g.initializers = {tensor("bias", bias), tensor("large", large), tensor("counts", counts)};
  g.inputs = {port("x", {{3}, {64}})};
  g.outputs = {port("y", {{3}, {48}}), {"z", onnx::element_type(counts.dtype()), true, {{2048}}}};
  const std::vector<std::byte> bytes = bytes_of(model_of(std::move(g)));
  const std::string path = std::filesystem::temp_directory_path() / concat_text("weft_large_", getpid(), ".onnx");
  const auto run = [&](std::span<const std::byte> from) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(from.data()), std::ssize(from));
    const onnx::Model model = onnx::load(path);
    std::filesystem::remove(path);
    return model({x});
  };
  const Tensors results = run(bytes);
  CHECK(max(abs(results[0] - (matmul(x, large) + bias))).item() < 1e-4);
  CHECK(all(results[1] == counts).item<bool>());
  // A graph that is given in two pieces is one graph: the second has another initializer.
  const ModelData part{10, {{"", 21}}, "", {.initializers = {tensor("spare", large)}}};
  std::vector<std::byte> both = bytes;
  const std::vector<std::byte> more = bytes_of(part);
  both.insert(both.end(), more.begin(), more.end());
  CHECK(max(abs(run(both)[0] - results[0])).item() == 0);
  // Every prefix of the file is refused in a sentence.
  for (std::size_t length = 0; length < bytes.size(); length += 97)
    CHECK(weft::test::message_of([&] { run(std::span(bytes).first(length)); }) != "");
}

TEST_CASE("a value is given up after its last reader") {
  GraphData g;
  std::string last = "x";
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "y" : "v" + std::to_string(i);
    g.nodes.push_back({next, i % 2 ? "Tanh" : "Neg", "", {last}, {next}});
    last = next;
  }
  g.inputs = {port("x", {{1 << 18}})};
  g.outputs = {port("y", {{1 << 18}})};
  const onnx::Model model = load(model_of(std::move(g)));
  const Tensor x = uniform({1 << 18}, -1);
  x.eval();
  const MemoryMeter meter;
  const Tensors results = model({x});
  results[0].eval();
  CHECK(meter.peak() <= 12 << 20);  // of 40 values of a MiB
}

TEST_CASE("a damaged file is an Error, or another model") {
  check_damaged(bytes_of(small_network()), uniform({2, 1, 6, 6}, -1), 1000);
}
TEST_CASE("so is one with graphs inside") {
  const Tensor x = uniform({2, 3}, -1);
  CHECK(same(load(nested_network())({x})[0], cumsum(x * 8, 0)));
  check_damaged(bytes_of(nested_network()), x, 800);
}
