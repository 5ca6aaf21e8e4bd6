// Decisions: a compiled function reads values with item<bool>() and item<int>() and goes on by them.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <thread>

#include "runtime/watch.hpp"
#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "trace/function.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

int traced = 0;

Tensor branch(const Tensor& x) {
  ++traced;
  const Tensor doubled = x * 2;
  if ((sum(doubled) > 0).item<bool>()) return sqrt(abs(doubled)) + x;
  return doubled - 1;
}

// The root of a by Newton's method, from 1, and the number of rounds.
std::pair<Tensor, Tensor> root(const Tensor& a) {
  ++traced;
  Tensor x = ones({}), rounds = zeros({});
  while ((abs(x * x - a) > a * 1e-5).item<bool>()) {
    x = (x + a / x) / 2;
    rounds = rounds + 1;
  }
  return {x, rounds};
}

Tensor by_case(const Tensor& x, const Tensor& which) {
  switch (which.item<int>()) {
    case 0: return x + 1;
    case 1: return x * x;
    case -2: return exp(x);
    default: return -x;
  }
}

bool same(const Tensor& a, const Tensor& b) { return text_of(a) == text_of(b); }

}  // namespace

TEST_CASE("a branch on a value: each outcome is traced once, and then runs without the function's code") {
  for (const Backend backend : backends) {
    CAPTURE(static_cast<int>(backend));
    auto f = compile(branch, {.check = Check::never, .backend = backend});
    const Tensor positive = vector_of({1, 2, 3}), negative = vector_of({-1, 2, -3});
    const Tensor expected_positive = branch(positive), expected_negative = branch(negative);
    traced = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK(same(f(positive), expected_positive));
      CHECK(same(f(negative), expected_negative));
    }
    CHECK(traced == 2);
    CHECK(specialization_count(f) == 1);
  }
}

TEST_CASE(
    "a loop until convergence: rounds share what is compiled, and longer ones go on from the values that are there") {
  auto f = compile(root, {.check = Check::never});
  for (const float a : {2.f, 1e4f, 3.f, 1e-4f, 1e8f, 1.f, 2.f, 1e30f}) {
    const auto expected = root(full({}, a));
    const auto found = f(full({}, a));
    CHECK(same(found.first, expected.first));
    CHECK(same(found.second, expected.second));
  }
  traced = 0;
  for (const float a : {2.f, 1e4f, 1e30f, 3.f, 1.f}) f(full({}, a));
  CHECK(traced == 0);
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("integers: a switch, and the value as it is") {
  auto f = compile(by_case, {.check = Check::every_call});
  const Tensor x = vector_of({1, 2});
  for (const std::int64_t which : {0, 1, -2, 5, 7, 0, 5})
    CHECK(same(f(x, from_list<std::int64_t>({which})), by_case(x, from_list<std::int64_t>({which}))));
  for (const float which : {0.9f, 1.5f, -2.f, -0.5f})
    CHECK(same(f(x, from_list<float>({which})), by_case(x, from_list<float>({which}))));
  CHECK(message_of([&] { f(x, from_list<float>({NAN})); }).find("does not fit into the integer") != std::string::npos);
  auto eight_bits = compile([](const Tensor& x) { return x + x.item<std::int8_t>(); });
  CHECK(eight_bits(vector_of({100})).item() == 200);
  CHECK(message_of([&] { eight_bits(vector_of({200})); }).find("200 does not fit") != std::string::npos);
  const auto halved = [](const Tensor& x) { return x * 0 + x.item<std::uint64_t>() / 2; };
  auto natural = compile(halved, {.check = Check::every_call});
  for (int again = 0; again < 2; ++again)
    for (const double each : {0x1p63, 0x1.8p63, 5.9, -0.5})
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Tensor x = full({1}, each, {dtype});
        CHECK(same(natural(x), halved(x)));
      }
  for (const double each : {-1., 0x1p64, static_cast<double>(NAN)})
    CHECK(message_of([&] { natural(full({1}, each)); }).find("does not fit into the integer") != std::string::npos);
  auto two = compile([](const Tensor& x) { return sum(x).item<bool>() ? x : x.item<bool>() ? x : -x; });
  CHECK_THROWS_WITH_AS(two(zeros({2})), doctest::Contains("[item] needs one element, the tensor is f32[2]"), Error);
}

TEST_CASE("ways whose results have other structures: each gives its own") {
  auto list = compile(
      [](const Tensor& x) {
        std::vector<Tensor> all{x + 1};
        for (int i = 1; i < x.item<int>(); ++i) all.push_back(x * i);
        return all;
      },
      {.check = Check::every_call});
  auto maybe = compile(
      [](const Tensor& x) {
        std::optional<Tensor> found;
        if (sum(x) > 2) found = x * 3;
        return found;
      },
      {.check = Check::every_call});
  for (const int count : {1, 3, 2, 3, 1, 2}) {
    const Tensor x = full({}, count);
    const std::vector<Tensor> all = list(x);
    REQUIRE(all.size() == static_cast<std::size_t>(count));
    CHECK(all[0].item() == count + 1);
    CHECK(all.back().item() == (count == 1 ? 2 : count * (count - 1)));
    const std::optional<Tensor> found = maybe(x);
    REQUIRE(found.has_value() == (count > 2));
    if (found) CHECK(found->item() == 9);
  }
  CHECK(specialization_count(list) == 1);
  CHECK(specialization_count(maybe) == 1);
}

TEST_CASE("a NaN is not 0, as in C++; what is asked twice is decided once") {
  auto f = compile([](const Tensor& x) {
    const bool first = x.item<bool>();
    return first == x.item<bool>() ? full({}, first ? 1. : 0.) : full({}, 2.);
  });
  CHECK(f(full({}, NAN)).item() == 1);
  CHECK(f(zeros({})).item() == 0);
  CHECK(f(full({}, -0.)).item() == 0);
  CHECK(explain(f, zeros({})).decisions.size() == 2);
}

TEST_CASE("state is written at the end, whatever way was taken; a throw leaves it as it was") {
  struct Run {
    Tensor total = zeros({2}), best = full({}, 1e9);
    int steps = 0;
  };
  auto f = compile(
      [](Run& run, const Tensor& x) {
        run.total = run.total + x;
        ++run.steps;
        const Tensor loss = sum(square(run.total));
        if ((loss < run.best).item<bool>()) run.best = loss;
        if ((loss > 100).item<bool>()) throw std::runtime_error("diverged");
        return loss;
      },
      {.check = Check::every_call});
  Run run;
  CHECK(f(run, vector_of({1, 2})).item() == 5);
  CHECK(f(run, vector_of({-1, 0})).item() == 4);
  CHECK(run.best.item() == 4);
  CHECK(f(run, vector_of({3, 0})).item() == 13);
  CHECK(run.best.item() == 4);
  CHECK(run.steps == 3);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_AS(f(run, vector_of({100, 0})), std::runtime_error);
    CHECK(numbers_of(run.total) == Numbers{3, 2});
    CHECK(run.best.item() == 4);
  }
  CHECK(f(run, vector_of({-3, 0})).item() == 4);
}

TEST_CASE("random numbers: those of the plain function, none drawn twice") {
  auto reject = [](const Tensor& limit) {  // draws until the sum is below the limit
    Tensor x = uniform({4});
    while ((sum(x) > limit).item<bool>()) x = uniform({4}) * 0.9;
    return x + normal({4});
  };
  auto f = compile(reject, {.check = Check::every_call});
  for (int round = 0; round < 6; ++round) {
    std::vector<std::string> expected, found;
    seed(static_cast<std::uint64_t>(round));
    for (int i = 0; i < 4; ++i) expected.push_back(text_of(reject(full({}, 1.7))));
    expected.push_back(text_of(uniform({3})));
    seed(static_cast<std::uint64_t>(round));
    for (int i = 0; i < 4; ++i) found.push_back(text_of(f(full({}, 1.7))));
    found.push_back(text_of(uniform({3})));
    CHECK(found == expected);
  }
}

TEST_CASE("a tree of decisions that is dropped for its branches grows again, and is no recompilation by the limit") {
  for (const bool alone : {true, false}) {
    CompileOptions options;
    options.recompile_limit = alone ? 0 : 1;
    options.on_recompile_limit = OnFailure::raise;
    auto f = compile(by_case, options);
    f.function().get()->most_branches = 4;
    if (!alone) f(vector_of({1}), full({}, 2., {DType::f64}));  // another specialization, which stays
    for (int call = 0; call < 40; ++call) {
      const Tensor x = vector_of({1, 2}), which = full({}, call % 8);
      CHECK(same(f(x, which), by_case(x, which)));
    }
    CHECK(last_recompile_reason(f) == "the tree of its decisions had 4 branches, was dropped, and grows again");
    CHECK(specialization_count(f) > 4);  // compiled anew each time
  }
}

TEST_CASE("ways that differ only in the arguments that they read are told apart") {
  const auto plain = [](const Tensor& a, const Tensor& b, const Tensor& which) {
    if (which > 1) return a + 1;
    if (which > 0) return b + 1;
    return sum(a) > sum(b) ? a * 2 : b * 2;
  };
  auto f = compile(plain);
  for (int call = 0; call < 8; ++call) {
    const Tensor a = full({2}, 10. + call % 3), b = full({2}, 11.), which = full({}, call % 4);
    CHECK(text_of(f(a, b, which)) == text_of(plain(a, b, which)));
  }
}

TEST_CASE("ways that differ only in what they draw are told apart") {
  const auto plain = [](const Tensor& x, const Tensor& a, const Tensor& b) {
    if (a > 0) uniform({2});
    if (b > 0) return x;
    return x + 1;
  };
  for (const int first : {0, 1, 2, 3}) {
    auto f = compile(plain);
    for (int call = 0; call < 12; ++call) {
      const int way = (first + 3 * call) % 4;
      const Tensor x = full({2}, 1.), a = full({}, way & 1), b = full({}, way >> 1);
      seed(5);
      const std::string expected = text_of(plain(x, a, b)), next = text_of(uniform({}));
      seed(5);
      CHECK(text_of(f(x, a, b)) == expected);
      CHECK(text_of(uniform({})) == next);
    }
  }
}

TEST_CASE("inside of a gradient: derivatives go through what was decided") {
  const auto slope = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          const Tensor h = tanh(x * 2);
          Tensor y = square(h) * x;
          for (int i = 0; i < 3 && (sum(y) > 0.1).item<bool>(); ++i) y = y * sin(h);
          return sum((sum(y) > 0).item<bool>() ? exp(y) : y * h);
        },
        x);
  };
  auto f = compile(slope, {.check = Check::every_call});
  for (const float scale : {1.f, -1.f, 0.3f, -0.2f, 3.f, 1.f, -1.f}) {
    const Tensor x = vector_of({0.5f, 1.f, -0.25f}) * scale;
    CHECK(allclose(f(x), slope(x), {.rtol = 1e-5, .atol = 1e-6}).item<bool>());
  }
}

TEST_CASE("training that skips a step whose gradient is too long") {
  struct Model {
    Param w = Param(full({3}, 0.5));
  };
  auto step = [](Model& model, Tensor& skipped, const Tensor& x) {
    auto [value, gradient] = value_and_grad([&](const Model& m) { return sum(square(m.w * x)); }, model);
    if ((sum(square(gradient.w)) > 10).item<bool>())
      skipped = skipped + 1;
    else
      model.w.tensor() = model.w - gradient.w * 0.1;
    return value;
  };
  Model plain, own;
  Tensor plain_skipped = zeros({}), own_skipped = zeros({});
  auto f = compile(step, {.check = Check::every_call});
  for (int i = 0; i < 8; ++i) {
    const Tensor x = full({3}, i % 3 == 2 ? 5. : 0.5 + 0.1 * i);
    CHECK(allclose(f(own, own_skipped, x), step(plain, plain_skipped, x)).item<bool>());
    CHECK(allclose(own.w.tensor(), plain.w.tensor()).item<bool>());
    CHECK(own_skipped.item() == plain_skipped.item());
  }
  CHECK(own_skipped.item() == 2);
}

TEST_CASE("a check before a decision stops the call there, and one after it only on its way") {
  auto f = compile([](const Tensor& x, const Tensor& index) {
    const Tensor row = x[index];
    if ((sum(row) > 5).item<bool>()) return row;
    return x[index + 2];
  });
  const Tensor x = from_list({{1.f, 2.f}, {3.f, 4.f}, {0.f, 1.f}, {1.f, 0.f}});
  const auto at = [](std::int64_t i) { return from_list<std::int64_t>({i}); };
  for (int i = 0; i < 2; ++i) {
    CHECK(numbers_of(f(x, at(1))) == Numbers{3, 4});
    CHECK(numbers_of(f(x, at(0))) == Numbers{0, 1});
    CHECK(message_of([&] { f(x, at(4)); }).find("out of range") != std::string::npos);
    CHECK(message_of([&] { f(x, at(3)); }).find("out of range") != std::string::npos);
  }
}

TEST_CASE("a function that decides otherwise for the same values is found out") {
  static bool flag = false;
  auto f = compile(
      [](const Tensor& x) {
        if (flag) return (sum(x) < 0).item<bool>() ? x : -x;
        return (sum(x) > 0).item<bool>() ? x : -x;
      },
      {.check = Check::every_call});
  f(ones({2}));
  f(ones({2}));
  flag = true;
  CHECK(message_of([&] { f(ones({2})); }).find("than when it was compiled") != std::string::npos);
  CHECK(numbers_of(f(ones({2}))) == Numbers{-1, -1});
  static int rounds = 0;
  auto more = compile(
      [](Tensor x) {
        for (int i = 0; i < rounds; ++i)
          if ((sum(x) > 100).item<bool>()) break;
        return x;
      },
      {.check = Check::every_call});
  rounds = 2;
  more(ones({2}));
  rounds = 3;
  CHECK(message_of([&] { more(ones({2})); }).find("than when it was compiled") != std::string::npos);
}

TEST_CASE("fullgraph refuses a decision with its line") {
  auto f = compile([](const Tensor& x) { return sum(x).item<bool>() ? x : -x; }, {.fullgraph = true});
  CHECK_THROWS_WITH_AS(f(ones({2})), doctest::Contains("[item] the value of a tensor (f32[]"), Error);
  CHECK(message_of([&] { f(ones({2})); }).find("compiled with {.fullgraph = true}") != std::string::npos);
  CHECK(message_of([&] { f(ones({2})); }).find("decide with") == std::string::npos);
  auto in_a_loop = compile([](const Tensor& x) {
    return scan([](Tensor s, const Tensor& v) { return v.item<bool>() ? s + v : s; }, zeros({}), x);
  });
  CHECK(message_of([&] {
          in_a_loop(ones({4}));
        }).find("of the body of a loop or a checkpointed function is not known") != std::string::npos);
}

TEST_CASE("symbolic sizes: what is decided on a size after a decision belongs to its branch") {
  auto plain = [](const Tensor& x) {
    Tensor y = x * 2;
    if ((sum(x) > 0).item<bool>()) {
      if (x.size(0) < Dim(10)) return y + 1;
      return y - 1;
    }
    return x.size(0) == Dim(12) ? sum(y) : y;
  };
  auto f = compile(plain, {.dynamic = true, .check = Check::every_call});
  for (const std::int64_t n : {4, 12, 20, 5, 12, 7})
    for (const double value : {1., -1.}) CHECK(same(f(full({n}, value)), plain(full({n}, value))));
  CHECK(specialization_count(f) == 1);
}

TEST_CASE(
    "values that outlive a decision: views, what is repeated, results that are arguments, memory that is moved in") {
  auto plain = [](Tensor a, const Tensor& b) {
    const Tensor t = transpose(a), row = expand(sum(b), {3, 2}), part = a[0];
    if ((amax(t) > 1).item<bool>()) return std::vector{t + 1, row, part, b, a};
    return std::vector{matmul(a, t), row * 2, part, a, a + b};
  };
  auto f = compile(plain, {.check = Check::every_call});
  for (int i = 0; i < 3; ++i)
    for (const double scale : {1., 0.1}) {
      const Tensor a = reshape(arange(6) * scale, {3, 2}).eval(), b = full({3, 2}, 0.5);
      const std::vector<Tensor> expected = plain(a, b), found = f(Tensor(a + 0), b);
      REQUIRE(found.size() == expected.size());
      for (std::size_t k = 0; k < found.size(); ++k) CHECK(same(found[k], expected[k]));
    }
}

TEST_CASE("a loop of 10,000 rounds is compiled as one round") {
  auto f = compile(
      [](const Tensor& x, const Tensor& rounds) {
        Tensor y = x;
        for (Tensor i = zeros({}, {.dtype = DType::i64}); (i < rounds).item<bool>(); i = i + 1) y = y * 0.999 + 0.001;
        return y;
      },
      {.check = Check::never});
  const auto rounds = [](std::int64_t n) { return full({}, n, {.dtype = DType::i64}); };
  CHECK(f(zeros({4}), rounds(10000))[0].item() == doctest::Approx(1).epsilon(1e-3));
  CHECK(f(zeros({4}), rounds(10000))[0].item() == doctest::Approx(1).epsilon(1e-3));
  CHECK(f(zeros({4}), rounds(0))[0].item() == 0);
  const Explanation e = explain(f, zeros({4}), rounds(10000));
  CHECK(e.decisions.size() == 65);
  CHECK(contains(e.decisions[0], "decisions_test.cpp:"));
}

TEST_CASE("a loop without an end is ended with a sentence") {
  auto f = compile([](const Tensor& x) {
    Tensor y = x;
    while ((sum(y) > 0).item<bool>()) y = y + 1;
    return y;
  });
  CHECK_THROWS_WITH_AS(f(ones({2})), doctest::Contains("does its loop end?"), Error);
}

TEST_CASE("beyond decision_limit pieces run eagerly") {
  auto plain = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 1; i < 6; ++i)
      if ((sum(y) > i).item<bool>()) y = y * (i + 1);
    return y;
  };
  auto f = compile(plain, {.check = Check::every_call, .decision_limit = 2});
  for (const double value : {1., 0.2, 0.01, 1.}) CHECK(same(f(full({3}, value)), plain(full({3}, value))));
}

TEST_CASE("several threads come to outcomes that are new to all of them") {
  auto f = compile(root);
  std::vector<std::string> expected;
  for (int i = 0; i < 16; ++i) expected.push_back(text_of(root(full({}, std::pow(7., i))).first));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 16; ++i) {
        const int k = (i * 5 + t) % 16;
        if (text_of(f(full({}, std::pow(7., k))).first) != expected[static_cast<std::size_t>(k)]) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads that draw, decide and are checked wait for nobody who waits for them; no number is drawn twice") {
  auto f = compile(
      [](const Tensor& x, const Tensor& n) {
        const int k = n.item<int>();
        const Tensor u = uniform({4});
        return sum(u) > 2 ? u + x : u - x * k;
      },
      {.check = Check::every_call, .decision_limit = 2});
  seed(11);
  std::vector<std::thread> threads;
  std::vector<float> drawn[4];
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const int k = t % 2 ? 0 : i;
        drawn[t].push_back(numbers_of(f(zeros({4}), full({}, k, {.dtype = DType::i64})))[0]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<float> all;
  for (const auto& each : drawn) all.insert(all.end(), each.begin(), each.end());
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("explain shows the tree") {
  auto f = compile(branch);
  f(vector_of({1, 2}));
  f(vector_of({1, 2}));
  const Explanation e = explain(f, vector_of({-1, -2}));
  REQUIRE(e.decisions.size() == 2);
  CHECK(contains(e.decisions[0], "decisions_test.cpp:"));
  CHECK(contains(e.decisions[0], ": true, 2 calls, then the results"));
  CHECK(contains(e.decisions[1], ": false, 0 calls, then the results"));
  CHECK(contains(to_string(e), "---- decisions ----"));
}

TEST_CASE("a tensor is a condition: if, while, and, or, not") {
  const auto plain = [](const Tensor& x) {
    if (!(sum(x) > 0)) return -x;
    Tensor y = x;
    while (sum(y) < 10 && amax(y) < 4) y = y * 2;
    return amin(y) > 1 || sum(y) > 12 ? y : y + 0.5;
  };
  auto f = compile(plain);
  for (const Tensor& x : {vector_of({1, 2}), vector_of({-1, 0}), vector_of({0.25f, 0.25f}), vector_of({5, 9})})
    CHECK(same(f(x), plain(x)));
  const int line = __LINE__ + 1;
  const std::string message = message_of([] { return bool(ones({2}) > 0); });
  CHECK(message ==
        "[bool] needs one element, the tensor is bool[2]: say any(x) or all(x); element by element & | ~ for "
        "&& || !" +
            at_line(line, __FILE__));
  CHECK_THROWS_WITH_AS(static_cast<void>(bool(Tensor{})), "[bool] of an undefined tensor", Error);
}

TEST_CASE("a value that is used as a number: beyond decision_limit each of them runs eagerly") {
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x, const Tensor& n) { return x * n.item<int>(); },
                   {.check = Check::every_call, .decision_limit = 3});
  const weft::test::CaptureLog written;
  for (std::int64_t n = 0; n < 8; ++n) CHECK(f(full({}, 2.), full({}, n, {.dtype = DType::i64})).item() == 2. * n);
  REQUIRE(written.lines.size() == 1);
  CHECK(written.lines[0].find(
            "more than 3 different pieces, its decision_limit. Further ones run eagerly. What follows the "
            "integer that is read" +
            at_line(line, __FILE__).substr(1) + " is compiled for each of its values") != std::string::npos);
}

TEST_CASE("a function that is beyond its decision_limit at many places says so once") {
  auto f = compile(
      [](const Tensor& x, const Tensor& n) {
        Tensor y = x * n.item<int>();
        y = y + (n + 1).item<int>();
        return y * (n + 2).item<int>();
      },
      {.check = Check::every_call, .decision_limit = 3});
  const weft::test::CaptureLog written;
  for (std::int64_t n = 0; n < 8; ++n)
    CHECK(f(full({}, 2.), full({}, n, {.dtype = DType::i64})).item() == (2. * n + n + 1) * (n + 2));
  CHECK(written.lines.size() == 1);
}

namespace {
struct CountedPlans final : runtime::Watch {
  int plans = 0;  // that compute something
  void begin_call(const runtime::Plan& plan, std::span<const std::int64_t>, bool) override {
    if (!plan.launches.empty()) ++plans;
  }
  void begin_step(const runtime::Launch&, Queue*) override {}
  void end_step(Queue*) override {}
  void end_call() noexcept override {}
};
// Newton's method from the argument itself.
Tensor root_from(const Tensor& a) {
  Tensor x = a;
  while ((abs(x * x - a) > a * 1e-5).item<bool>()) x = (x + a / x) / 2;
  return x;
}
}  // namespace

TEST_CASE("the first round runs with the others, whatever it reads in the place of what they keep") {
  const auto check = [](auto plain) {
    auto f = compile(plain, {.check = Check::never});
    for (const float a : {2.f, 1e4f, 3.f, 1e-4f, 1e8f, 2.f, 1e30f, 5.f}) {
      CountedPlans counted;
      const runtime::Watching watching(&counted);
      const auto found = f(full({}, a)), expected = plain(full({}, a));
      if constexpr (std::is_same_v<decltype(found), const Tensor>) {
        CHECK(same(found, expected));
      } else {
        CHECK(same(found.first, expected.first));
        CHECK(same(found.second, expected.second));
      }
      if (a == 5) CHECK(counted.plans == 2);  // the first condition, and all rounds
    }
  };
  check([](const Tensor& a) { return root_from(a); });
  check([](const Tensor& a) { return root(a); });  // begins with constants
}

TEST_CASE("rounds of a loop run in one step, and stop where the function stops") {
  const auto plain = [](const Tensor& x,
                        const Tensor& limit) {  // counts its rounds, keeps the value before, changes places
    Tensor now = x, before = zeros({3}), other = x * 2;
    int rounds = 0;
    while (rounds < 12 && sum(now) < limit) {
      const Tensor next = now + other * 0.25;
      before = now;
      now = next;
      std::swap(before, other);
      ++rounds;
    }
    return std::tuple{now, before, other, rounds};
  };
  auto f = compile(plain, {.check = Check::every_call});
  for (const double limit : {20., 1e9, 10., 4., 30., 1., 1e9, 25.}) {
    const auto expected = plain(vector_of({1, 1, 1}), full({}, limit)),
               found = f(vector_of({1, 1, 1}), full({}, limit));
    CHECK(same(std::get<0>(found), std::get<0>(expected)));
    CHECK(same(std::get<1>(found), std::get<1>(expected)));
    CHECK(same(std::get<2>(found), std::get<2>(expected)));
    CHECK(std::get<3>(found) == std::get<3>(expected));
  }
}
