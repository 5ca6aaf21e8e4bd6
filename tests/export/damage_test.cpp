// Graphs that nobody exported, calls that an exported graph was not traced for, and files beside each other.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "tests/message_of.hpp"
#include "weft/export.hpp"
#include "weft/precompile.hpp"
#include "weft/weft.hpp"

using namespace weft;
using test::message_of;
namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }
std::string head_of(int inputs) {
  std::string text = "weft graph, operation set 1, by weft 1\n";
  for (int i = 0; i < inputs; ++i) text += "input argument \"x" + std::to_string(i) + "\"\n";
  return text + "output result \"y\"\n";
}
std::string refusal(int inputs, const std::string& text) {
  return message_of([&] { import_graph(head_of(inputs) + text); });
}
// By all three ways to run an exported graph.
std::vector<std::string> refusals(const ExportedGraph& graph, const Tensor& x) {
  const std::vector<Tensor> given{x};
  return {message_of([&] { graph({x}); }), message_of([&] { graph.graph().run(given); }),
          message_of([&] { graph.compiled()(given); })};
}

}  // namespace

TEST_CASE("an exported graph refuses sizes that it was not traced for") {
  const ExportedGraph sliced =
      export_graph(compile([](const Tensor& x) { return slice(x, 0, 0, 10) * 2; }), tensor_spec({{2, 90}, 1}));
  const ExportedGraph branch = export_graph(compile([](const Tensor& x) { return x.size(0) < 10 ? x * 100 : x + 1; }),
                                            tensor_spec({{2, 90}, 1}));
  for (const ExportedGraph& graph : {sliced, import_graph(sliced.json())}) {
    CAPTURE(graph.text());
    for (const std::string& what : refusals(graph, ones({3, 1}))) {
      CHECK(contains(what, "s0 is 3, and the graph is of sizes with "));
      CHECK(contains(what, "damage_test.cpp:"));
    }
    for (const std::string& what : refusals(graph, ones({100, 1})))
      CHECK(contains(what, "s0 is 100, and the graph is of sizes from 2 to 90"));
    CHECK(graph({ones({12, 1})})[0].shape() == Shape::of(10, 1));
  }
  for (const std::string& what : refusals(branch, ones({5, 1})))
    CHECK(contains(what, "s0 is 5, and the graph is of sizes with "));
}

TEST_CASE("an imported graph that reads outside of its operands is refused") {
  const std::string two = "%0 f32[2] = input(0)\n";
  for (const char* slice : {"%1 f32[64] = slice(%0; axis 0, start 2)\n", "%1 f32[2] = slice(%0; axis 0, start -1)\n",
                            "%1 f32[2] = slice(%0; axis 0, step 2)\n", "%1 f32[2] = slice(%0; axis 0, step -1)\n"})
    CHECK(contains(refusal(1, two + slice + "return %1\n"), "slice reads outside of axis 0 of f32[2]"));
  CHECK(contains(refusal(1, two + "%1 f32[-5] = slice(%0; axis 0)\nreturn %1\n"), "slice has a size of -5"));
  CHECK(contains(refusal(1, two + "%1 f32[-98] = pad(%0; axis 0, before -100)\nreturn %1\n"), "pad has a size of -98"));
  CHECK(contains(refusal(1, two + "%1 i64[100] = argsort(%0; count 100)\nreturn %1\n"), "argsort has 100 places"));
  CHECK(contains(refusal(3, two + "%1 f32[64] = input(1)\n%2 i64[] = input(2)\n"
                                  "%3 f32[2] = update_slice(%0, %1, %2; axis 0)\nreturn %3\n"),
                 "update_slice has an update that is longer than axis 0 of f32[2]"));
  CHECK(contains(refusal(2, two + "%1 f32[3,2] = input(1)\n"
                                  "%2 f32[2] = scan(%0, %1; carries 1, scanned -1, length 3)\n"
                                  "  %0 f32[2] = input(0)\n  %1 f32[2] = input(1)\n  %2 f32[2] = add(%0, %1)\n"
                                  "  return %2\nreturn %2\n"),
                 "scan has 1 carried and -1 scanned values"));
  CHECK(contains(refusal(0, "%0 f32[2] = concat(axis 0)\nreturn %0\n"), "concat has no operands"));
  CHECK(contains(refusal(0,
                         "%0 f32[2] = cond()\n  %0 f32[2] = constant(1)\n  return %0\n"
                         "  %0 f32[2] = constant(2)\n  return %0\nreturn %0\n"),
                 "cond has no operands"));
  CHECK(contains(refusal(0, "%0 i64[3] = iota(axis 7)\nreturn %0\n"), "iota has no axis 7"));
  CHECK(contains(refusal(0, "%0 f32[-5] = constant(1)\nreturn %0\n"), "constant has a size of -5"));
  CHECK(contains(refusal(0, "%0 f32[4611686018427387,4000] = constant(1)\nreturn %0\n"), "more elements"));
  CHECK(contains(refusal(1, two + "%1 f32[2]@cuda:-7 = transfer(%0)\nreturn %1\n"), "the number of a device"));
  CHECK(contains(refusal(2, "%0 i64[1] = input(0)\n%1 f32[1] = input(1)\n%2 f32[] = scatter_add(%0, %1)\nreturn %2\n"),
                 "scatter_add has operands of too few axes"));
  CHECK(contains(refusal(1, two + "%1 f32[2] = input(0)\n%2 f32[2] = add(%0, %1)\nreturn %2\n"),
                 "two inputs have one slot"));
  // The same where only a call's sizes show it.
  const ExportedGraph later = import_graph(head_of(1) +
                                           "s0 = size 95, at least 2\n%0 f32[s0] = input(0)\n"
                                           "%1 f32[s0 - 90] = slice(%0; axis 0, start 90)\nreturn %1\n");
  for (const std::string& what : refusals(later, ones({5}))) CHECK(contains(what, "slice has a size of -85"));
}

TEST_CASE("an imported operation has the bodies that it needs, and no others") {
  const ExportedGraph graph = export_graph(
      compile([](const Tensor& x) {
        const Tensor last = scan([](const Tensor& h, const Tensor& row) { return h + row; }, zeros({2}), x);
        return cond(
            any(last > 0), [](const Tensor& x) { return x * 2; }, [](const Tensor& x) { return x - 1; },
            while_loop([](const Tensor& x) { return any(x > 1); }, [](const Tensor& x) { return x / 2; },
                       softmax(last)));
      }),
      ones({3, 2}));
  const std::string whole = graph.json();
  CHECK(import_graph(whole).json() == whole);
  std::size_t found = 0;
  for (std::size_t at = 0; (at = whole.find("\"bodies\"", at)) != whole.npos; ++at, ++found) {
    std::string without = whole;
    without.replace(at, 8, "\"bodied\"");
    CAPTURE(without);
    CHECK(contains(message_of([&] { import_graph(without); }), "bodies"));
  }
  CHECK(found == 4);
  CHECK(contains(
      refusal(1, "%0 f32[2] = input(0)\n%1 f32[2] = neg(%0)\n  %0 f32[2] = input(0)\n  return %0\nreturn %1\n"),
      "%1 neg has bodies"));
}

TEST_CASE("sizes that would take long to read are refused" * doctest::timeout(20)) {
  std::string nested = "s0", sum = "((s0", symbols = "s0 = size 4, at least 2\n";
  for (int i = 0; i < 16; ++i) nested = "floor_divide(" + nested + " + s0, 3)";
  for (int i = 1; i < 8; ++i) {
    symbols += "s" + std::to_string(i) + " = size 4, at least 2\n";
    sum += " + s" + std::to_string(i);
  }
  sum += ") / (1))";
  std::string product = sum;
  for (int i = 0; i < 40; ++i) product += "*" + sum;
  for (const std::string& size : {nested, product}) {
    const std::string what = refusal(1, symbols + "%0 f32[" + size + "] = input(0)\nreturn %0\n");
    CHECK((contains(what, "an expression of fewer levels") || contains(what, "a size of fewer terms")));
  }
}

TEST_CASE("constants that are missing are named before anything runs") {
  const ExportedGraph bare = import_graph(export_graph(compile([](const Tensor& x) {
                                                         return x + constant({1.f, 2.f});
                                                       }),
                                                       ones({2}))
                                              .text());
  CHECK(contains(message_of([&] { bare.compiled(); }), "the constant 'constant.0' is missing"));
  CHECK(contains(message_of([&] { bare({ones({2})}); }), "the constant 'constant.0' is missing"));
  CHECK(contains(message_of([&] { bare.graph().run(std::vector{ones({2})}); }), "a constant of the graph has no"));
  CHECK(contains(message_of([&] { bare.graph().compiled(); }), "a constant of the graph has no"));
}

TEST_CASE("weights go beside the file under its own name") {
  const fs::path folder = fs::temp_directory_path() / ("weft-damage-" + std::to_string(getpid()));
  fs::create_directories(folder);
  struct Adds {
    Buffer number = Buffer(zeros({2}));
  };
  const auto adds = [](float number) {
    const Adds model{Buffer(full({2}, number))};
    return export_graph(compile([](const Adds& model, const Tensor& x) { return x + model.number; }), model, ones({2}));
  };
  save_graph(folder / "net.encoder", adds(1));
  save_graph(folder / "net.decoder", adds(2));
  save_graph(folder / "net.safetensors", adds(3));
  for (const auto& [name, number] : {std::pair("net.encoder", 1), {"net.decoder", 2}, {"net.safetensors", 3}})
    CHECK(all(load_graph(folder / name)({zeros({2})})[0] == number).item<bool>());
  fs::remove_all(folder);
}

TEST_CASE("names, flags and bytes that JSON has otherwise") {
  const std::string text =
      "weft graph, operation set 1, by weft 1\ninput argument \"\xff\"\noutput result \"y\"\n"
      "%0 f32[2] = input(0)\nreturn %0\n";
  CHECK(contains(message_of([&] { import_graph(text).json(); }), "is not UTF-8"));
  const ExportedGraph graph = import_graph(
      R"({"format": "weft graph", "operation_set": 1, "written_by": "x", "inputs": [], "constants": [],
          "outputs": [{"name": "y", "role": "result"}], "graph": {"nodes": [{"op": "iota", "types": ["i64[3]"],
          "operands": [], "offloaded": false, "attributes": {"axis": 0}}], "results": ["%0"]}})");
  CHECK(!contains(graph.text(), "offloaded"));
}

TEST_CASE("a state output has the name of its input") {
  struct Counter {
    Buffer total = Buffer(zeros({2}));
  };
  Counter a, b;
  const ExportedGraph graph = export_graph(compile([](const Counter& a, Counter& b) {
                                             b.total = b.total + a.total;
                                             return b.total * 2;
                                           }),
                                           a, b);
  REQUIRE(graph.outputs().size() == 2);
  REQUIRE(graph.inputs().size() == 2);
  CHECK(graph.inputs()[1].name == graph.outputs()[1].name);
  CHECK(graph.inputs()[0].name != graph.outputs()[1].name);
}
