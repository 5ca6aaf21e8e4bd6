// When a function is compiled again: for each thing that guards hold, with its reason in words; and never for anything
// else. Limits, eviction, symbolic sizes.
#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/convolution.hpp"

using namespace weft;
using namespace trace_test;

namespace {
struct Inner {
  Param weight;
  Param bias;
};
enum class Mode : signed char { fast, exact = -2 };
struct Arguments {
  Inner in;
  float rate = 0.5f;
  bool training = true;
  unsigned char depth = 3;
  Mode mode = Mode::fast;
  std::string name = "relu";
  std::vector<Tensor> list;
  std::vector<int> sizes = {1, 2};
  std::optional<Tensor> mask;
  Param absent;
  Conv2dOptions options;
  bfloat16 half{};
};
Arguments make() {
  return {{zeros({4, 4}), zeros({4})}, 0.5f, true, 3, Mode::fast, "relu", {zeros({4})}, {1, 2}, {}, {}, {}, {}};
}

Tensor ones_of(std::int64_t size) { return ones({size}); }
}  // namespace

TEST_CASE("each thing that a guard holds, changed alone, recompiles with its reason") {
  auto f = compile([](const Arguments& a, Tensor x) { return a.in.weight.tensor().defined() ? x : x; },
                   {.dynamic = false, .recompile_limit = 100});
  Arguments base = make();
  f(base, ones({4}));
  auto reason = [&](auto change, Tensor x = ones({4})) {
    Arguments changed = make();
    change(changed);
    std::size_t before = specialization_count(f);
    f(base, ones({4}));
    f(changed, x);
    CHECK(specialization_count(f) == before + 1);
    return last_recompile_reason(f);
  };
  auto nothing = [](Arguments&) {};
  CHECK(reason(nothing, ones({5})) == "argument 1: size of dimension 0 was 4, is 5");
  CHECK(reason(nothing, ones({4, 1})) == "argument 1: number of dimensions was 1, is 2");
  CHECK(reason(nothing, ones({4}, {DType::f64})) == "argument 1: dtype was f32, is f64");
  CHECK(reason(nothing, Tensor()) == "argument 1: was defined, is undefined");
  CHECK(reason([](Arguments& a) {
          a.in.weight = zeros({4, 8});
        }) == "argument 0 (in.weight): size of dimension 1 was 4, is 8");
  CHECK(reason([](Arguments& a) { a.in.bias.frozen = true; }) == "argument 0 (in.bias): was not frozen, is frozen");
  CHECK(reason([](Arguments& a) { a.absent.frozen = true; }) == "argument 0 (absent): was not frozen, is frozen");
  CHECK(reason([](Arguments& a) { a.rate = 0.25f; }) ==
        "argument 0 (rate): was 0.5, is 0.25 (pass it as a weft::Scalar, which may vary without a recompilation)");
  CHECK(reason([](Arguments& a) { a.rate = -0.5f; }) ==
        "argument 0 (rate): was 0.5, is -0.5 (pass it as a weft::Scalar, which may vary without a recompilation)");
  CHECK(reason([](Arguments& a) { a.training = false; }) == "argument 0 (training): was true, is false");
  CHECK(reason([](Arguments& a) { a.depth = 200; }) ==
        "argument 0 (depth): was 3, is 200 (an operand of arithmetic may vary as a weft::Index; a loop count, a stride "
        "or a size "
        "shapes the graph and is compiled for each value: raise recompile_limit, or take a size from a tensor, whose "
        "size may vary)");
  CHECK(reason([](Arguments& a) { a.mode = Mode::exact; }) == "argument 0 (mode): was enum value 0, is enum value -2");
  CHECK(reason([](Arguments& a) { a.name = "gelu"; }) == "argument 0 (name): was \"relu\", is \"gelu\"");
  CHECK(reason([](Arguments& a) { a.list.push_back(zeros({4})); }) == "argument 0 (list): was length 1, is length 2");
  CHECK(reason([](Arguments& a) { a.sizes[1] = 3; }) == "argument 0 (sizes): its numbers changed");
  CHECK(reason([](Arguments& a) { a.sizes.push_back(3); }) == "argument 0 (sizes): was length 2, is length 3");
  CHECK(reason([](Arguments& a) {
          a.options.stride = {1, 2};
        }).find("argument 0 (options.stride.sizes): its numbers changed") == 0);
  CHECK(reason([](Arguments& a) { a.half = bfloat16(-1.5f); }).find("argument 0 (half): was 0, is -1.5 (pass it as") ==
        0);
  CHECK(reason([](Arguments& a) { a.mask = zeros({4}); }) == "argument 0 (mask): was no value, is a value");
}

TEST_CASE("what is no guard does not recompile: values, strides, offsets, addresses, pending work") {
  auto f = compile([](const Tensor& x) { return x * 2; });
  Tensor base = from_list<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(numbers_of(f(base)) == Numbers{2, 4, 6, 8, 10, 12});
  CHECK(numbers_of(f(base + 1)) == Numbers{4, 6, 8, 10, 12, 14});
  CHECK(numbers_of(f(transpose(reshape(base, {3, 2})))) == Numbers{2, 6, 10, 4, 8, 12});
  CHECK(numbers_of(f(slice(from_list<float>({0, 1, 2, 3, 4, 5, 6, 7, 8}, {3, 3}), 0, 1))) ==
        Numbers{6, 8, 10, 12, 14, 16});
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("signed zeros and NaNs are told apart by their bits") {
  auto f = compile([](const Tensor& x, double s) { return x * s; });
  f(ones({1}), 0.0);
  f(ones({1}), -0.0);
  CHECK(specialization_count(f) == 2);
  double nan = std::numeric_limits<double>::quiet_NaN();
  f(ones({1}), nan);
  f(ones({1}), nan);
  CHECK(specialization_count(f) == 3);
}

TEST_CASE("a weak number and a tensor of no axes promote differently and are told apart") {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x + y; });
  Tensor half = ones({2}, {DType::f32});
  CHECK(f(half, Scalar(1.5).tensor()).dtype() == DType::f32);
  CHECK(f(full({}, 1, {DType::i64}), full({}, 1.5, {DType::f64})).dtype() == DType::f64);
  CHECK(specialization_count(f) == 2);
}

TEST_CASE("a variant's alternative is guarded") {
  using Choice = std::variant<Tensor, std::pair<Tensor, Tensor>>;
  auto f = compile([](const Choice& c) {
    return c.index() == 0 ? std::get<0>(c) * 1 : std::get<1>(c).first + std::get<1>(c).second;
  });
  CHECK(numbers_of(f(Choice(vector_of({1})))) == Numbers{1});
  CHECK(numbers_of(f(Choice(std::pair{vector_of({1}), vector_of({2})}))) == Numbers{3});
  CHECK(numbers_of(f(Choice(vector_of({4})))) == Numbers{4});
  CHECK(specialization_count(f) == 2);
  CHECK(last_recompile_reason(f) == "argument 0: was alternative 0, is alternative 1");
  CHECK(explain(f, Choice(vector_of({1}))).guards[0] == "argument 0: alternative 0");
}

TEST_CASE("beyond the limit other arguments run eagerly, with right results, or are an error") {
  auto f = compile(
      [](const Tensor& x, Tensor& calls) {
        calls += 1;
        return x + 1;
      },
      {.dynamic = false, .recompile_limit = 2});
  Tensor calls = zeros({1});
  for (int size = 1; size <= 6; ++size) {
    Tensor y = f(ones_of(size), calls);
    CHECK(numbers_of(y) == Numbers(static_cast<std::size_t>(size), 2.0f));
  }
  CHECK(specialization_count(f) == 3);
  CHECK(numbers_of(calls) == Numbers{6});
  CHECK(numbers_of(f(ones_of(1), calls)) == Numbers{2});
  auto strict = compile([](const Tensor& x) { return x + 1; },
                        {.dynamic = false, .on_recompile_limit = OnFailure::raise, .recompile_limit = 1});
  strict(ones_of(1));
  strict(ones_of(2));
  const int line = __LINE__ + 1;
  std::string message = message_of([&] { strict(ones_of(3)); });
  CHECK(contains(message,
                 "recompiled 1 time, the limit; the last reason: argument 0: size of dimension 0 was 2, is 3 "
                 "(sizes may vary under {.dynamic = true})"));
  CHECK(contains(message, AT_LINE(line)));
  strict(ones_of(2));
}

TEST_CASE("the limit is told once, with the last reason and advice") {
  weft::test::CaptureLog log;
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return x - 1; }, {.dynamic = false, .recompile_limit = 2});
  for (int round = 0; round < 2; ++round)
    for (int size = 1; size <= 6; ++size) f(ones_of(size));
  CHECK(log.lines ==
        std::vector<std::string>{"[weft] compile" + AT_LINE(line).substr(1) +
                                 ": recompiled 2 times, the limit; the last reason: argument 0: size of dimension 0 "
                                 "was 3, is 4 (sizes may vary under {.dynamic = true}). Further ones run eagerly, "
                                 "traced on each call"});
}

TEST_CASE("a number that the function changes in each call is named, once") {
  struct Steps {
    Inner inner;
    int count = 0;
  };
  weft::test::CaptureLog log;
  const int line = __LINE__ + 1;
  auto f = compile([](Steps& steps, const Tensor& x) { return ++steps.count, x + 1; });
  Steps steps;
  for (int i = 0; i < 4; ++i) f(steps, ones_of(3));
  CHECK(log.lines == std::vector<std::string>{
                         "[weft] compile" + AT_LINE(line).substr(1) +
                         ": argument 0 (count) is a number that the function changes in each call, and each of its "
                         "values is compiled: make it a weft::Index or a weft::Scalar (count += 1), or a Buffer"});
  // One that the caller changes, and one that is no number for the compiler, are not.
  auto g = compile([](const Tensor& x, int by, Index& count) { return count += 1, x + by; });
  Index count = 0;
  for (int i = 0; i < 4; ++i) g(ones_of(3), i, count);
  CHECK(count.item() == 4);
  CHECK(log.lines.size() == 1);
}

TEST_CASE("messages about many symbolic sizes name few of them, those of the guard that is broken") {
  const auto asks = [](const std::vector<Tensor>& x) {
    Tensor total = sum(x[0]);
    for (std::size_t i = 1; i < x.size(); ++i) total = total + sum(x[i]);
    Dim all = 0;
    for (std::size_t i = 2; i < 8; ++i) all = all + x[i].size(0);
    const bool few = x[1].size(0) < Dim(20), equal = all == x[0].size(0);
    return few ? total : equal ? -total : total * 2;
  };
  const auto inputs = [](std::int64_t first, std::int64_t second) {
    std::vector<Tensor> x = {ones({first}), ones({second})};
    for (std::int64_t size = 4; size < 11; ++size) x.push_back(ones({size}));
    return x;
  };
  weft::test::CaptureLog log;
  logging::set_channels("recompiles");
  auto f = compile(asks);
  f(inputs(2, 3));
  std::vector<Tensor> longer = inputs(39, 13);
  for (std::size_t i = 2; i < longer.size(); ++i) longer[i] = ones({longer[i].size(0) + Dim(10)});
  f(longer);
  logging::set_channels("");
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].ends_with(
      "; argument 0 (0): size of dimension 0, argument 0 (1): size of dimension 0, argument 0 (2): size of "
      "dimension 0, argument 0 (3): size of dimension 0 and 5 more are symbolic from here on"));
  auto g = compile(asks, {.dynamic = true});
  const std::vector<std::string> guards = explain(g, inputs(2, 3)).guards;
  CHECK(std::ranges::count(guards, "s0 to s8 >= 2") == 1);
  g(inputs(2, 25));
  CHECK(last_recompile_reason(g).ends_with("does not hold any more for s1 = 25 (argument 0 (1): size of dimension 0)"));
  g(inputs(39, 25));  // 39 is the sum of the six
  CHECK(last_recompile_reason(g).find(" and 3 more") != std::string::npos);
}

TEST_CASE("the limit's advice is about sizes that were compiled as numbers, not about guards of operations") {
  const auto asks = [](const Tensor& x) { return x.size(0) % Dim(3) == Dim(0) ? x + 1 : x + 2; };
  auto f = compile(asks, {.on_recompile_limit = OnFailure::raise, .recompile_limit = 1});
  f(ones_of(4));
  f(ones_of(6));
  const std::string broken = message_of([&] { f(ones_of(7)); });
  CHECK(contains(broken, "does not hold any more for s0 = 7 (argument 0: size of dimension 0)"));
  CHECK(!contains(broken, "{.dynamic = true}"));
}

TEST_CASE("beyond the limit explain() says why it runs eagerly, and so it does of what was asked to") {
  auto f = compile([](const Tensor& x, double by) { return x * by; }, {.recompile_limit = 1});
  for (const double by : {1., 2., 3., 4.}) f(ones({3}), by);
  const Explanation e = explain(f, ones({3}), 4.);
  CHECK(e.kernels.empty());
  CHECK(contains(e.fallback, "recompiled 1 time, the limit; the last reason: argument 1: was 2, is 4"));
  CHECK(explain(f, ones({3}), 1.).fallback.empty());
  auto eager = compile([](const Tensor& x) { return x + 1; }, {.backend = Backend::eager});
  CHECK(contains(explain(eager, ones({3})).fallback, "Backend::eager"));
}

TEST_CASE("the cache is bounded: what was used least recently goes first") {
  auto f = compile([](const Tensor& x) { return x + 1; }, {.dynamic = false, .recompile_limit = 100, .cache_size = 2});
  f(ones_of(1));
  f(ones_of(2));
  f(ones_of(1));
  f(ones_of(3));  // 2 goes
  CHECK(specialization_count(f) == 3);
  f(ones_of(1));
  CHECK(specialization_count(f) == 3);
  f(ones_of(2));
  CHECK(specialization_count(f) == 4);
  CHECK(numbers_of(f(ones_of(3))) == Numbers{2, 2, 2});
}

TEST_CASE("dynamic: one specialization for all sizes of 2 and more") {
  for (Backend backend : {Backend::compiled, Backend::eager, Backend::reference}) {
    auto f = compile([](const Tensor& x, const Tensor& y) { return x * 2 + y; }, {.dynamic = true, .backend = backend});
    for (std::int64_t rows : {2, 3, 17, 64})
      for (std::int64_t columns : {5, 2, 33}) {
        if (rows == columns) continue;
        Tensor z = f(ones({rows, columns}), ones({columns}));
        CHECK(z.shape().same(Shape::of(rows, columns)));
        CHECK(numbers_of(z) == Numbers(static_cast<std::size_t>(rows * columns), 3.0f));
      }
    CHECK(specialization_count(f) == 1);
    f(ones({1, 5}), ones({5}));  // 0 and 1 are special
    CHECK(last_recompile_reason(f) == "argument 0: size of dimension 0 is 1, must be at least 2");
  }
}

TEST_CASE("dynamic: sizes that were equal must stay equal, and what was decided on a size is guarded") {
  const std::string at_line_of_f = AT_LINE(__LINE__ + 1);
  auto f = compile([](const Tensor& x) { return x.size(0) < Dim(10) ? x + 1 : x + 2; }, {.dynamic = true});
  CHECK(numbers_of(f(ones({3}))) == Numbers(3, 2.0f));
  CHECK(numbers_of(f(ones({9}))) == Numbers(9, 2.0f));
  CHECK(specialization_count(f) == 1);
  CHECK(numbers_of(f(ones({10}))) == Numbers(10, 3.0f));
  CHECK(numbers_of(f(ones({11}))) == Numbers(11, 3.0f));
  CHECK(specialization_count(f) == 2);
  CHECK(last_recompile_reason(f) == "s0 < 10, decided after " + at_line_of_f.substr(5) +
                                        ", does not hold any more for s0 = 10 (argument 0: size of dimension 0)");
  auto square = compile([](const Tensor& x) { return x + transpose(x); }, {.dynamic = true});
  square(ones({3, 3}));
  square(ones({4, 4}));
  CHECK(specialization_count(square) == 1);
  CHECK(contains(message_of([&] { square(ones({3, 4})); }), "[add] shapes do not broadcast"));
  square(ones({5, 5}));
  CHECK(specialization_count(square) == 1);
  auto fixed =
      compile([](const Tensor& x) { return x * static_cast<double>(std::int64_t(x.size(0))); }, {.dynamic = true});
  CHECK(numbers_of(fixed(ones({3}))) == Numbers(3, 3.0f));
  CHECK(numbers_of(fixed(ones({4}))) == Numbers(4, 4.0f));
}
