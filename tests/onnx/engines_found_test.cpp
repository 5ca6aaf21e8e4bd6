// An engine that is not there, too old, or fails: each a sentence. A library of the test stands in for the engines; it
// stays loaded, so the cases are in this order and this file is a process of its own.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/options.hpp"
#include "tests/message_of.hpp"
#include "weft/backends.hpp"
#include "weft/onnx.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

const Tensor x = full({2, 3}, 2.0);

// What a call says while the fake engine does this.
std::string message(const char* backend, const char* fault) {
  setenv("WEFT_FAKE_ENGINE", fault, 1);
  const auto f = compile([](const Tensor& x) { return exp(x); }, {.backend = backend});
  return test::message_of([&] { f(x).eval(); });
}
bool says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

struct Path {
  std::string& option;
  const char *backend, *name, *variable;
};
Path paths[] = {{options().onnxruntime, "onnxruntime", "ONNX Runtime", "WEFT_ONNXRUNTIME"},
                {options().openvino, "openvino", "OpenVINO", "WEFT_OPENVINO"}};

}  // namespace

TEST_CASE("an engine that is not found is an Error that says what was tried") {
  for (const Path& each : paths) {
    each.option = "/no/such/library.so";
    const std::string text = message(each.backend, "");
    says(text, std::string("the backend \"") + each.backend + "\": " + each.name + " was not found: " + each.variable +
                   " is /no/such/library.so");
    CHECK(text.find('\n') == std::string::npos);
    each.option = "libm.so.6";
    says(message(each.backend, ""), "(libm.so.6)");
  }
}

TEST_CASE("an engine that is too old says which version is needed") {
  paths[0].option = WEFT_FAKE_ENGINE_PATH;
  says(message("onnxruntime", "old"), "is version 1.17.3, which is too old: 1.23 is needed");
  paths[1].option = "libm.so.6";
  says(message("openvino", "old"), "is too old, or no C interface of OpenVINO: it has no ov_core_create");
}

TEST_CASE("errors of an engine reach the caller with its message, and the next call asks again") {
  for (const Path& each : paths) each.option = WEFT_FAKE_ENGINE_PATH;
  says(message("onnxruntime", "session"), "ONNX Runtime says: the model is not to my taste");
  says(message("onnxruntime", "run"), "ONNX Runtime says: the run was stopped");
  CHECK(message("onnxruntime", "") == "(nothing thrown)");
  says(message("openvino", "session"), "OpenVINO says: the model is not to my taste");
  says(message("openvino", "run"), "OpenVINO says: not implemented");
  CHECK(message("openvino", "") == "(nothing thrown)");
  const auto f = compile([](const Tensor& x) { return exp(x); }, {.backend = "onnxruntime"});
  setenv("WEFT_FAKE_ENGINE", "session", 1);
  CHECK(test::message_of([&] { f(x).eval(); }) != "");
  setenv("WEFT_FAKE_ENGINE", "", 1);
  CHECK(all(f(x) == 0).item<bool>());
}

TEST_CASE("parameters are constants of the engine's model while they stay, and inputs where they change") {
  setenv("WEFT_FAKE_ENGINE", "", 1);
  void* const fake = dlopen(WEFT_FAKE_ENGINE_PATH, RTLD_NOW);
  REQUIRE(fake);
  const int &models = *static_cast<int*>(dlsym(fake, "fake_models")),
            &inputs = *static_cast<int*>(dlsym(fake, "fake_inputs")), before = models;
  nn::Linear layer(3, 4);
  const auto f = compile([](const nn::Linear& m, const Tensor& x) { return m(x); }, {.backend = "onnxruntime"});
  const auto after = [&](int calls) {
    for (int i = 0; i < calls; ++i) f(layer, x).eval();
    return std::pair(models - before, inputs);
  };
  const auto replace = [&] { layer.weight = Param(uniform({4, 3})); };
  CHECK(after(3) == std::pair(1, 1));
  replace();
  CHECK(after(1) == std::pair(2, 3));  // a model in which they are inputs
  CHECK(after(1) == std::pair(3, 1));  // they have come again
  for (int i = 0; i < 3; ++i) {
    replace();
    CHECK(after(3) == std::pair(3, 3));  // the next model takes four calls in a row
  }
  CHECK(after(1) == std::pair(4, 1));
}

TEST_CASE("while a model is made for new parameters other calls go on, and where it fails the general model serves") {
  setenv("WEFT_FAKE_ENGINE", "", 1);
  void* const fake = dlopen(WEFT_FAKE_ENGINE_PATH, RTLD_NOW);
  REQUIRE(fake);
  auto& compiling = *static_cast<std::atomic<int>*>(dlsym(fake, "fake_compiling"));
  const nn::Linear first(3, 4), second(3, 4), third(3, 4);
  const auto f = compile([](const nn::Linear& m, const Tensor& x) { return m(x); }, {.backend = "onnxruntime"});
  f(first, x).eval();
  f(second, x).eval();
  setenv("WEFT_FAKE_ENGINE", "wait", 1);
  std::thread promotes([&] { f(second, x).eval(); });
  while (compiling == 0) std::this_thread::yield();
  setenv("WEFT_FAKE_ENGINE", "", 1);
  f(first, x).eval();
  f(third, x).eval();
  CHECK(compiling == 1);  // still
  compiling = 0;
  promotes.join();

  const int &models = *static_cast<int*>(dlsym(fake, "fake_models")), before = models;
  setenv("WEFT_FAKE_ENGINE", "session", 1);
  for (int i = 0; i < 4; ++i) CHECK(all(f(third, x) == 0).item<bool>());
  CHECK(models == before + 1);
  setenv("WEFT_FAKE_ENGINE", "", 1);
}

TEST_CASE("a function whose call has failed keeps its state") {
  Tensor state = full({3}, 1.0);
  const auto f = compile([](Tensor& s) { s = s + 1; }, {.backend = "onnxruntime"});
  setenv("WEFT_FAKE_ENGINE", "run", 1);
  CHECK(test::message_of([&] { f(state); }) != "");
  CHECK(all(state == 1).item<bool>());
}

TEST_CASE("an unknown backend says where those of engines are") {
  says(test::message_of([] { compile([](const Tensor& x) { return x; }, {.backend = "tensorrt"}); }), "onnxruntime");
}

TEST_CASE("a graph as bytes is a model with the constants that are given") {
  std::vector<std::byte> bytes;
  register_backend("bytes", [&](const GraphView& graph, std::span<const Tensor> examples) -> BackendExecutable {
    std::vector<Tensor> constants(examples.size());
    std::size_t other = 0;
    for (std::size_t i = 0; i < examples.size(); ++i)
      graph.is_constant(i) ? void(constants[i] = examples[i]) : void(other = i);
    bytes = onnx::to_bytes(graph, constants);
    return [model = onnx::load(bytes), other](std::span<const Tensor> inputs) { return model({inputs[other]}); };
  });
  nn::Linear layer(3, 4);
  const auto f = compile([](const nn::Linear& m, const Tensor& x) { return m(x); }, {.backend = "bytes"});
  CHECK(allclose(f(layer, x), layer(x)).item<bool>());
  const onnx::Model model = onnx::load(bytes);
  REQUIRE(onnx::inputs(model).size() == 1);
  CHECK(onnx::inputs(model)[0].type == "f32[2,3]");
  CHECK(onnx::outputs(model)[0].name == "output_0");
}
