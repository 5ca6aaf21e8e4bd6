// Precompiling: kernels for arguments that have no values, and for programs that do not run.
#include "weft/precompile.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/options.hpp"
#include "runtime/host/jit.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/trace/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::test;
using namespace trace_test;

namespace {

struct Folder {
  static inline int count = 0;
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("weft-precompile-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  std::string directory = std::exchange(options().cache_directory, path.string());
  std::string compiler = options().compiler;
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    options().cache_directory = directory;
    options().compiler = compiler;
    std::filesystem::remove_all(path);
  }
  std::set<std::string> entries() const {
    std::set<std::string> all;
    for (const auto& each : std::filesystem::directory_iterator(path))
      if (each.path().extension() == ".weft") all.insert(each.path().filename());
    return all;
  }
};

struct Mlp {
  nn::Linear in{8, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
};
Tensor forward_of(const Mlp& model, const Tensor& x) { return model(x); }

int traced = 0;

std::string failures(const PrecompileReport& report) {
  std::string all;
  for (const Precompiled& each : report.entries) all += each.failure + "\n";
  return all;
}

}  // namespace

TEST_CASE("a spec has a type and no value") {
  const Tensor x = tensor_spec({{2, 1000}, 5}, DType::i64);
  CHECK(x.shape() == Shape::of(64, 5));
  CHECK(x.dtype() == DType::i64);
  CHECK(tensor_spec({{1, 8}, {100, 200}, {2, 9, 3}}).shape() == Shape::of(8, 100, 3));
  // A terabyte of it takes no memory.
  CHECK(tensor_spec({1 << 20, 1 << 18}).shape() == Shape::of(1 << 20, 1 << 18));
  CHECK(contains(message_of([&] { (x + 1).eval(); }), "is not known: it was specified by tensor_spec"));
  CHECK(contains(message_of([&] { compile([](const Tensor& x) { return x * 3; })(x); }), "is not known"));
  CHECK(contains(message_of([] { tensor_spec({3, {5, 2}}); }), "[tensor_spec] the size of axis 1"));
  CHECK(contains(message_of([] { tensor_spec({-1}); }), "sizes are not negative"));
}

TEST_CASE("a function is compiled for specs, also of sizes that vary, and does not run" * needs(a_compiler)) {
  const Folder folder;
  traced = 0;
  const auto f = compile(
      [](const Tensor& x) {
        ++traced;
        return softmax(x * 1.6875, -1) + 0.3125;
      },
      {.check = Check::never});
  const PrecompileReport report = precompile(f, tensor_spec({{1, 500}, 6}));
  CAPTURE(report.text());
  CHECK(report.ok());
  REQUIRE(report.entries.size() == 1);
  CHECK(report.entries[0].what == "forward: f32[s0,6]");
  CHECK(contains(report.entries[0].function, "precompile_test.cpp"));
  CHECK(report.entries[0].milliseconds > 0);
  const int traces = traced;
  const std::uint64_t compiled = jit_counts().compiled;
  const StanceScope scope(Stance::fail_on_recompile);
  for (const int rows : {1, 2, 64, 500}) {
    const Tensor x = reshape(cast(arange(rows * 6), DType::f32), {rows, 6}) / 8;
    CHECK(allclose(f(x), softmax(x * 1.6875, -1) + 0.3125, {.rtol = 1e-5}).item<bool>());
  }
  CHECK(traced == traces);
  CHECK(jit_counts().compiled == compiled);
  const PrecompileReport again = precompile(f, tensor_spec({{1, 500}, 6}));
  REQUIRE(again.entries.size() == 1);
  CHECK(again.entries[0].what == "compiled already");
}

TEST_CASE("a program that differentiates a compiled model gets its forward and its backward call" * needs(a_compiler)) {
  const Folder folder;
  seed(3);
  const Mlp model;
  const auto forward = compile(forward_of, {.check = Check::never});
  const auto gradients = [&](const Mlp& model, const Tensor& x, const Tensor& y) {
    return value_and_grad([&](const Mlp& m) { return nn::cross_entropy(forward(m, x), y); }, model);
  };
  const Tensor before = model.in.weight;
  const PrecompileReport report =
      precompile(gradients, model, tensor_spec({{2, 100}, 8}), tensor_spec({{2, 100}}, DType::i64));
  CAPTURE(report.text());
  CHECK(report.ok());
  REQUIRE(report.entries.size() == 2);
  CHECK(report.entries[0].what.starts_with("saving forward: f32[s0,3]"));
  CHECK(report.entries[1].what.starts_with("derivative: f32["));
  CHECK(all(model.in.weight == before).item<bool>());
  const std::uint64_t compiled = jit_counts().compiled;
  const Tensor x = uniform({5, 8}, -1), y = randint({5}, 0, 3);
  const auto plain = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, model);
  {
    const StanceScope scope(Stance::fail_on_recompile);
    const auto [loss, grads] = gradients(model, x, y);
    CHECK(loss.item<double>() == doctest::Approx(plain.value.item<double>()));
    CHECK(allclose(grads.in.weight, plain.gradients.in.weight, {.rtol = 1e-4, .atol = 1e-6}).item<bool>());
  }
  CHECK(jit_counts().compiled == compiled);
}

TEST_CASE("a program's state stays as it is, and so do models that it changes" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  optim::Adam adam(model, {.lr = 0.125});
  const auto step = compile([](Mlp& model, optim::Adam& adam, const Tensor& x) {
    const auto [loss, grads] = value_and_grad([&](const Mlp& m) { return mean(square(m(x))); }, model);
    adam.update(model, grads);
    return loss;
  });
  const Tensor before = model.out.weight;
  const PrecompileReport report = precompile(
      [&](Mlp& copy, optim::Adam& own, const Tensor& x) {
        step(model, adam, x);
        step(copy, own, x);
        const auto [loss, grads] = value_and_grad([&](const Mlp& m) { return mean(m(x)); }, copy);
        own.update(copy, grads);
      },
      model, adam, tensor_spec({4, 8}));
  CAPTURE(report.text());
  CHECK(report.ok());
  CHECK(report.entries.size() == 1);  // it is one kind of arguments
  CHECK(all(model.out.weight == before).item<bool>());
  const StanceScope scope(Stance::fail_on_recompile);
  step(model, adam, ones({4, 8}));
  CHECK_FALSE(all(model.out.weight == before).item<bool>());
}

TEST_CASE("what fails is an entry with a sentence, and the rest is made" * needs(a_compiler)) {
  Folder folder;
  const auto good = compile([](const Tensor& x) { return x * 1.5625 - 2; });
  const auto decides = compile([](const Tensor& x) { return sum(x).item<double>() > 0 ? x : x * 2; });
  const auto wrong = compile([](const Tensor& x) { return matmul(x, x); });
  Precompiler all;
  all.add(decides, tensor_spec({3}));
  all.add(wrong, tensor_spec({3, 2}));
  all.add(good, tensor_spec({3}));
  all.add([](const Tensor& x) { return (x * 2).item<double>(); }, tensor_spec({1}));
  const auto before = compile([](const Tensor& x) { return x * 1.5625 - 3; });
  all.add(
      [&](const Tensor& x) {
        before(x);
        throw 5;
      },
      tensor_spec({3}));
  PrecompileReport report = all.run();
  CAPTURE(report.text());
  REQUIRE(report.entries.size() == 6);
  CHECK(report.entries[4].failure.empty());
  CHECK(contains(report.entries[5].failure, "an exception that is no std::exception"));
  CHECK(contains(report.entries[0].failure, "leave out of what is precompiled what reads values"));
  CHECK(contains(report.entries[1].failure, "[matmul] "));
  CHECK(report.entries[2].failure.empty());
  CHECK(contains(report.entries[3].failure, "is not known"));
  CHECK_FALSE(report.ok());

  options().compiler = "/nowhere/c++";
  for (const OnFailure how : {OnFailure::raise, OnFailure::run_eagerly})
    for (const bool async : {false, true}) {
      const auto f = compile([](const Tensor& x) { return x * 2.0625 - 7; }, {.on_compile_error = how, .async = async});
      report = precompile(f, tensor_spec({3}));
      CAPTURE(report.text());
      CHECK(contains(failures(report), "/nowhere/c++"));
    }
}

TEST_CASE("functions are compiled by several threads, to the same" * needs(a_compiler)) {
  std::set<std::string> kept[2];
  std::string texts[2];
  for (const int threads : {1, 4}) {
    const Folder folder;
    const std::size_t at = threads > 1;
    Precompiler all({.threads = threads});
    const auto f = compile([](const Tensor& x) { return cumsum(exp(x) * 1.8125, 0); });
    const auto g = compile([](const Tensor& x, const Tensor& y) { return matmul(x, y) + 0.8125; });
    const auto h = compile([](const Mlp& m, const Tensor& x) { return m(x) * 1.9375; });
    const Mlp model;
    for (const int size : {3, 5}) all.add(f, tensor_spec({size, 7}));
    all.add(g, tensor_spec({{2, 64}, 16}), tensor_spec({16, 8}));
    all.add([&](const Mlp& m, const Tensor& x) { return grad([&](const Mlp& m) { return sum(h(m, x)); }, m); }, model,
            tensor_spec({6, 8}));
    const PrecompileReport report = all.run();
    CAPTURE(report.text());
    CHECK(report.ok());
    CHECK(report.entries.size() == 5);
    for (const Precompiled& each : report.entries) texts[at] += each.function + each.what + "\n";
    kept[at] = folder.entries();
    CHECK(kept[at].size() >= 5);
  }
  CHECK(kept[0] == kept[1]);
  CHECK(texts[0] == texts[1]);
}
