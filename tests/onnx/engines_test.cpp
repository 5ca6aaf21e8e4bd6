// Compiled functions run by ONNX Runtime and by OpenVINO, where they are found, beside generated kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "base/fail.hpp"
#include "tests/message_of.hpp"
#include "tests/models/small_models.hpp"
#include "tests/needs.hpp"
#include "tests/onnx/engine_paths.hpp"
#include "weft/onnx.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         allclose(a, b, {.rtol = 1e-4, .atol = 1e-5, .equal_nan = true}).item<bool>();
}

struct Mlp {
  nn::Linear in{6, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
  WEFT_MEMBERS(in, out)
};
struct Convolutions {
  nn::Conv2d first{3, 8, 3, {.padding = 1}};
  nn::BatchNorm2d norm{8};
  nn::Conv2d second{8, 4, 3, {.stride = 2}};
  Tensor operator()(const Tensor& x) { return mean(relu(second(max_pool2d(relu(norm(first(x))), 2))), {2, 3}); }
  WEFT_MEMBERS(first, norm, second)
};
struct Attending {
  nn::MultiheadAttention attention{16, 4};
  nn::LayerNorm norm{16};
  Tensor operator()(const Tensor& x) const { return norm(x + attention(x, x, x).output); }
  WEFT_MEMBERS(attention, norm)
};

constexpr auto call = [](auto& model, const Tensor& x) { return model(x); };

// What the engine gives is what generated kernels give.
template <class F, class... A>
void check_same(const char* engine, F f, const A&... arguments) {
  const auto wanted = compile(f)(arguments...);
  CHECK(same(compile(f, {.backend = engine})(arguments...), wanted));
}

void check_models(const char* engine) {
  seed(3);
  const auto check = [&](auto model, const Tensor& x) {
    nn::eval(model);
    const auto f = [](decltype(model)& m, const Tensor& x) { return m(x); };
    CHECK(same(compile(f, {.backend = engine})(model, x), compile(f)(model, x)));
  };
  check(Mlp(), uniform({5, 6}, -1));
  check(Convolutions(), uniform({2, 3, 16, 16}, -1));
  check(Attending(), uniform({2, 7, 16}, -1));
}

// The example models, beside what they give outside of a compiled function.
struct Examples {
  const char* engine;
  int count = 0;
  template <class F, class Model, class... A>
  void add(const char* name, F f, Model model, const A&... arguments) {
    CAPTURE(name);
    ++count;
    const Tensor wanted = f(model, arguments...);
    CHECK(same(compile(f, {.backend = engine})(model, arguments...), wanted));
  }
};
void check_examples(const char* engine) {
  Examples all{engine};
  small_models::add_small_models(all);
  CHECK(all.count == 14);
}

void check_dtypes(const char* engine, std::span<const DType> dtypes) {
  for (const DType dtype : dtypes) {
    CAPTURE(dtype);
    const Tensor a = cast(randint({4, 5}, 0, 9), dtype), b = cast(randint({4, 5}, 1, 9), dtype);
    check_same(
        engine, [](const Tensor& a, const Tensor& b) { return where(a > b, a * b + a, b); }, a, b);
    check_same(
        engine, [](const Tensor& a, const Tensor& b) { return (a > 3) | (b == 2); }, a, b);
  }
  check_same(
      engine, [](const Tensor& a, const Tensor& b) { return ~(a & b); }, uniform({7}) < 0.5, uniform({7}) < 0.5);
  check_same(
      engine, [](const Tensor& table, const Tensor& i) { return gather(table, i) * 2; }, uniform({9, 4}),
      randint({3, 2}, 0, 9));
  // A result without axes, one without elements, an operand that is a view.
  check_same(
      engine, [](const Tensor& x) { return sum(x); }, uniform({3, 4}));
  check_same(
      engine, [](const Tensor& x) { return x * 2; }, zeros({0, 4}));
  check_same(
      engine, [](const Tensor& x) { return exp(x); }, slice(transpose(uniform({6, 4}), 0, 1), 0, 1, 3));
}

void check_sizes(const char* engine) {
  Mlp model;
  const auto f = [](const Mlp& m, const Tensor& x) {
    return reshape(m(x), {x.size(0) * 3}) / At(x.size(0)) + sum(softmax(x, 0));
  };
  const auto engines = compile(f, {.dynamic = true, .backend = engine});
  for (const int batch : {5, 2, 31}) {
    const Tensor x = uniform({batch, 6}, -1);
    CHECK(same(engines(model, x), f(model, x)));
  }
  CHECK(specialization_count(engines) == 1);
}

struct Two {
  nn::Linear used{4, 3}, unused{4, 3};
  nn::BatchNorm1d norm{3};
  WEFT_MEMBERS(used, unused, norm)
};
// Arguments and parameters that the function does not read, among them those of a layer that is not called.
void check_unread(const char* engine) {
  Two model;
  nn::eval(model);
  const auto f = [](const Two& m, const Tensor&, const Tensor& x) { return m.norm(m.used(x)); };
  const auto engines = compile(f, {.backend = engine});
  const Tensor x = uniform({2, 4}, -1), other = ones({5});
  CHECK(same(engines(model, other, x), f(model, other, x)));
  for (int i = 0; i < 3; ++i) {  // then the parameters are inputs, and constants again
    if (i == 0) model.used.bias = Param(uniform({3}));
    CHECK(same(engines(model, other, x), f(model, other, x)));
  }
  check_same(
      engine, [](const Tensor& x, const Tensor& y) { return zeros(y.shape()) + sum(x); }, x, other);
}

// Parameters that the program replaces count at once, how often ever they are replaced.
void check_replaced(const char* engine) {
  Mlp model;
  const auto f = compile(call, {.backend = engine});
  const Tensor x = uniform({4, 6}, -1);
  for (const int calls : {3, 1, 1, 2, 4, 1, 9}) {
    model.in.weight = Param(uniform({16, 6}, -1));
    const Tensor wanted = model(x);
    for (int i = 0; i < calls; ++i) CHECK(same(f(model, x), wanted));
  }
}

// A step changes its parameters: those are inputs and outputs of the engine's model.
void check_training(const char* engine) {
  seed(5);
  Mlp first;
  Mlp second = first;
  optim::SGD first_state(first, {.lr = 0.1, .momentum = 0.9}), second_state(second, {.lr = 0.1, .momentum = 0.9});
  const auto step = [](Mlp& model, optim::SGD& state, const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = value_and_grad([&](const Mlp& m) { return mean(square(m(x) - y)); }, model);
    state.update(model, gradients);
    return loss;
  };
  const Tensor x = uniform({8, 6}, -1), y = uniform({8, 3}, -1);
  const auto ours = compile(step), theirs = compile(step, {.backend = engine});
  for (int i = 0; i < 3; ++i) CHECK(same(theirs(second, second_state, x, y), ours(first, first_state, x, y)));
  CHECK(same(second.in.weight, first.in.weight));
}

void check_failures(const char* engine) {
  const std::string says = concat_text("the backend \"", engine, "\"");
  const auto table = uniform({9, 4});
  const auto take = compile([](const Tensor& t, const Tensor& i) { return gather(t, i); }, {.backend = engine});
  CHECK(same(take(table, constant({1, 8})), gather(table, constant({1, 8}))));
  // The engine counts from the end, and refuses 9 itself: the check that the function makes is made.
  const std::string made_at = concat_text("engines_test.cpp:", __LINE__ - 3);
  for (const int index : {-1, 9}) {
    const std::string refused = test::message_of([&] { take(table, constant({1, index})).eval(); });
    CAPTURE(refused);
    CHECK(refused.find("an index is out of range [0, 9)") != std::string::npos);
    CHECK(refused.find(made_at) != std::string::npos);
  }
  // What ONNX has not is refused with the operation and its line.
  const auto inverse = compile([](const Tensor& x) { return linalg::inv(x); }, {.backend = engine});
  const std::string line = concat_text("engines_test.cpp:", __LINE__ - 1);
  const std::string text = test::message_of([&] { inverse(uniform({3, 3})).eval(); });
  CAPTURE(text);
  CHECK(text.find(says) != std::string::npos);
  CHECK(text.find("ONNX has no operation for lu") != std::string::npos);
  CHECK(text.find(line) != std::string::npos);
}

void check_threads(const char* engine) {
  Mlp model;
  const auto f = compile(call, {.dynamic = true, .backend = engine});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Mlp own;  // other parameters than those of other threads
      for (int i = 0; i < 20; ++i) {
        const Tensor x = full({t + 2, 6}, 0.1 * i);
        const Mlp& used = i % 3 ? own : model;
        wrong += !same(f(used, x), used(x));
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("ONNX Runtime computes models as generated kernels do" * test::needs(test::onnxruntime)) {
  check_models("onnxruntime");
}
TEST_CASE("example models run in ONNX Runtime" * test::needs(test::onnxruntime)) { check_examples("onnxruntime"); }
TEST_CASE("ONNX Runtime takes and gives all dtypes" * test::needs(test::onnxruntime)) {
  check_dtypes("onnxruntime", std::array{DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8});
}
TEST_CASE("one model of ONNX Runtime serves all sizes" * test::needs(test::onnxruntime)) { check_sizes("onnxruntime"); }
TEST_CASE("ONNX Runtime is not given what the function does not read" * test::needs(test::onnxruntime)) {
  check_unread("onnxruntime");
}
TEST_CASE("parameters that are replaced count in ONNX Runtime" * test::needs(test::onnxruntime)) {
  check_replaced("onnxruntime");
}
TEST_CASE("a training step runs in ONNX Runtime" * test::needs(test::onnxruntime)) { check_training("onnxruntime"); }
TEST_CASE("what ONNX Runtime can't do is an Error" * test::needs(test::onnxruntime)) { check_failures("onnxruntime"); }
TEST_CASE("threads call one function of ONNX Runtime" * test::needs(test::onnxruntime)) {
  check_threads("onnxruntime");
}

TEST_CASE("OpenVINO computes models as generated kernels do" * test::needs(test::openvino)) {
  check_models("openvino");
}
TEST_CASE("example models run in OpenVINO" * test::needs(test::openvino)) { check_examples("openvino"); }
TEST_CASE("OpenVINO takes and gives dtypes" * test::needs(test::openvino)) {
  check_dtypes("openvino", std::array{DType::f32, DType::f16, DType::i32, DType::u8});
}
TEST_CASE("OpenVINO is not given f64" * test::needs(test::openvino)) {
  const auto f = compile([](const Tensor& x) { return x * 2; }, {.backend = "openvino"});
  const std::string text = test::message_of([&] { f(zeros({2}, {DType::f64})).eval(); });
  CHECK(text.find("OpenVINO computes f64 in f32, and input_0 is f64") != std::string::npos);
}
TEST_CASE("one model of OpenVINO serves all sizes" * test::needs(test::openvino)) { check_sizes("openvino"); }
TEST_CASE("OpenVINO is not given what the function does not read" * test::needs(test::openvino)) {
  check_unread("openvino");
}
TEST_CASE("parameters that are replaced count in OpenVINO" * test::needs(test::openvino)) {
  check_replaced("openvino");
}
TEST_CASE("a training step runs in OpenVINO" * test::needs(test::openvino)) { check_training("openvino"); }
TEST_CASE("what OpenVINO can't do is an Error" * test::needs(test::openvino)) { check_failures("openvino"); }
TEST_CASE("threads call one function of OpenVINO" * test::needs(test::openvino)) { check_threads("openvino"); }
