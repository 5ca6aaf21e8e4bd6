// auto_select: decisions whose sides are cheap become one segment that computes both.
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"
#include "weft/random.hpp"
#include "weft/stance.hpp"

using namespace weft;
using namespace trace_test;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape().same(b.shape()) && text_of(a) == text_of(b);
}
// How many decisions of what explain() tells are computed on both sides.
std::size_t selected(const Explanation& e) {
  std::size_t count = 0;
  for (const std::string& line : e.decisions) count += contains(line, "both sides are computed");
  return count;
}

Tensor branch(const Tensor& x) {
  const Tensor doubled = x * 2;
  if (sum(doubled) > 0) return sqrt(abs(doubled)) + x;
  return doubled - 1;
}

struct Plateau {
  Tensor w = zeros({3}), best = full({}, 1e9), rate = full({}, 0.25), waited = zeros({});
};
Tensor plateau(Plateau& run, const Tensor& x, const Tensor& y) {
  auto [loss, gradient] = value_and_grad([&](const Tensor& w) { return mean(square(sum(x * w, 1) - y)); }, run.w);
  if (loss < run.best) {
    run.best = loss;
    run.waited = zeros({});
  } else {
    run.waited = run.waited + 1;
    if (run.waited > 1) {
      run.rate = run.rate * 0.5;
      run.waited = zeros({});
    }
  }
  run.w = run.w - gradient * run.rate;
  return loss;
}

// The plain function's results for each argument twice, one after the other; how many decisions are selected then.
template <class F>
std::size_t check_same(F plain, std::initializer_list<Tensor> arguments, CompileOptions options = {}) {
  options.auto_select = true;
  auto f = compile(plain, options);
  for (int round = 0; round < 3; ++round)
    for (const Tensor& argument : arguments) CHECK(same(f(argument), plain(argument)));
  return selected(explain(f, *arguments.begin()));
}

}  // namespace

TEST_CASE("select: both outcomes were seen: one segment computes both sides") {
  for (const Backend backend : backends) {
    CAPTURE(static_cast<int>(backend));
    auto f = compile(branch, {.backend = backend, .auto_select = true});
    const Tensor up = vector_of({1, 2, 3}), down = vector_of({-1, 2, -3});
    CHECK(same(f(up), branch(up)));
    CHECK(selected(explain(f, up)) == 0);
    CHECK(same(f(down), branch(down)));
    for (int call = 0; call < 3; ++call) {
      CHECK(same(f(up), branch(up)));
      CHECK(same(f(down), branch(down)));
    }
    const Explanation e = explain(f, up);
    REQUIRE(e.decisions.size() == 2);
    CHECK(contains(e.decisions[0], "select_test.cpp:"));
    CHECK(contains(e.decisions[0], ": true, 1 call, then the results; both sides are computed, 6 calls"));
    CHECK(contains(e.decisions[1], ": false, 1 call, then the results"));
    CHECK(contains(e.graph, "where"));
    CHECK(specialization_count(f) == 1);
  }
}

TEST_CASE("select: explain names what could be selected, with its line") {
  auto f = compile([](const Tensor& x) {
    if (sum(x) > 0) return amax(x) > 1 ? x : -x;
    return sum(x) < -10 ? exp(x) : matmul(reshape(x, {2, 1}), reshape(x, {1, 2}))[0];
  });
  for (const float scale : {2.f, 0.1f, -1.f, -100.f}) f(full({2}, scale));
  const std::vector<std::string> lines = explain(f, ones({2})).decisions;
  REQUIRE(lines.size() == 6);
  const auto named = [&](std::size_t line) {
    return contains(lines[line], "; both sides are cheap: auto_select would compute both");
  };
  CHECK(contains(lines[1], "select_test.cpp:"));
  CHECK(named(1));
  for (const std::size_t line : {0, 2, 3, 4, 5}) CHECK(!named(line));
  // A decision after which another one follows that could be selected.
  Plateau run;
  auto step = compile(plateau);
  const Tensor x = ones({2, 3});
  for (const float y : {1.f, 1.f, 5.f, 9.f, 17.f}) step(run, x, full({2}, y));
  CHECK(contains(explain(step, run, x, zeros({2})).decisions[0], "auto_select would compute both"));
}

TEST_CASE("select: what the other side computes does not show: NaN, infinities, overflow, division by 0") {
  const float huge = std::numeric_limits<float>::max();
  CHECK(check_same([](const Tensor& x) { return sum(x) > 0 ? sqrt(x) : 1 / (x - x); },
                   {vector_of({4, 9}), vector_of({-4, -9}), vector_of({NAN, 1}), vector_of({huge, -huge}),
                    vector_of({INFINITY, 1}), vector_of({0, -0.f})}) == 1);
  const auto integers = [](std::int64_t a, std::int64_t b) { return from_list<std::int64_t>({a, b}); };
  CHECK(check_same([](const Tensor& x) { return x[0] < x[1] ? floor_divide(x, x - x) : x * x * x; },
                   {integers(1, 2), integers(INT64_MAX, 3), integers(INT64_MAX, INT64_MIN)}) == 1);
  // A value as a condition: NaN counts, -0 does not.
  CHECK(check_same([](const Tensor& x) { return x[0].item<bool>() ? x + 1 : x * 3; },
                   {vector_of({1, 2}), vector_of({0, 2}), vector_of({NAN, 2}), vector_of({-0.f, 2})}) == 1);
  CHECK(check_same([](const Tensor& x) { return x.item<bool>() ? x + 1 : x * 3; },
                   {full({1, 1}, 2., {.dtype = DType::f16}), full({1, 1}, 0., {.dtype = DType::f16})}) == 1);
}

TEST_CASE("select: state that one side leaves alone, results that are arguments") {
  struct Run {
    Tensor best = full({}, 1e9), at = zeros({2}), steps = zeros({});
  };
  const auto plain = [](Run& run, const Tensor& x) {
    run.steps = run.steps + 1;
    const Tensor loss = sum(square(x));
    if (!(loss < run.best)) return std::pair{loss, x};
    run.best = loss;
    run.at = x;
    return std::pair{loss, run.at * 2};
  };
  auto f = compile(plain, {.auto_select = true});
  Run own, expected_run;
  for (const float value : {3.f, 5.f, 2.f, 4.f, 1.f, 0.5f, NAN, 9.f, 0.25f}) {
    const Tensor x = full({2}, value);
    const auto found = f(own, x), expected = plain(expected_run, x);
    CHECK(same(found.first, expected.first));
    CHECK(same(found.second, expected.second));
    CHECK(same(own.best, expected_run.best));
    CHECK(same(own.at, expected_run.at));
    CHECK(same(own.steps, expected_run.steps));
  }
  CHECK(selected(explain(f, own, ones({2}))) == 1);
}

TEST_CASE("select: a decision after another one, behind a gradient, becomes one segment with it") {
  auto f = compile(plateau, {.auto_select = true});
  Plateau own, expected;
  seed(3);
  for (int call = 0; call < 24; ++call) {
    const Tensor x = normal({4, 3}).eval(), y = (sum(x, 1) * (call % 5 == 4 ? 4. : 1.)).eval();
    CHECK(same(f(own, x, y), plateau(expected, x, y)));
    CHECK(same(own.w, expected.w));
    CHECK(same(own.best, expected.best));
    CHECK(same(own.rate, expected.rate));
    CHECK(same(own.waited, expected.waited));
  }
  const Explanation e = explain(f, own, zeros({4, 3}), zeros({4}));
  CHECK(contains(e.decisions[0], "both sides are computed"));
  CHECK(contains(e.graph, "where"));
}

TEST_CASE("select: inside of a gradient") {
  const auto slope = [](const Tensor& x) {
    return grad([](const Tensor& x) { return sum(x) > 0 ? sum(x * x * x) : sum(exp(x) * 2); }, x);
  };
  CHECK(check_same(slope, {vector_of({1, 2, -0.5f}), vector_of({-1, 0.5f, -2}), vector_of({0, 1, 0})}) == 1);
}

TEST_CASE("select: symbolic sizes; what a side decides on sizes is a condition") {
  const auto plain = [](const Tensor& x) {
    const Tensor y = x * 2;
    if (sum(x) > 0) return x.size(0) < Dim(10) ? y + 1 : y - 1;
    return x.size(0) == Dim(12) ? y * y : exp(y);
  };
  auto f = compile(plain, {.dynamic = true, .auto_select = true});
  for (const std::int64_t n : {4, 5, 20, 12, 7, 20, 12, 30})
    for (const float value : {1.f, -1.f, 0.5f}) CHECK(same(f(full({n}, value)), plain(full({n}, value))));
  CHECK(specialization_count(f) == 1);
  CHECK(selected(explain(f, ones({5}))) == 1);
  // A side that is an argument: its sizes are the symbols.
  const auto chooses = [](const Tensor& a, const Tensor& b) { return sum(a) > sum(b) ? a : b; };
  auto g = compile(chooses, {.dynamic = true, .auto_select = true});
  for (const std::int64_t n : {3, 3, 5, 9})
    for (const float value : {1.f, -1.f})
      CHECK(same(g(full({n}, value), zeros({n})), chooses(full({n}, value), zeros({n}))));
  CHECK(specialization_count(g) == 1);
  CHECK(selected(explain(g, ones({3}), zeros({3}))) == 1);
}

TEST_CASE("select: numbers that are drawn before a decision; checks before one") {
  const auto plain = [](const Tensor& x, const Tensor& index) {
    const Tensor noise = uniform({2}), row = x[index];
    return sum(noise) > 1 ? row + noise : row * noise;
  };
  auto f = compile(plain, {.check = Check::every_call, .auto_select = true});
  const Tensor x = from_list({{1.f, 2.f}, {3.f, 4.f}});
  const auto at = [](std::int64_t i) { return from_list<std::int64_t>({i}); };
  seed(4);
  std::vector<std::string> expected, found;
  for (int i = 0; i < 12; ++i) expected.push_back(text_of(plain(x, at(i % 2))));
  seed(4);
  for (int i = 0; i < 12; ++i) found.push_back(text_of(f(x, at(i % 2))));
  CHECK(found == expected);
  CHECK(selected(explain(f, x, at(0))) == 1);
  CHECK(message_of([&] { f(x, at(2)); }).find("out of range") != std::string::npos);
}

TEST_CASE("select: what stays a decision") {
  const Tensor up = vector_of({1, 2}), down = vector_of({-1, -2});
  const auto stays = [&](auto plain) {
    seed(1);
    auto f = compile(plain, {.auto_select = true});
    for (const Tensor& x : {up, down, up, down}) f(x);
    return selected(explain(f, up)) == 0;
  };
  CHECK(stays([](const Tensor& x) { return sum(x) > 0 ? uniform({2}) : x; }));                          // draws
  CHECK(stays([](const Tensor& x) { return sum(x) > 0 ? x[cast(sum(x), DType::i64) - 3] : sum(x); }));  // checks
  CHECK(stays([](const Tensor& x) { return sum(x) > 0 ? sum(x) : x; }));                                // types
  CHECK(stays([](const Tensor& x) { return sum(x) > 0 ? std::pair{x, 1} : std::pair{-x, 2}; }));        // numbers
  CHECK(stays([](const Tensor& x) { return sum(x) > 0 ? matmul(x, x) : sum(x); }));                     // products
  CHECK(stays([](const Tensor& x) { return cast(amax(x), DType::i32).item<int>() == 2 ? x : -x; }));    // integers
  CHECK(stays([](const Tensor& x) {                                                                     // cost
    return sum(x) > 0 ? sum(exp(expand(unsqueeze(x, 1), {2, 10000})), 1) : x;
  }));
  auto limited =
      compile([](const Tensor& x) { return sum(x) > 0 ? x * 2 : x + 1; }, {.decision_limit = 3, .auto_select = true});
  for (const Tensor& x : {up, down, up}) limited(x);
  CHECK(selected(explain(limited, up)) == 0);
}

TEST_CASE("select: what a product before the decision is, stays; others go through a transpose of it") {
  const auto plain = [](const Tensor& x) {
    const Tensor product = matmul(x, transpose(x) * 0.3);
    return sum(product) > 400 ? transpose(product) + 1 : product;
  };
  auto f = compile(plain, {.auto_select = true}), branches = compile(plain);
  seed(2);
  for (int call = 0; call < 8; ++call) {
    const Tensor x = (normal({24, 24}) * (call % 2 ? 2. : 1.)).eval();
    CHECK(same(f(x), branches(x)));
  }
  CHECK(selected(explain(f, ones({24, 24}))) == 1);
}

TEST_CASE("select: Check compares both sides; a function that does something else is found out") {
  static bool flag = false;
  auto f = compile(
      [](const Tensor& x) {
        if (sum(x) > 0) return x * 2;
        return flag ? x + 1 : -x;
      },
      {.check = Check::every_call, .auto_select = true});
  for (int i = 0; i < 3; ++i) {
    CHECK(numbers_of(f(ones({2}))) == Numbers{2, 2});
    CHECK(numbers_of(f(-ones({2}))) == Numbers{1, 1});
  }
  CHECK(selected(explain(f, ones({2}))) == 1);
  flag = true;
  CHECK(message_of([&] { f(ones({2})); }).find("something else than when it was compiled") != std::string::npos);
  CHECK(numbers_of(f(-ones({2}))) == Numbers{0, 0});
}

TEST_CASE("select: in loops, whose rounds stay what they are") {
  const auto plain = [](const Tensor& a) {
    Tensor x = ones({}), damped = zeros({});
    int rounds = 0;
    while (rounds < 40 && abs(x * x - a) > a * 1e-5) {
      const Tensor next = (x + a / x) / 2;
      if (abs(next - x) > 4) {
        x = (x + next) / 2;
        damped = damped + 1;
      } else {
        x = next;
      }
      ++rounds;
    }
    return x + damped;
  };
  auto f = compile(plain, {.auto_select = true});
  for (const float a : {2.f, 1e3f, 3.f, 1e-3f, 50.f, 2.f, 1e3f}) CHECK(same(f(full({}, a)), plain(full({}, a))));
}

TEST_CASE("select: compiled again for other arguments; several threads") {
  auto f = compile(branch, {.dynamic = false, .auto_select = true});
  std::vector<Tensor> arguments;
  std::vector<std::string> expected;
  for (const int n : {3, 4})
    for (const float value : {1.f, -1.f, 0.5f, -0.25f}) {
      arguments.push_back(full({n}, value).eval());
      expected.push_back(text_of(branch(arguments.back())));
    }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 64; ++i) {
        const std::size_t k = (i * 3 + static_cast<std::size_t>(t)) % arguments.size();
        if (text_of(f(arguments[k])) != expected[k]) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(specialization_count(f) == 2);
  for (const Tensor& argument : arguments) CHECK(selected(explain(f, argument)) == 1);
}

TEST_CASE("select: kernels that are made in the background: the branches run until they are there") {
  auto f = compile(branch, {.auto_select = true, .async = true});
  const Tensor up = vector_of({1, 2, 3}), down = vector_of({-1, 2, -3});
  for (int round = 0; round < 2; ++round) {
    for (int call = 0; call < 3; ++call) {
      CHECK(same(f(up), branch(up)));
      CHECK(same(f(down), branch(down)));
    }
    wait_compiled(f);
  }
  CHECK(selected(explain(f, up)) == 1);
}
