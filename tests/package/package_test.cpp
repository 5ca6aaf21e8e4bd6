// Functions that were packaged run in another process, which has no compiler and nothing cached, to the same bits.
#include "weft/package.hpp"

#include "base/options.hpp"
#include "examples/models/gpt2.hpp"
#include "package/there.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/runtime/support.hpp"
#include "weft/precompile.hpp"

using namespace package_test;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

Tensor forward(const Mlp& model, const Tensor& x) { return softmax(model(x), -1); }

Tensor train_step(Mlp& model, optim::Adam& opt, const Tensor& x, const Tensor& y) {
  auto [loss, grads] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, model);
  opt.update(model, grads);
  return loss;
}

Tensor loss_of(const models::Gpt2& model, const Tensor& rows) {
  const Tensor logits = model(slice(rows, 1, 0, -1));
  return nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(rows, 1, 1)));
}
// A step of the character model: batches and dropout are drawn, of generators.
Tensor train_characters(models::Gpt2& model, optim::AdamW& opt, Generator& batches, const Tensor& text) {
  const Tensor places = randint({4}, 0, 50, batches);
  const Tensor rows = gather(text, unsqueeze(places, 1) + arange(9));
  auto [loss, grads] = value_and_grad([&](const models::Gpt2& m) { return loss_of(m, rows); }, model);
  nn::clip_grad_norm(grads, 1.0);
  opt.update(model, grads);
  return loss;
}

struct Several {
  Tensor sum;
  std::vector<Tensor> parts;
  std::int64_t count = 0;
  std::string name;
  std::vector<float> weights;
  std::optional<Tensor> absent, there;
  std::pair<Tensor, Tensor> both;
};
struct Counter {
  Buffer total = Buffer(zeros({3}));
  std::int64_t calls = 0;
};
// Numbers, text and lists in the result; arguments in it; tensors and numbers in the state.
Several several(Counter& counter, const Tensor& x) {
  counter.total = Buffer(counter.total.tensor() + sum(x, 0));
  counter.calls += 2;
  return {sum(x), {x * 2, x}, 7, "seven", {1.5f, -2}, std::nullopt, exp(x), {x, counter.total.tensor() + 1}};
}

void no_result(Buffer& at, const Tensor& x) { at = Buffer(at.tensor() * x); }
Tensor drawn(const Tensor& x) { return x + uniform({3}); }
Tensor looped(const Tensor& x) {
  return scan(
      [](const Tensor& h, const Tensor& row) {
        return tanh(h + row) * constant({1.f, 2.f, 3.f});
      },
      zeros({3}), x);
}

models::Gpt2Config small_gpt() {
  return {.vocab_size = 19, .context = 8, .width = 16, .layers = 2, .heads = 2, .dropout = 0.1};
}

void hold_all(const Way& way) {
  seed(3);
  Mlp mlp;
  const Tensor x = normal({5, 6}), y = from_list<std::int64_t>({0, 2, 1, 1, 0}), rows = normal({4, 3});
  hold(way, "mlp", forward, {}, mlp, x);
  optim::Adam adam(mlp, {.lr = 1e-2});
  hold(way, "mlp step", train_step, {}, mlp, adam, x, y);
  const Tensor text = randint({80}, 0, 19);
  models::Gpt2 gpt(small_gpt());
  nn::eval(gpt);
  hold(way, "gpt loss", loss_of, {.dynamic = true}, gpt, reshape(slice(text, 0, 0, 27), {3, 9}));
  models::Gpt2 trained(small_gpt());
  optim::AdamW adamw(trained, {.lr = 1e-3});
  Generator batches(7);
  hold(way, "gpt step", train_characters, {}, trained, adamw, batches, text);
  Counter counter;  // whose number is compared: one call fits
  hold({way.folder, way.there, 1}, "several", several, {}, counter, rows);
  Buffer at(ones({4, 3}));
  hold(way, "no result", no_result, {}, at, rows);
  hold(way, "drawn", drawn, {}, rows);
  hold(way, "looped", looped, {.dynamic = true}, rows);
}

}  // namespace

TEST_CASE("what was packaged runs in a new process without a compiler or a cache, to the same bits" *
          needs(a_compiler)) {
  here_and_there(hold_all, "(there) functions");
}
TEST_CASE("(there) functions") { there(hold_all); }

TEST_CASE("a plan that was found on disk is packaged as one that was made" * needs(a_compiler)) {
  const Folder folder;
  const std::string cache = std::exchange(options().cache_directory, folder.file("cache"));
  const bool stored = std::exchange(options().stored_plans, true);
  Mlp model;
  const Tensor x = normal({5, 6}), rows = normal({4, 3});
  for (const char* const file : {"made.weft", "found.weft"}) {
    PackageWriter writer;
    writer.add("forward", compile(forward), model, x);
    writer.add("looped", compile(looped, {.dynamic = true}), rows);
    writer.write(folder.file(file));
  }
  options().stored_plans = stored;
  options().cache_directory = cache;
  const bool same = read(folder.file("made.weft")) == read(folder.file("found.weft"));
  CHECK(same);
  const auto found = load_package(folder.file("found.weft")).function<Tensor(const Tensor&)>("looped");
  CHECK(bits_of(found(rows)) == bits_of(looped(rows)));
}

TEST_CASE("kernels that no cache holds are packaged" * needs(a_compiler)) {
  const Folder folder;
  const bool cache = std::exchange(options().cache, false);
  const auto f = compile([](const Tensor& x) { return tanh(x * 7) + 0.625; });  // which no other test compiles
  const Tensor x = normal({5, 6});
  package(folder.file("f.weft"), "f", f, x);
  const Tensor there = load_package(folder.file("f.weft")).function<Tensor(const Tensor&)>("f")(x);
  CHECK(bits_of(there) == bits_of(f(x)));
  options().cache = cache;
}

TEST_CASE("a package of a function with a symbolic size serves all of its sizes" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const auto f = compile(forward);
  const Tensor example = normal({4, 6});
  mark_dynamic(example, 0, 1, 9);
  package(folder.file("f.weft"), "forward", f, model, example);
  const auto g = load_package(folder.file("f.weft")).function<Tensor(const Mlp&, const Tensor&)>("forward");
  for (const std::int64_t rows : {1, 3, 9}) {
    const Tensor x = normal({rows, 6});
    CHECK(bits_of(g(model, x)) == bits_of(f(model, x)));
  }
  CHECK(message_of([&] {
          g(model, normal({10, 6}));
        })
            .starts_with(
                "[forward of f.weft] argument 1: size of dimension 0 is 10, the package holds sizes of at most 9"));
}

TEST_CASE("ranges that begin at 1 serve sizes of 1, also of axes that are merged" * needs(a_compiler)) {
  const Folder folder;
  const nn::Linear layer(8, 3);
  const auto rows = [](const Tensor& x) { return reshape(x, {-1, 8}) * 2; };
  const Tensor spec = tensor_spec({{1, 64}, {1, 128}, 8});
  PackageWriter writer;
  const auto linear = compile([](const nn::Linear& layer, const Tensor& x) { return layer(x); });
  const auto merged = compile(rows);
  const auto five = compile([](const Tensor& x) { return reshape(x, {-1}) * 2; });
  writer.add("linear", linear, layer, spec);
  writer.add("rows", merged, spec);
  writer.add("five", five, tensor_spec({{1, 64}, 5}));
  writer.write(folder.file("f.weft"));
  const Package loaded = load_package(folder.file("f.weft"));
  CHECK(loaded.describe().find("!= 1") == std::string::npos);
  const auto f = loaded.function<Tensor(const nn::Linear&, const Tensor&)>("linear");
  const auto g = loaded.function<Tensor(const Tensor&)>("rows");
  for (const auto& [a, b] : {std::pair(1, 1), std::pair(1, 2), std::pair(5, 1), std::pair(3, 4)}) {
    const Tensor x = normal({a, b, 8});
    CHECK(bits_of(f(layer, x)) == bits_of(layer(x)));
    CHECK(bits_of(g(x)) == bits_of(rows(x)));
  }
}

TEST_CASE("a size within a range that no call served is named when a package is written" * needs(a_compiler)) {
  const Folder folder;
  const auto steps = [](const Tensor& x) { return slice(x, 1, 1, x.size(1)) - slice(x, 1, 0, x.size(1) - 1); };
  const int line = __LINE__ - 1;
  const auto f = compile(steps);
  PackageWriter writer;
  writer.add("steps", f, tensor_spec({4, {2, 64}}));
  const test::CaptureLog written;
  writer.write(folder.file("f.weft"));
  REQUIRE(written.lines.size() == 1);
  CHECK(written.lines[0].find("[package] steps does not serve all sizes that its ranges have: argument 0: size of "
                              "dimension 1 is not 2, since s0 - 1 != 1, as decided at package_test.cpp:" +
                              std::to_string(line)) != std::string::npos);
  PackageWriter both;  // by another name: a sentence is written once
  both.add("both", f, tensor_spec({4, {2, 64}}));
  both.add("both", f, ones({4, 2}));
  both.write(folder.file("g.weft"));
  CHECK(written.lines.size() == 1);
}

TEST_CASE("one file holds several functions, and a function for several kinds of arguments" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor few = normal({2, 6}), many = normal({7, 6});
  const auto f = compile(forward, {.dynamic = false});
  PackageWriter writer;
  writer.add("forward", f, model, few);
  writer.add("forward", f, model, many);
  writer.add("forward", f, model, many);  // which it has
  writer.add("double", compile([](auto&& x) { return x * 2; }), few);
  writer.write(folder.file("both.weft"));
  const Package both = load_package(folder.file("both.weft"));
  CHECK(both.names() == std::vector<std::string>{"forward", "double"});
  const auto g = both.function<Tensor(const Mlp&, const Tensor&)>("forward");
  CHECK(bits_of(g(model, few)) == bits_of(f(model, few)));
  CHECK(bits_of(g(model, many)) == bits_of(f(model, many)));
  CHECK(bits_of(both.function<Tensor(Tensor)>("double")(few)) == bits_of(few * 2));
  CHECK(message_of([&] {
          g(model, normal({3, 6}));
        })
            .starts_with("[forward of both.weft] fits none of the 2 kinds of arguments that the package holds; of the "
                         "nearest, argument 1: size of dimension 0 is 3, the package holds 2"));
  const std::string text = both.describe();
  CHECK(text.find("forward\n  argument 0 (in.weight): f32[") == 0);
  CHECK(text.find("double\n  argument 0: f32[2,6]\n  the result: f32[2,6]\n") != std::string::npos);
}

TEST_CASE("what is bound is the first argument of a packaged function, and a model is its own" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({2, 6});
  const auto f = compile(model);
  package(folder.file("f.weft"), "model", f, x);
  const Package loaded = load_package(folder.file("f.weft"));
  CHECK(bits_of(loaded.function<Tensor(const Mlp&, const Tensor&)>("model")(model, x)) == bits_of(model(x)));
  CHECK(bits_of(loaded.function<Tensor(Mlp&, const Tensor&)>("model")(model, x)) == bits_of(model(x)));
}

TEST_CASE("memory that the program takes by const reference is not written, though the function owned it" *
          needs(a_compiler)) {
  const Folder folder;
  const auto f = compile([](Tensor x) { return x + 1; });
  package(folder.file("f.weft"), "f", f, ones({1000}));
  const Package loaded = load_package(folder.file("f.weft"));
  Tensor x = ones({1000});
  x.eval();
  CHECK(loaded.function<Tensor(const Tensor&)>("f")(x)[0].item<float>() == 2);
  CHECK(x[0].item<float>() == 1);
  CHECK(loaded.function<Tensor(Tensor)>("f")(std::move(x))[0].item<float>() == 2);
}
