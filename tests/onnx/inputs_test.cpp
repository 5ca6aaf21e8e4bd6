// What a model of a file asks of its inputs.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "onnx/program.hpp"
#include "tests/message_of.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/onnx/support.hpp"

using namespace weft;
using namespace onnx_test;
using test::a_compiler;
using test::needs;

namespace {

// ids [batch, seq] + mask [batch, seq].
onnx::Model added() {
  GraphData g;
  const std::vector<onnx::AxisData> axes = {{-1, "batch"}, {-1, "seq"}};
  g.inputs = {port("ids", axes), port("mask", axes)};
  g.outputs = {port("y", axes)};
  g.nodes = {{"a", "Add", "", {"ids", "mask"}, {"y"}}};
  return load(model_of(std::move(g)));
}
std::string unequal(const char* first, const char* second, const char* size) {
  return std::string(first) + " and " + second + ", and both are " + size + " in the file: they must be equal";
}
void has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("sizes that have one name in the file must be equal") {
  const onnx::Model model = added();
  CHECK(same(model({ones({4, 5}), ones({4, 5})})[0], full({4, 5}, 2.0)));
  // Without the check the addition broadcasts.
  has(test::message_of([&] {
        model({ones({4, 5}), ones({1, 5})});
      }),
      unequal("axis 0 of input 0 (ids) is 4", "axis 0 of input 1 (mask) is 1", "batch"));
  GraphData g;
  g.nodes = {{"a", "Relu", "", {"x"}, {"y"}}};
  const onnx::Model square = load(model_of(std::move(g), {{-1, "s0"}, {-1, "s0"}}));
  CHECK(square({ones({8, 8})}).size() == 1);
  has(test::message_of([&] {
        square({ones({16, 8})});
      }),
      unequal("axis 0 of input 0 (x) is 16", "axis 1 of input 0 (x) is 8", "s0"));
}

TEST_CASE("a parameter that was taken out of a model is missed, also where the operation could do without it") {
  GraphData g;
  g.nodes = {{"a", "Gemm", "", {"x", "w", "c"}, {"y"}}};
  g.initializers = {tensor("w", reshape(from_list<float>({1, 2, 3, 4, 5, 6}), {3, 2})),
                    tensor("c", from_list<float>({10, 20}))};
  const onnx::Model model = load(model_of(std::move(g), {{2, ""}, {3, ""}}));
  CHECK(same(model({ones({2, 3})})[0], from_list<float>({19, 32}) + zeros({2, 1})));
  onnx::Model less = model, empty = model;
  less.parameters.erase("c");
  empty.parameters.at("c") = Param(Tensor());
  for (const onnx::Model& each : {less, empty})
    has(test::message_of([&] {
          each({ones({2, 3})});
        }),
        "[onnx::Model] the model has no value for c, which is a parameter or buffer of the file");
}

TEST_CASE("in a compiled function symbolic sizes of one name are a condition of the graph" * needs(a_compiler)) {
  const onnx::Model model = added();
  const auto f = compile(
      [](const onnx::Model& m, const Tensor& ids, const Tensor& mask) {
        return m({ids, mask})[0];
      },
      {.dynamic = true});
  for (const int batch : {4, 7}) CHECK(same(f(model, ones({batch, 5}), ones({batch, 5})), full({batch, 5}, 2.0)));
  CHECK(specialization_count(f) == 1);
  has(test::message_of([&] {
        f(model, ones({4, 5}), ones({3, 5})).eval();
      }),
      unequal("axis 0 of input 0 (ids) is s0", "axis 0 of input 1 (mask) is s2", "batch") + ", where s0 = 4, s2 = 3");
}

TEST_CASE("graphs whose digests begin alike have numbers of their own") {
  const auto number = [](Digest key, const char* file) {
    auto made = std::make_unique<onnx::Program>();
    made->key = key, made->file = file;
    return onnx::keep(std::move(made));
  };
  const std::uint64_t low = 0x5eed'0000'0000'0001;
  const std::uint64_t one = number({low, 1}, "one"), two = number({low, 2}, "two");
  CHECK(one == low);
  CHECK(two != one);
  CHECK(number({low, 1}, "one again") == one);
  CHECK(number({low, 2}, "two again") == two);
  const auto file_of = [](std::uint64_t graph) {
    onnx::Model model;
    model.graph = graph;
    return onnx::program_of(model, "test", {}).file;
  };
  CHECK(file_of(one) == "one");
  CHECK(file_of(two) == "two");
}

TEST_CASE("a child of a fork asks for a model that another thread was asking for") {
  const onnx::Model model = added();
  std::atomic<bool> ends = false;
  std::thread asks([&] {
    while (!ends) onnx::program_of(model, "test", {});
  });
  int failures = 0;
  for (int i = 0; i < 40 && failures == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      onnx::program_of(model, "test", {});
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    failures += status != 0;
  }
  ends = true;
  asks.join();
  CHECK(failures == 0);
}
