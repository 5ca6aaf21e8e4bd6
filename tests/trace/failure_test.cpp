// Kernels that cannot be compiled, checks that fail while a plan runs, and memory that is used again.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"

using namespace weft;
using namespace trace_test;
using weft::test::CaptureLog;
using weft::test::Folder;
using weft::test::KeepOptions;

namespace {
struct NoCompiler {
  bool raise = std::exchange(options().raise_compile_errors, false);
  std::string compiler = options().compiler;
  bool cache = options().cache;
  NoCompiler() {
    options().compiler = "/nowhere/c++";
    options().cache = false;
  }
  ~NoCompiler() {
    options().raise_compile_errors = raise;
    options().compiler = compiler;
    options().cache = cache;
  }
};
std::vector<float> table = {1, 2};
}  // namespace

TEST_CASE("no compiler: the specialization runs eagerly, or throws where that is asked for") {
  NoCompiler missing;
  auto f = compile([](Tensor& sum, const Tensor& x) {
    sum = sum + x * 3.25;
    return relu(sum) * 2;
  });
  Tensor sum = vector_of({-10, 1});
  CHECK(numbers_of(f(sum, vector_of({1, 2}))) == Numbers{0, 15});
  CHECK(numbers_of(f(sum, vector_of({1, 2}))) == Numbers{0, 28});
  CHECK(numbers_of(sum) == Numbers{-3.5, 14});
  Explanation e = explain(f, sum, vector_of({1, 2}));
  CHECK(contains(e.fallback, "/nowhere/c++"));
  CHECK(specialization_count(f) == 1);

  auto strict =
      compile([](Tensor& sum, const Tensor& x) { sum = sum - x * 7.25; }, {.on_compile_error = OnFailure::raise});
  CHECK_THROWS_AS(strict(sum, vector_of({1, 2})), CompileError);
  CHECK(numbers_of(sum) == Numbers{-3.5, 14});
  options().compiler.clear();
  strict(sum, vector_of({0, 2}));
  CHECK(numbers_of(sum) == Numbers{-3.5, -0.5});
}

TEST_CASE("no compiler: one line says so for all functions, and one that appears is used from then on") {
  NoCompiler missing;
  options().compiler = "/nowhere/else/c++";
  std::vector<std::string> lines;
  logging::set_sink(
      [](void* context, std::string_view line) { static_cast<std::vector<std::string>*>(context)->emplace_back(line); },
      &lines);
  auto f = compile([](const Tensor& x) { return x * 1.375 + 2; });
  auto g = compile([](const Tensor& x) { return exp(x * 2.375) - 1; });
  CHECK(numbers_of(f(vector_of({0, 8}))) == Numbers{2, 13});
  CHECK(numbers_of(f(vector_of({8, 0}))) == Numbers{13, 2});
  CHECK(numbers_of(g(vector_of({0}))) == Numbers{0});
  logging::set_sink(nullptr, nullptr);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "[weft] [compile] WEFT_CXX='/nowhere/else/c++' is no program; compiled functions run eagerly");

  options().compiler.clear();
  CHECK(numbers_of(f(vector_of({0, 8}))) == Numbers{2, 13});
  CHECK(contains(explain(f, vector_of({0, 8})).fallback, "/nowhere/else/c++"));  // what runs eagerly stays with it
  CHECK(numbers_of(f(vector_of({0, 8, 16}))) == Numbers{2, 13, 24});
  CHECK(explain(f, vector_of({0, 8, 16})).fallback.empty());
  CHECK(explain(f, vector_of({0, 8, 16})).kernels.size() == 1);
}

TEST_CASE("a compiler that fails: one line with its words and the source's path, and the function runs eagerly") {
  const Folder folder;
  const KeepOptions keep;
  options().cache_directory = folder / "cache";
  options().raise_compile_errors = false;
  options().compiler = weft::test::fake_compiler(folder, "echo unit0.cpp:7: no such luck >&2; exit 1");
  CaptureLog log;
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return x * 1.4375 + 2; });
  for (int i = 0; i < 3; ++i) CHECK(numbers_of(f(vector_of({0, 16}))) == Numbers{2, 25});
  REQUIRE(log.lines.size() == 1);
  const std::string path = log.lines[0].substr(log.lines[0].find("source: ") + 8);
  CHECK(log.lines[0] == "[weft] compile" + AT_LINE(line).substr(1) +
                            ": kernels could not be compiled; running eagerly from here on. [compile] " +
                            options().compiler +
                            " exited with status 1:\nunit0.cpp:7: no such luck\n  source: " + path);
  CHECK(contains(weft::test::read_file(path), "mul f32[2], failure_test.cpp:" + std::to_string(line)));
  CHECK(contains(explain(f, vector_of({0, 16})).fallback, "no such luck"));
}

TEST_CASE("where a compile error is thrown it names the function and the user's line, before the compiler's words") {
  const Folder folder;
  const KeepOptions keep;
  options().cache_directory = folder / "cache";
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return x * 1.46875 + 2; }, {.on_compile_error = OnFailure::raise});
  const auto message = [&] {
    try {
      f(vector_of({0, 16}));
    } catch (const CompileError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const int call = line + 3;
  const std::string begin = "[compile" + AT_LINE(line).substr(1) + "] ", end = AT_LINE(call);
  options().compiler = weft::test::fake_compiler(folder, "echo unit0.cpp:7: no such luck >&2; exit 1");
  CHECK(message().starts_with(begin + options().compiler + " exited with status 1" + end +
                              ":\nunit0.cpp:7: no such luck\n  source: "));
  options().compiler = "/nowhere/c++";
  CHECK(message().starts_with(begin + "WEFT_CXX='/nowhere/c++' is no program" + end));
  options().compiler.clear();
  CHECK(numbers_of(f(vector_of({0, 16}))) == Numbers{2, 25.5});
}

TEST_CASE("no compiler: a training step, which the passes took apart, runs as it was traced") {
  NoCompiler missing;
  auto train = [](Tensor& weight, const Tensor& x) {
    auto [loss, slope] =
        value_and_grad([&](const Tensor& w) { return mean(square(softmax(matmul(x * 1 + 0, w)) - 0.25)); }, weight);
    weight = weight - slope * 0.125;
    return loss;
  };
  auto step = compile(train);
  Tensor x = from_list<float>({1, 2, 3, -1, -2, 0.5}, {2, 3}), eager = x * 0.5, compiled = x * 0.5;
  eager = compiled = transpose(eager);
  for (int i = 0; i < 3; ++i) CHECK(step(compiled, x).item() == train(eager, x).item());
  CHECK(numbers_of(compiled) == numbers_of(eager));
  CHECK(numbers_of(compiled) != numbers_of(transpose(x * 0.5)));
}

TEST_CASE("no room for files: it runs eagerly with the numbers it should, nothing is lost, and with room it compiles") {
  std::string folder = "/tmp/weft_no_room_XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  const pid_t child = fork();
  if (child == 0) {  // a file may have 100 bytes here, which no source, object or cache entry is content with
    std::signal(SIGXFSZ, SIG_IGN);
    options().cache_directory = folder;
    options().raise_compile_errors = false;
    rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit small{100, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    auto f = compile([](Tensor& sum, const Tensor& x) {
      sum = sum + x * 5.125;
      return relu(sum) * 2;
    });
    Tensor sum = vector_of({-10, 1});
    int wrong = numbers_of(f(sum, vector_of({1, 2}))) == Numbers{0, 22.5} ? 0 : 1;
    if (numbers_of(f(sum, vector_of({1, 2}))) != Numbers{0.5, 43}) wrong |= 2;
    if (explain(f, sum, vector_of({1, 2})).fallback.empty()) wrong |= 4;
    setrlimit(RLIMIT_FSIZE, &limit);
    Tensor more = vector_of({1, 1, 1});
    if (numbers_of(f(more, vector_of({1, 2, 3}))) != Numbers{12.25, 22.5, 32.75}) wrong |= 8;
    if (!explain(f, more, vector_of({1, 2, 3})).fallback.empty()) wrong |= 16;
    _exit(wrong);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("an index out of range in a compiled function: the user's error; state is untouched; the next call works") {
  for (Backend backend : {Backend::compiled, Backend::eager, Backend::reference}) {
    auto f = compile(
        [](Tensor& state, const Tensor& rows, const Tensor& index) {
          state = state * 2;
          return gather(rows, index);
        },
        {.backend = backend});
    Tensor state = vector_of({1, 2}), rows = from_list<float>({1, 2, 3, 4}, {2, 2});
    CHECK(numbers_of(f(state, rows, from_list<std::int64_t>({1}))) == Numbers{3, 4});
    CHECK_THROWS_AS(f(state, rows, from_list<std::int64_t>({2})), Error);
    CHECK(numbers_of(state) == Numbers{2, 4});
    CHECK_THROWS_AS(f(state, rows, from_list<std::int64_t>({-1})), Error);
    CHECK(numbers_of(f(state, rows, from_list<std::int64_t>({0}))) == Numbers{1, 2});
    CHECK(numbers_of(state) == Numbers{4, 8});
  }
}

TEST_CASE("of several checks that fail the first of the program is told, however deep the value that it needs") {
  const auto body = [](const Tensor& table, const Tensor& square, const Tensor& index) {
    Tensor deep = cast(amax(matmul(square, matmul(square, square)), 0), DType::i64);
    Tensor first = gather(table, deep);
    return std::tuple(first, gather(table, index));
  };
  const int line = __LINE__ - 3;
  Tensor table = vector_of({1, 2, 3}), square = ones({2, 2}), far = from_list<std::int64_t>({7, 9});
  // Eagerly it names the index: 4 of the first gather, and of the second 7.
  const std::string first = message_of([&] { body(table, square, far); });
  const std::string second = message_of([&] { body(table, square * 0, far); });
  REQUIRE(contains(first, ": 4, element 0 of i64[2]" + at_line(line, __FILE__)));
  REQUIRE(contains(second, ": 7, element 0 of i64[2]" + at_line(line + 1, __FILE__)));
  for (Backend backend : backends) {
    auto f = compile(body, {.backend = backend});
    CHECK(contains(message_of([&] { f(table, square, far); }), ": one of i64[2]" + at_line(line, __FILE__)));
    CHECK(contains(message_of([&] { f(table, square * 0, far); }), ": one of i64[2]" + at_line(line + 1, __FILE__)));
  }
}

TEST_CASE("a state's memory is used again when nobody else can see it, and never otherwise") {
  auto f = compile([](Tensor& state, const Tensor& x) { state = state * 0.5 + x; });
  Tensor state = ones({1000}), x = ones({1000});
  state.eval();
  f(state, x);
  const float* place = state.data<float>().data();
  for (int i = 0; i < 5; ++i) f(state, x);
  CHECK(state.data<float>().data() == place);
  auto view = state.data<float>();
  float before = view[0];
  f(state, x);
  CHECK(view[0] == before);
  CHECK(state.data<float>().data() != view.data());
  Tensor kept = state;
  before = kept.data<float>()[0];
  f(state, x);
  CHECK(kept.data<float>()[0] == before);
  Tensor reversed = flip(state, 0);
  reversed.eval();
  before = reversed.data<float>()[0];
  f(state, x);
  CHECK(reversed.data<float>()[0] == before);
}

TEST_CASE("a = flip(a), rotated state, and a result that is the old state") {
  auto f = compile([](Tensor& a, Tensor& b) {
    Tensor old = a;
    a = flip(a, 0);
    std::swap(a, b);
    b = b + a;
    return old;
  });
  Tensor a = vector_of({1, 2, 3}), b = vector_of({10, 20, 30});
  CHECK(numbers_of(f(a, b)) == Numbers{1, 2, 3});
  CHECK(numbers_of(a) == Numbers{10, 20, 30});
  CHECK(numbers_of(b) == Numbers{13, 22, 31});
  CHECK(numbers_of(f(a, b)) == Numbers{10, 20, 30});
  CHECK(numbers_of(a) == Numbers{13, 22, 31});
  CHECK(numbers_of(b) == Numbers{43, 42, 41});
}

TEST_CASE("data from host memory is part of the graph, and Check sees when it changes") {
  auto f = compile([](const Tensor& x) { return x + constant(std::span(table), {2}); }, {.check = Check::every_call});
  table = {1, 2};
  CHECK(numbers_of(f(vector_of({1, 1}))) == Numbers{2, 3});
  CHECK(numbers_of(f(vector_of({1, 1}))) == Numbers{2, 3});
  table = {1, 5};
  CHECK(contains(message_of([&] { f(vector_of({1, 1})); }), "the function does something else"));
}

TEST_CASE("values that arrive by move may be used up; those that stay may not") {
  auto f = compile([](Tensor x) { return x * 2 + 1; });
  Tensor x = ones({1000});
  x.eval();
  const float* place = x.data<float>().data();
  Tensor y = f(x);
  CHECK(x.data<float>()[0] == 1);
  CHECK(y.data<float>().data() != place);
  Tensor z = f(std::move(x));
  CHECK(z.data<float>()[999] == 3);
}
