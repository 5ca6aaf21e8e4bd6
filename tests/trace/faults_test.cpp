// What goes wrong, or is unusual, around a call: exceptions of any kind, fork, compiling inside of a trace, graphs that
// are very deep, and texts of the user's that look like code.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/options.hpp"
#include "record/record.hpp"
#include "tests/small_stack.hpp"
#include "tests/trace/support.hpp"
#include "weft/effects.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"
#include "weft/stance.hpp"

using namespace weft;
using namespace trace_test;
using weft::test::on_small_stack;

namespace {

bool fail_now = false;

Tensor named_like_code(const Tensor& x);  // below, in a file of a strange name

}  // namespace

TEST_CASE("an exception of any type, from inside a level inside a trace, leaves nothing behind in the thread") {
  auto f = compile([](const Tensor& x) {
    return grad(
        [](const Tensor& v) {
          Tensor drawn = uniform({2});
          if (fail_now) throw 7;
          return sum(v * v + drawn);
        },
        x);
  });
  Tensor x = vector_of({1, 2});
  seed(11);
  const std::string next = text_of(uniform({3}));
  seed(11);
  fail_now = true;
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(f(x), int);
  CHECK_THROWS_AS(explain(f, x), int);
  CHECK(recorder().traces.empty());
  CHECK(recorder().level_start == UINT64_MAX);
  CHECK(text_of(uniform({3})) == next);
  CHECK(specialization_count(f) == 0);
  fail_now = false;
  CHECK(numbers_of(f(x)) == Numbers{2, 4});
  CHECK(numbers_of(grad([](const Tensor& v) { return sum(v * v * v); }, x)) == Numbers{3, 12});
}

TEST_CASE("a draw in a call that fails is not made, and the default generator can be used afterwards") {
  for (Backend backend : backends) {
    auto f = compile([](const Tensor& rows, const Tensor& index) { return gather(rows, index) + uniform({1}); },
                     {.backend = backend});
    Tensor rows = vector_of({10, 20}), index = from_list<std::int64_t>({1}), wrong = from_list<std::int64_t>({2});
    seed(5);
    const std::string first = text_of(f(rows, index)), second = text_of(f(rows, index));
    seed(5);
    CHECK(text_of(f(rows, index)) == first);
    CHECK_THROWS_AS(f(rows, wrong), Error);
    CHECK(text_of(f(rows, index)) == second);
    uniform({2}).eval();
  }
}

TEST_CASE("a function is compiled and called inside of a trace, or of a level") {
  auto f = compile([](const Tensor& x) {
    auto inner = compile([](const Tensor& v) { return v * 3; });
    return inner(x) + 1;
  });
  CHECK(numbers_of(f(vector_of({1, 2}))) == Numbers{4, 7});
  Tensor gradient = grad(
      [](const Tensor& v) {
        auto inner = compile([](const Tensor& w, Tensor& calls) {
          calls = calls + 1;
          return w * w;
        });
        Tensor calls = zeros({});
        Tensor y = sum(inner(v, calls));
        CHECK(calls.item() == 1);
        return y;
      },
      vector_of({2, 5}));
  CHECK(numbers_of(gradient) == Numbers{4, 10});
}

namespace {
template <Tensor (*body)(const Tensor&)>
Tensor compiled(const Tensor& x) {
  static auto f = compile(body, {.check = Check::never});
  return f(x);
}
Tensor endless(const Tensor& x) { return compiled<endless>(x * 2) + 1; }
Tensor endless_on_the_host(const Tensor& x) {
  return disable([](const Tensor& y) { return compiled<endless_on_the_host>(y * 2); })(x) + 1;
}
Tensor doubled_up_to_ten(const Tensor& x) { return sum(x) > 10 ? x : compiled<doubled_up_to_ten>(x * 2); }
}  // namespace

TEST_CASE("a compiled function that calls itself: to an end, or an Error") {
  for (int i = 0; i < 2; ++i) CHECK(numbers_of(compiled<doubled_up_to_ten>(vector_of({1, 2}))) == Numbers{4, 8});
  const auto refuses = [](const auto& call) {
    CHECK_THROWS_WITH_AS(
        call(), doctest::Contains("is inside 256 calls of compiled functions, the limit: the recursion has no end"),
        Error);
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("at faults_test.cpp:"), Error);
  };
  const Tensor x = vector_of({1, 2});
  for (int i = 0; i < 2; ++i) {
    refuses([&] { compiled<endless>(x); });
    refuses([&] { compiled<endless_on_the_host>(x); });
    refuses([&] { grad([](const Tensor& v) { return sum(compiled<endless>(v)); }, x); });
    const StanceScope eager(Stance::force_eager);
    refuses([&] { compiled<endless>(x); });
  }
  CHECK(numbers_of(compiled<doubled_up_to_ten>(vector_of({1, 2}))) == Numbers{4, 8});
}

TEST_CASE("a process forked off after threads were started computes, compiles and does not hang") {
  auto f = compile([](const Tensor& x) { return sum(exp(x) * 0.5, 0); });
  auto later = compile([](const Tensor& x) { return matmul(x, transpose(x)) + 0.75; });
  Tensor x = zeros({500, 300}).eval();
  const Numbers expected = numbers_of(f(x));
  REQUIRE(expected == Numbers(300, 250.0f));
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a hang ends in a signal
    bool right = numbers_of(f(x)) == expected;
    right = right && numbers_of(later(x)) == Numbers(250000, 0.75f);
    right = right && numbers_of(sum(x + 1, 1)) == Numbers(500, 300.0f);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(numbers_of(f(x)) == expected);
}

TEST_CASE("a hundred thousand operations in a row, traced, printed, replayed and freed on a small stack") {
  double result = 0, slope = 0;
  std::size_t lines = 0;
  on_small_stack([&] {
    auto f = compile(
        [](const Tensor& x) {
          Tensor y = x;
          for (int i = 0; i < 100000; ++i) y = y + 1;
          return y;
        },
        {.check = Check::every_call, .backend = Backend::eager});
    result = f(full({}, 0.5)).item();
    const std::string graph = explain(f, full({}, 0.5)).graph;
    lines = static_cast<std::size_t>(std::count(graph.begin(), graph.end(), '\n'));
    auto g = compile(
        [](const Tensor& x) {
          return grad(
              [](const Tensor& v) {
                Tensor y = v;
                for (int i = 0; i < 20000; ++i) y = y * 1.0;
                return sum(y);
              },
              x);
        },
        {.check = Check::never, .backend = Backend::reference});
    slope = g(full({1}, 0.5)).item();
  });
  CHECK(result == 100000.5);
  CHECK(lines > 100000);
  CHECK(slope == 1);
}

TEST_CASE("passes and schedule take a hundred thousand operations in a row on a small stack") {
  Numbers numbers;
  on_small_stack([&] {
    auto f = compile(
        [](const Tensor& x) {
          Tensor y = x;
          for (int i = 0; i < 25000; ++i) {
            y = -(y * 1.0);
            y = reshape(transpose(reshape(y, {1, 2})), {2});
          }
          return y + 1;
        },
        {.check = Check::never});
    numbers = numbers_of(f(vector_of({1, 2})));
  });
  CHECK(numbers == Numbers{2, 3});
}

TEST_CASE("names of files that look like code reach neither the source nor the compiler") {
  auto f = compile(&named_like_code);
  Tensor x = vector_of({1, 2});
  CHECK(numbers_of(f(x)) == Numbers{3, 5});
  const Explanation e = explain(f, x);
  CHECK(e.fallback == "");
  REQUIRE(e.kernels.size() == 1);
  const std::string& source = e.kernels[0].source;
  CHECK(contains(source, "nowhere"));  // the name is there, as a comment
  CHECK_FALSE(contains(source, "#include"));
  for (char c : {'"', '\'', '\\', '?', '`'}) CHECK(source.find(c) == std::string::npos);
  CHECK_FALSE(contains(source, "#error"));
  const std::string message = message_of([&] { named_like_code(vector_of({1, 2}) + zeros({3})); });
  CHECK(contains(message, "shapes do not broadcast"));
}

namespace {
#line 1 "here */ \"quoted\" \\ \n#error nowhere ?? ` #include <nowhere>\n x.cpp"
Tensor named_like_code(const Tensor& x) { return x * 2 + 1; }
}  // namespace
