// Exported graphs: text and JSON hold the same, are read back, and run to the same bits; what is damaged or of a later
// operation set is refused in one sentence.
#include "weft/export.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/fail.hpp"
#include "tests/message_of.hpp"
#include "weft/precompile.hpp"
#include "weft/weft.hpp"

using namespace weft;
using test::message_of;
namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }
bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor wide = a.dtype() == DType::i64 ? a : cast(a, DType::f64), other = cast(b, wide.dtype());
  return all((wide == other) | ((wide != wide) & (other != other))).item<bool>();
}
struct Folder {
  fs::path path = fs::temp_directory_path() / ("weft-export-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return path / name; }
};

struct Mlp {
  nn::Linear in{8, 16}, out{16, 3};
  Buffer scale = Buffer(full({3}, 2));
  Tensor operator()(const Tensor& x) const { return softmax(out(gelu(in(x))) * scale, -1); }
};
Tensor forward_of(const Mlp& model, const Tensor& x) { return model(x) + constant({0.5f, 0.25f, 1e-30f}); }

struct Counter {
  Buffer total = Buffer(zeros({2}));
};

// No damage makes these endless.
ExportedGraph views() {
  return export_graph(compile([](const Tensor& x) {
                        const Tensor a = scan([](Tensor s, const Tensor& row) { return s * 0.5 + row; }, zeros({4}), x);
                        const Tensor b = cond(
                            sum(x) > 0, [](const Tensor& y) { return y * 2 - mean(y); },
                            [](const Tensor& y) { return -y; }, a);
                        return concat({slice(x, 0, 0, 2), flip(slice(x, 0, 0, 2), 0), reshape(b, {1, 4})}, 0) +
                               transpose(full({4, 5}, 2), 0, 1);
                      }),
                      tensor_spec({{2, 90}, 4}));
}
ExportedGraph loops() {
  return export_graph(
      compile([](const Tensor& x) {
        const Tensor a = scan([](Tensor s, const Tensor& row) { return s * 0.5 + row; }, zeros({4}), x);
        const Tensor b =
            while_loop([](const Tensor& s) { return sum(s) < 100; }, [](const Tensor& s) { return s * 1.5 + 1; }, a);
        return cond(
            sum(x) > 0, [](const Tensor& y) { return y * 2 - mean(y); }, [](const Tensor& y) { return -y; }, b);
      }),
      tensor_spec({{2, 90}, 4}));
}

}  // namespace

TEST_CASE("an exported graph has names, weights and sizes that vary, and is read back from text and JSON") {
  seed(4);
  const Mlp model;
  const ExportedGraph graph = export_graph(compile(forward_of), model, tensor_spec({{2, 90}, 8}));
  CAPTURE(graph.text());
  REQUIRE(graph.inputs().size() == 6);
  CHECK(graph.inputs()[0].name == "in.weight");
  CHECK(graph.inputs()[0].role == "parameter");
  CHECK(graph.inputs()[4].name == "scale");
  CHECK(graph.inputs()[4].role == "buffer");
  CHECK(graph.inputs()[5].role == "argument");
  CHECK(graph.inputs()[5].type == "f32[s0,8]");
  CHECK(graph.outputs()[0].type == "f32[s0,3]");
  CHECK(graph.tensors().contains("out.bias"));
  CHECK(contains(graph.text(), "weft graph, operation set 4, by weft "));
  CHECK(contains(graph.json(), "\"softmax\""));  // composites stay whole
  for (const std::string& text : {graph.text(), graph.json()}) {
    const ExportedGraph again = import_graph(text, graph.tensors());
    CHECK(again.text() == graph.text());
    CHECK(again.json() == graph.json());
    for (const int rows : {2, 7}) {
      const Tensor x = uniform({rows, 8}, -1);
      CHECK(same_bits(again({x})[0], forward_of(model, x)));
      CHECK(allclose(again.compiled()(std::vector{x})[0], forward_of(model, x), {.rtol = 1e-5}).item<bool>());
    }
  }
}

TEST_CASE("a file and its weights beside it") {
  const Folder folder;
  const Mlp model;
  const Tensor x = uniform({4, 8}, -1);
  const ExportedGraph graph = export_graph(compile(forward_of), model, x);
  for (const char* name : {"mlp.json", "mlp.graph"}) {
    save_graph(folder.file(name), graph);
    CHECK(fs::exists(folder.path / "mlp.safetensors"));
    CHECK(same_bits(load_graph(folder.file(name))({x})[0], forward_of(model, x)));
    fs::remove(folder.path / "mlp.safetensors");
    const ExportedGraph bare = load_graph(folder.file(name));
    CHECK(bare.text() == graph.text());
    CHECK(contains(message_of([&] { bare({x}); }), "the weight 'in.weight' is missing"));
  }
  std::map<std::string, Tensor> wrong = graph.tensors();
  wrong["in.weight"] = cast(wrong["in.weight"], DType::f64);
  CHECK(contains(message_of([&] { import_graph(graph.text(), wrong); }),
                 "the weight 'in.weight' is f64[16,8], and the graph's is f32[16,8]"));
  wrong["in.weight"] = ones({17, 8});
  CHECK(contains(message_of([&] { import_graph(graph.text(), wrong); }),
                 "the weight 'in.weight' is f32[17,8], and the graph's is f32[16,8]"));
  CHECK(contains(message_of([&] { graph({x, x}); }), "the graph takes 1 argument, and 2 were given"));
  CHECK(contains(message_of([&] { load_graph(folder.file("none.json")); }), "[load_graph]"));
  io::save(folder.file("weights.graph"), model);  // any other file
  const std::string said = message_of([&] { load_graph(folder.file("weights.graph")); });
  CHECK(contains(said, "[load_graph] " + folder.file("weights.graph") + ": [import_graph] "));
  CHECK(said.find(", at ") == said.rfind(", at "));
}

TEST_CASE("state is an output, loops have bodies, numbers keep their bits") {
  Counter counter;
  const ExportedGraph counts = export_graph(compile([](Counter& c, const Tensor& x) {
                                              c.total = c.total + x;
                                              return c.total * 2;
                                            }),
                                            counter, ones({2}));
  REQUIRE(counts.outputs().size() == 2);
  CHECK(counts.outputs()[1].role == "state");
  CHECK(counts.outputs()[1].name == "total");
  CHECK(same_bits(counts({full({2}, 3)})[1], full({2}, 3)));

  const ExportedGraph graph = loops(), again = import_graph(graph.json());
  CHECK(again.text() == graph.text());
  const Tensor x = uniform({5, 4}, -1);
  CHECK(same_bits(again({x})[0], graph({x})[0]));

  const ExportedGraph numbers = export_graph(compile([](const Tensor& x) {
                                               return where(x > 0, std::numeric_limits<float>::quiet_NaN(), x * -0.0f) +
                                                      where(x < -1, std::numeric_limits<float>::infinity(), 0.1f) -
                                                      1e-42f;
                                             }),
                                             ones({3}));
  CHECK(import_graph(numbers.json()).text() == numbers.text());
  CHECK(import_graph(numbers.text()).json() == numbers.json());
}

TEST_CASE("what a graph can't hold is refused with its reason") {
  const Tensor x = ones({3});
  CHECK(contains(message_of([&] { export_graph(compile([](const Tensor& x) { return x + uniform({3}); }), x); }),
                 "draws from the default generator"));
  CHECK(contains(message_of([&] {
                   export_graph(compile([](const Tensor& x) {
                                  host_call([](const Tensor&) {}, x);
                                  return x;
                                }),
                                x);
                 }),
                 "the function calls the host"));
  const std::string line = concat_text("export_test.cpp:", __LINE__ + 1);
  const auto reads = compile([](const Tensor& x) { return x.item<double>() > 0 ? x : -x; });
  CHECK(contains(message_of([&] { export_graph(reads, ones({})); }),
                 "is not known in a function that export_graph exports (" + line +
                     "), whose graph is one for all values: choose with where"));
  // What is traced afterwards is not exported.
  auto whole = compile([](const Tensor& x) { return x.item<double>() > 0 ? x : -x; }, {.fullgraph = true});
  CHECK(contains(message_of([&] { whole(ones({})).eval(); }), "compiled with {.fullgraph = true}"));
}

namespace {
struct Scores {
  Tensor logits;
  std::vector<Tensor> layers;
  WEFT_MEMBERS(logits, layers)
};
struct Texts {
  Tensor tokens, mask;
  WEFT_MEMBERS(tokens, mask)
};
}  // namespace

TEST_CASE("members of a result name the outputs, and messages say the names of inputs") {
  const auto f = [](const Texts& t) { return Scores{t.tokens + t.mask, {t.tokens * 2, t.mask * 3}}; };
  const auto rows = tensor_spec({{2, 90}, {2, 70}});
  const ExportedGraph graph = export_graph(compile([](const Tensor& a, const Tensor& b) {
                                             return Scores{a + b, {a * 2, b * 3}};
                                           }),
                                           rows, rows);
  std::string names;
  for (const GraphPort& port : graph.outputs()) names += port.name + " ";
  CHECK(names == "logits layers.0 layers.1 ");
  const ExportedGraph structs = export_graph(compile(f), Texts{ones({2, 3}), ones({2, 3})});
  CHECK(structs.inputs()[1].name == "mask");
  const ExportedGraph pair = export_graph(compile([](const Tensor& x) { return std::pair(x + 1, x + 2); }), ones({2}));
  CHECK(pair.outputs()[0].name == "output");
  CHECK(pair.outputs()[1].name == "output_1");

  CHECK(
      contains(message_of([&] {
                 graph({ones({2, 20}), ones({2, 21})});
               }),
               "axis 1 of the argument 'input_0' is 20 and axis 1 of the argument 'input_1' is 21, and both are s1 in "
               "the graph: they must be equal"));
  CHECK(contains(message_of([&] {
                   structs({ones({2, 3}), ones({2, 4})});
                 }),
                 "the argument 'mask' is f32[2,4], and the graph's is f32[2,3]"));
  CHECK(contains(message_of([&] { structs({ones({2, 3}), Tensor()}); }), "the argument 'mask' is an undefined tensor"));
}

TEST_CASE("files of another operation set, unknown operations and damage are one sentence") {
  const ExportedGraph graph = export_graph(compile(forward_of), Mlp(), ones({4, 8}));
  const auto refusal = [&](std::string text, const std::string& from, const std::string& to) {
    REQUIRE(contains(text, from));
    text.replace(text.find(from), from.size(), to);
    return message_of([&] { import_graph(text); });
  };
  CHECK(contains(refusal(graph.text(), "operation set 4", "operation set 5"),
                 "[import_graph] the graph was written with operation set 5"));
  CHECK(contains(refusal(graph.json(), "\"operation_set\": 4", "\"operation_set\": 7"),
                 "and this version of Weft reads sets up to 4"));
  CHECK(contains(refusal(graph.text(), " = add(", " = accumulate("), "a primitive, which 'accumulate' is not, is"));
  CHECK(contains(refusal(graph.json(), "\"op\": \"add\"", "\"op\": \"accumulate\""),
                 "there is no operation 'accumulate' in the sets that are known"));
  CHECK(contains(refusal(graph.text(), "f32[4,8]", "f32[4,9]"), "["));
  CHECK(contains(message_of([] { import_graph("hello"); }), "[import_graph] line 1, column 1"));
  CHECK(contains(message_of([] { import_graph("{\"a\": "); }), "[import_graph] the text is no JSON"));
  CHECK(contains(message_of([] { import_graph("{}"); }), "its format is not \"weft graph\""));
  CHECK(contains(message_of([] { import_graph(""); }), "[import_graph]"));
}

TEST_CASE("a file of operation set 1 that an earlier version wrote is read, and runs to its numbers") {
  const ExportedGraph text = load_graph(WEFT_SOURCE_DIR "/tests/export/operation_sets/1_example.graph"),
                      json = load_graph(WEFT_SOURCE_DIR "/tests/export/operation_sets/1_example.json");
  CHECK(text.text() == json.text());
  const Tensor x = reshape(cast(arange(8), DType::f32), {2, 4}) / 4 - 1;
  CHECK(text({x}).size() == 1);
  CHECK(allclose(cast(text({x})[0], DType::f64), cast(softmax(x, -1) + relu(x) * 2 - mean(x, 1, true), DType::f64),
                 {.rtol = 1e-6})
            .item<bool>());
  CHECK(same_bits(text({x})[0], json({x})[0]));
}

TEST_CASE("2000 damaged files are refused, or read as a graph that holds together") {
  const ExportedGraph looping = loops(), viewing = views(),
                      model = export_graph(compile(forward_of), Mlp(), tensor_spec({{2, 90}, 8}));
  const std::string sources[] = {looping.text(), looping.json(), model.text(),
                                 model.json(),   viewing.text(), viewing.json()};
  std::mt19937 random(11);
  int refused = 0, ran = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = sources[i % 6];
    const auto place = [&] { return random() % text.size(); };
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      const std::size_t at = place();
      switch (random() % 6) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 12); break;
        case 2: text.insert(at, text.substr(place(), 1 + random() % 30)); break;
        case 3: text[at] = "0123456789-,[](){}\"%"[random() % 20]; break;
        case 4: text.resize(at + 1); break;
        default: text.replace(at, 1, std::to_string(static_cast<std::int64_t>(random()) << (random() % 32))); break;
      }
    }
    CAPTURE(i);
    try {
      const ExportedGraph graph = import_graph(text, i % 6 < 2   ? looping.tensors()
                                                     : i % 6 < 4 ? model.tensors()
                                                                 : viewing.tensors());
      graph.text();
      // What is imported runs, or is refused: a few by kernels too. Loops may have become endless.
      if (i % 6 > 1) {
        std::vector<Tensor> given;
        for (const Tensor& input : graph.graph().inputs()) {
          Shape shape;
          for (const Dim size : input.shape()) shape.push_back(size.is_constant() ? size : Dim(5));
          if (shape.element_count().constant() < 100000) given.push_back(ones(shape, {.dtype = input.dtype()}));
        }
        graph.graph().run(given);
        ++ran;
        if (ran % 20 == 0) graph.graph().compiled()(given);
      }
    } catch (const InternalError& error) {
      FAIL_CHECK(error.what());
    } catch (const Error& error) {
      ++refused;
      const std::string what = error.what();
      CHECK(what.starts_with("["));
      CHECK(what.find('\n') == what.npos);
    }
  }
  CHECK(refused > 1400);
  CHECK(ran > 20);
}
