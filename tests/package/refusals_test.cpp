// What packages refuse: a call that does not fit, a signature that does not, a function that can't be packaged, a file
// that is none.
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <random>

#include "base/hash.hpp"
#include "base/options.hpp"
#include "package/support.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/package_file.hpp"
#include "runtime/steps.hpp"
#include "tests/needs_compiler.hpp"

using namespace package_test;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

struct Part {
  Param w = Param(ones({3}));
  std::int64_t times = 2;
};
struct Whole {
  std::vector<Part> parts = std::vector<Part>(2);
  std::string kind = "relu";
};
Tensor run(const Whole& whole, const Tensor& x) {
  Tensor y = x;
  for (const Part& part : whole.parts) y = y * part.w * static_cast<double>(part.times);
  return whole.kind == "relu" ? relu(y) : y;
}
Tensor count(Whole& whole, const Tensor& x) {
  whole.parts[1].times += 1;
  return run(whole, x);
}

// The handle in a function of a package, which is private.
using Plain = PackageFunction<Tensor(const Tensor&)>;
const detail::FunctionHandle& handle_of(const Plain& f);
template <auto member>
struct Opened {
  friend const detail::FunctionHandle& handle_of(const Plain& f) { return f.*member; }
};
template struct Opened<&Plain::function_>;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a call that does not fit says which argument, what came and what the package holds" * needs(a_compiler)) {
  const Folder folder;
  Whole whole;
  const Tensor x = ones({4, 3});
  package(folder.file("f.weft"), "run", compile(run), whole, x);
  const auto f = load_package(folder.file("f.weft")).function<Tensor(const Whole&, const Tensor&)>("run");
  const auto says = [&](const Whole& whole, const Tensor& x, const char* text) {
    const std::string message = message_of([&] { f(whole, x); });
    CAPTURE(message);
    CHECK(message.starts_with(std::string("[run of f.weft] ") + text + ", at refusals_test.cpp:"));
  };
  CHECK(bits_of(f(whole, x)) == bits_of(run(whole, x)));
  says(whole, ones({5, 3}), "argument 1: size of dimension 0 is 5, the package holds 4");
  says(whole, ones({4, 3, 1}), "argument 1: number of dimensions is 3, the package holds 2");
  says(whole, cast(ones({4, 3}), DType::f64), "argument 1: dtype is f64, the package holds f32");
  says(whole, Tensor(), "argument 1 is undefined, the package holds defined");
  Whole other = whole;
  other.parts[1].times = 3;
  says(other, x, "argument 0 (parts.1.times) is 3, the package holds 2");
  other = whole;
  other.parts.emplace_back();
  says(other, x, "argument 0 (parts) is length 3, the package holds length 2");
  other = whole;
  other.kind = "none";
  says(other, x, "argument 0 (kind) is \"none\", the package holds \"relu\"");
  other = whole;
  other.parts[0].w.frozen = true;
  says(other, x, "argument 0 (parts.0.w) is frozen, the package holds not frozen");
  CHECK(has(message_of([&] { grad([&](const Tensor& x) { return sum(f(whole, x)); }, x).eval(); }),
            "[run of f.weft] is called where an argument is differentiated"));
  static const auto* const packaged = &f;
  CHECK(has(
      message_of([&] { compile([](const Whole& whole, const Tensor& x) { return (*packaged)(whole, x); })(whole, x); }),
      "[run of f.weft] is called inside a compiled function"));
  const Autocast autocast(DType::bf16);  // makes nothing of what is compiled
  CHECK(bits_of(f(whole, x)) == bits_of(f(whole, x)));
}

TEST_CASE("a momentum that a packaged step was made without is refused by its name" * needs(a_compiler)) {
  const Folder folder;
  using Model = std::vector<Param>;
  Model model{Param(ones({3}))}, slopes{Param(ones({3}))};
  optim::SGD optimizer(model);
  package(folder.file("f.weft"), "step",
          compile([](Model& model, optim::SGD& optimizer, const Model& slopes) { optimizer.update(model, slopes); }),
          model, optimizer, slopes);
  const auto step = load_package(folder.file("f.weft")).function<void(Model&, optim::SGD&, const Model&)>("step");
  optimizer.momentum = 0.9;
  const std::string message = message_of([&] { step(model, optimizer, slopes); });
  CAPTURE(message);
  CHECK(has(message, "argument 1 (momentum) is a number that may not be 0, the package holds the literal 0"));
}

TEST_CASE("sizes that were compared or must be equal are held" * needs(a_compiler)) {
  const Folder folder;
  const auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        return a.size(0) < Dim(10) ? concat({a + b, a}, 0) : a - b;
      },
      {.dynamic = true});
  package(folder.file("f.weft"), "f", f, ones({4}), ones({4}));
  const auto g = load_package(folder.file("f.weft")).function<Tensor(const Tensor&, const Tensor&)>("f");
  CHECK(bits_of(g(ones({7}), ones({7}))) == bits_of(f(ones({7}), ones({7}))));
  CHECK(has(message_of([&] { g(ones({4}), ones({5})); }),
            "argument 1: size of dimension 0 is 5, the package holds 4 there, as of argument 0: size of dimension 0"));
  CHECK(has(message_of([&] { g(ones({12}), ones({12})); }),
            "the package holds sizes with s0 < 10, as decided after refusals_test.cpp:"));
}

TEST_CASE("a signature of other types is refused, and a state that is taken as const" * needs(a_compiler)) {
  const Folder folder;
  Whole whole;
  package(folder.file("f.weft"), "count", compile(count), whole, ones({3}));
  const Package loaded = load_package(folder.file("f.weft"));
  const auto says = [&](const auto& ask, const char* text) {
    const std::string message = message_of(ask);
    CAPTURE(message);
    CHECK(message.starts_with(std::string("[load_package] ") + text));
  };
  says([&] { loaded.function<Tensor(Whole&)>("count"); },
       "count of f.weft has other types than it is asked for by: the package has argument 1: Tensor; the program has "
       "the "
       "result: Tensor");
  says([&] { loaded.function<Tensor(Whole&, const Scalar&)>("count"); },
       "count of f.weft has other types than it is asked for by: the package has argument 1: Tensor; the program has "
       "argument 1: Scalar");
  says([&] { loaded.function<std::pair<Tensor, int>(Whole&, const Tensor&)>("count"); },
       "count of f.weft has other types than it is asked for by: the package has the result: Tensor; the program has "
       "the "
       "result: tuple");
  says([&] { loaded.function<Tensor(const Whole&, const Tensor&)>("count"); },
       "count of f.weft changes argument 0 (parts.1.times): take argument 0 by a reference that is not const");
  says([&] { loaded.function<Tensor(const Whole&)>("run"); }, "f.weft has no function \"run\"; it has count");
}

TEST_CASE("a function that needs the program's code is not packaged, nor another one under a name that is taken" *
          needs(a_compiler)) {
  const Folder folder;
  const std::string file = folder.file("f.weft");
  const Tensor x = ones({3});
  const auto says = [&](const auto& f, const char* text) {
    const std::string message = message_of([&] { package(file, "f", f, x); });
    CAPTURE(message);
    CHECK(message.starts_with(std::string("[package] \"f\" ") + text));
    CHECK_FALSE(std::filesystem::exists(file));
  };
  says(compile([](const Tensor& x) { return sum(x).item<float>() > 2.f ? x + 1 : x; }), "reads a value at ");
  says(compile([](const Tensor& x) { return x * sum(x).item<float>(); }), "reads a value at ");
  says(compile([](const Tensor& x) {
         print("x: {}", x);
         return x + 1;
       }),
       "calls the program's code, which a package does not hold: ");
  says(compile([](const Tensor& x) { return x + 1; }, {.backend = Backend::eager}),
       "is not run by generated kernels: CompileOptions::backend of compile at ");
  PackageWriter writer;
  writer.add("f", compile([](const Tensor& x) { return x + 1; }), x);
  const std::string message =
      message_of([&] { writer.add("f", compile([](const Tensor& x, const Tensor& y) { return x + y; }), x, x); });
  CHECK(has(
      message,
      "[package] \"f\" is in the package already, as a function of other types: it has the result: Tensor; this one "
      "has argument 1: Tensor, at refusals_test.cpp:"));
  const std::string other =
      message_of([&] { writer.add("f", compile([](const Tensor& x) { return x * 2; }), ones({4})); });
  CHECK(has(other, "[package] \"f\" is in the package already, as another compiled function, at refusals_test.cpp:"));
}

TEST_CASE("what is refused leaves no part of itself in the writer" * needs(a_compiler)) {
  const Folder folder;
  Mlp lost;
  const Mlp kept;
  const Tensor x = normal({5, 6});
  const auto changes = compile(
      [](Mlp& model, const Tensor& x) {
        model.in.bias = Param(model.in.bias.tensor() * 3.40625);
        return model(x);
      },
      bind(lost));
  PackageWriter writer;
  const EntryOptions with_weights{.weights = true};
  const std::string message = message_of([&] { writer.add({"changes", with_weights}, changes, x); });
  CAPTURE(message);
  CHECK(message.starts_with("[package] \"changes\" changes in.bias, which is bound to it"));
  const auto forward = compile([](const Mlp& model, const Tensor& x) { return softmax(model(x), -1); }, bind(kept));
  writer.add({"forward", with_weights}, forward, x);
  writer.write(folder.file("f.weft"));
  const Package loaded = load_package(folder.file("f.weft"));
  CHECK(loaded.names() == std::vector<std::string>{"forward"});
  CHECK(loaded.weights() == std::vector<std::string>{"in.weight", "in.bias", "out.weight", "out.bias"});
  CHECK(bits_of(loaded.function<Tensor(const Tensor&)>("forward")(x)) == bits_of(forward(x)));
}

TEST_CASE("a package without functions is not written") {
  const Folder folder;
  CHECK(
      message_of([&] {
        PackageWriter().write(folder.file("f.weft"));
      }).starts_with("[package] " + folder.file("f.weft") + " would have no function: PackageWriter::add takes them"));
  CHECK_FALSE(std::filesystem::exists(folder.file("f.weft")));
}

TEST_CASE("a path that can't be written leaves the file that is there" * needs(a_compiler)) {
  const Folder folder;
  const std::string folder_itself = folder.path;
  PackageWriter writer;
  writer.add("f", compile([](const Tensor& x) { return x + 1; }), ones({3}));
  CHECK(has(message_of([&] { writer.write(folder_itself); }), "is no regular file"));
  CHECK(has(message_of([&] { writer.write(folder.file("none/f.weft")); }), "No such file"));
  CHECK(has(message_of([&] { writer.write(""); }), "[package] the path is empty"));
  CHECK(has(message_of([&] { load_package(folder.file("f.weft")); }), "[load_package] "));
}

TEST_CASE("where the disk is full the file that is there stays" * needs(a_compiler)) {
  const Folder folder;
  const std::string file = folder.file("f.weft");
  const auto f = compile([](const Tensor& x) { return x + 1; });
  package(file, "f", f, ones({3}));
  const std::string before = read(file);
  PackageWriter writer;
  writer.add("f", f, ones({4}));
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1000, limit.rlim_max};
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of([&] { writer.write(file); });
  setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  CHECK(has(message, "can't be written"));
  CHECK(read(file) == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("a package runs on a machine with as many instructions, or more" * needs(a_compiler)) {
  const Folder folder;
  const std::string widest(name(host_isa())), asked = options().isa;
  const auto f = [](const Tensor& x) { return softmax(x, -1); };
  const auto under = [&](const char* isa, const auto& run) {
    options().isa = isa;
    const std::string message = message_of(run);
    options().isa = asked;
    return message;
  };
  const std::string file = folder.file("f.weft");
  const Tensor x = reshape(arange(12), {3, 4}) * 0.5;
  CHECK(under("baseline", [&] { package(file, "f", compile(f), x); }) == "(nothing thrown)");
  CHECK(bits_of(load_package(file).function<Tensor(const Tensor&)>("f")(x)) == bits_of(compile(f)(x)));
  package(file, "f", compile(f), x);
  const std::string message = under("baseline", [&] { load_package(file); });
  CHECK(has(message, widest == "baseline"
                         ? "(nothing thrown)"
                         : "was made for " + widest + " of x86-64, this machine has baseline of x86-64"));
}

TEST_CASE("a package for several instruction sets runs with the largest one that the machine has" * needs(a_compiler)) {
  const Folder folder;
  const std::string widest(name(host_isa())), asked = options().isa;
  const auto f = [](const Tensor& x) { return softmax(matmul(x, transpose(x, 0, 1)), -1); };
  const Tensor x = reshape(arange(60), {12, 5}) * 0.01;
  const std::string file = folder.file("f.weft");
  const auto compiled = compile(f);
  PackageWriter writer;
  std::vector<std::string> isas{"baseline"};
  if (widest != "baseline") isas.push_back(widest);
  writer.add({"f", {.isa = isas}}, compiled, x);
  writer.add({"f", {.isa = isas}}, compiled, x);  // which it has
  writer.write(file);
  runtime::PackageFile parsed = runtime::parse_package(read(file), runtime::read_step);
  CHECK(parsed.libraries.size() == isas.size());
  CHECK(parsed.entries.at(0).specializations.size() == isas.size());
  runtime::prepare(parsed);
  REQUIRE(parsed.entries[0].specializations.size() == 1);
  CHECK(parsed.entries[0].specializations[0].isa == widest);
  // A kind of arguments is told of once.
  const std::string text = describe_package(file);
  CHECK(has(text, " for baseline" + std::string(widest == "baseline" ? "" : ", " + widest) + " of x86-64\nf\n"));
  CHECK(text.ends_with("\n" + load_package(file).describe()));
  const auto loaded = [&] { return load_package(file).function<Tensor(const Tensor&)>("f"); };
  CHECK(bits_of(loaded()(x)) == bits_of(compile(f)(x)));
  options().isa = "baseline";
  const std::string there = bits_of(loaded()(x)), here = bits_of(compile(f)(x));
  options().isa = asked;
  CHECK(there == here);
  for (const char* const isa : {"avx1024", ""})
    CHECK(has(message_of([&] {
                writer.add({"g", {.isa = {isa}}}, compiled, x);
              }),
              "[package] \"g\" can't be made for the instruction set \"" + std::string(isa) +
                  "\": there are baseline, avx2, avx512, neon"));
}

TEST_CASE("a file that was cut off, changed or is none is refused in a sentence" * needs(a_compiler)) {
  const Folder folder;
  const std::string file = folder.file("f.weft"), changed = folder.file("changed.weft");
  Whole whole;
  const Tensor example = ones({4, 3});
  mark_dynamic(example, 0);
  package(file, "run", compile(run), whole, example);
  const std::string bytes = read(file);
  const auto message = [&](std::string_view given) {
    write(changed, given);
    return message_of([&] { load_package(changed); });
  };
  CHECK(message(bytes) == "(nothing thrown)");
  CHECK(has(message(""), "is no package of Weft"));
  CHECK(has(message("something else"), "is no package of Weft"));
  std::string next = bytes;
  next[13] = next[13] == '9' ? '8' : '9';
  CHECK(has(message(next), "has another format than "));
  CHECK(has(message(next), ", which this version of Weft, "));
  const std::string here = version();
  std::string other = bytes;
  other.replace(other.find(here), here.size(), std::string(here.size(), '9'));
  // The format decides, not the version that wrote it.
  CHECK(message(sealed(other)) == "(nothing thrown)");
  const std::string origin = runtime::origin_text(runtime::read_package(sealed(other), runtime::read_step));
  CHECK(has(origin, ", made by Weft " + std::string(here.size(), '9') + " for "));
  const auto unknown = [](const std::string&, runtime::FieldReader&) {
    return std::shared_ptr<const runtime::Preparable>();
  };
  try {
    runtime::read_package(bytes, unknown);
    FAIL("a step that nobody makes");
  } catch (const runtime::PackageRefusal& refusal) {
    CHECK(refusal.why == "has a step, kernel, whose library is not on this machine");
  }
  std::mt19937_64 random(5);
  const auto below = [&](std::size_t count) { return random() % count; };
  for (int i = 0; i < 500; ++i) {
    const std::string what = message(std::string_view(bytes).substr(0, below(bytes.size())));
    REQUIRE(has(what, "[load_package] "));
  }
  for (int i = 0; i < 1000; ++i) {
    std::string flipped = bytes;
    flipped[below(bytes.size())] ^= static_cast<char>(1 << below(8));
    REQUIRE(has(message(flipped), "[load_package] "));
  }
}

TEST_CASE("a call finds what a package holds by its arguments, and not by where its signature lies" *
          needs(a_compiler)) {
  const Folder folder;
  const Tensor x = ones({4, 3});
  package(folder.file("f.weft"), "run", compile([](const Tensor& x) { return x * 2; }), x);
  const auto f = load_package(folder.file("f.weft")).function<Tensor(const Tensor&)>("run");
  // As in a shared object of its own.
  static constexpr detail::CallSignature elsewhere = detail::SignatureOfCall<Tensor, const Tensor&>::value;
  const auto run = [&](const Tensor& x) {
    const detail::FunctionHandle& handle = handle_of(f);
    detail::Call call(handle.get(), elsewhere, nullptr, nullptr, Loc::current());
    call.argument(x, detail::access<const Tensor&>);
    detail::begin_package_call(call, *handle.get(), nullptr, Loc::current());
    Tensor result;
    call.result(result);
    call.run();
    return result;
  };
  CHECK(bits_of(run(x)) == bits_of(x * 2));
  CHECK(has(message_of([&] { run(ones({5, 3})); }), "size of dimension 0 is 5, the package holds 4"));
}
