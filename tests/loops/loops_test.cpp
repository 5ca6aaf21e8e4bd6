// What a body may be and do: captures, structs, random numbers, checks, state in place; nested loops, fori, while_loop
// and cond; and what is refused. Each program plainly, compiled, and by the reference interpreter.
#include "tests/loops/support.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using namespace loops_test;
using weft::test::refused;

namespace {

constexpr Backend backends[] = {Backend::compiled, Backend::eager, Backend::reference};

// What a captureless function computes: plainly and compiled by each backend, as it should be.
template <class F, class... T>
void check_every_way(F f, const std::vector<Tensor>& expected, const T&... argument) {
  const auto check = [&](const std::vector<Tensor>& values) {
    REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      check_close(values[i], expected[i]);
    }
  };
  check(f(argument...));
  for (const Backend backend : backends) {
    CAPTURE(static_cast<int>(backend));
    auto compiled = compile(f, {.backend = backend});
    check(compiled(argument...));
    if (backend == Backend::compiled) CHECK(explain(compiled, argument...).fallback.empty());
  }
  check(compile(f, {.dynamic = true})(argument...));
}

struct Weights {
  Param w;
  std::vector<Tensor> b;
};

}  // namespace

TEST_CASE("a body captures models, numbers and values that were computed before it") {
  const auto f = [](const Weights& m, const Tensor& xs) {
    const Tensor shifted = m.b[0] * 2;
    const double scale = 0.5;
    return std::vector{
        scan([&](const Tensor& s, const Tensor& x) { return tanh(matmul(s, m.w) + x) * scale + shifted; },
             zeros({3, 4}, {DType::f64}), xs)};
  };
  const Weights m{noise({4, 4}, 1), {noise({4}, 2)}};
  const Tensor xs = noise({6, 3, 4}, 3);
  Tensor s = zeros({3, 4}, {DType::f64});
  for (int t = 0; t < 6; ++t) s = tanh(matmul(s, m.w) + xs[t]) * 0.5 + m.b[0] * 2;
  check_every_way(f, {s}, m, xs);
}

TEST_CASE("a loop in a loop captures through the body around it") {
  const auto f = [](const Tensor& w, const Tensor& xs) {
    auto [last, ys] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor inner = scan([&](const Tensor& r, const Tensor& x) { return sin(r * w + x) + s; }, s, row);
          return std::pair{inner * 0.5, inner + w};
        },
        w * 0, xs);
    return std::vector{last, ys};
  };
  const Tensor w = noise({4}, 1), xs = noise({3, 5, 4}, 2);
  Tensor s = w * 0;
  std::vector<Tensor> ys;
  for (int i = 0; i < 3; ++i) {
    Tensor r = s;
    for (int j = 0; j < 5; ++j) r = sin(r * w + xs[i][j]) + s;
    s = r * 0.5;
    ys.push_back(r + w);
  }
  check_every_way(f, {s, stack(ys)}, w, xs);

  const auto slope = [](const Tensor& w, const Tensor& xs) {
    return std::vector{grad(
        [&](const Tensor& v) {
          return sum(square(scan(
              [&](const Tensor& s, const Tensor& row) {
                return scan([&](const Tensor& r, const Tensor& x) { return sin(r * v + x) + s; }, s, row) * 0.5;
              },
              v * 0, xs)));
        },
        w)};
  };
  const Tensor expected = grad(
      [&](const Tensor& v) {
        Tensor s = v * 0;
        for (int i = 0; i < 3; ++i) {
          Tensor r = s;
          for (int j = 0; j < 5; ++j) r = sin(r * v + xs[i][j]) + s;
          s = r * 0.5;
        }
        return sum(square(s));
      },
      w);
  check_every_way(slope, {expected}, w, xs);
}

TEST_CASE("fori counts, over sizes too, and is differentiated") {
  const auto f = [](const Tensor& x) {
    const auto value = [&](const Tensor& v) {
      return sum(fori(
          1, v.size(0), [&](const Index& i, const Tensor& s) { return s * v[i] + v[i - 1]; }, v[0]));
    };
    return std::vector{value(x), grad(value, x)};
  };
  const Tensor x = noise({5}, 1);
  const auto unrolled = [&](const Tensor& v) {
    Tensor s = v[0];
    for (int i = 1; i < 5; ++i) s = s * v[i] + v[i - 1];
    return sum(s);
  };
  check_every_way(f, {unrolled(x), grad(unrolled, x)}, x);
  check_close(fori(
                  3, 2, [](const Index&, const Tensor& s) { return s + 1; }, x),
              x);
}

TEST_CASE("a body that differentiates: descent in a loop, and the derivative of where it ends") {
  const auto f = [](const Tensor& a, const Tensor& x) {
    const auto ends = [&](const Tensor& a) {
      const auto loss = [&](const Tensor& v) { return sum(square(sin(v) * a - x)); };
      return fori(
          0, 3, [&](const Index&, const Tensor& v) { return v - 0.1 * grad(loss, v); }, x);
    };
    return std::vector{ends(a), grad([&](const Tensor& v) { return sum(ends(v)); }, a)};
  };
  const Tensor a = noise({4}, 1), x = noise({4}, 2);
  const auto ends = [&](const Tensor& a) {
    Tensor v = x;
    for (int i = 0; i < 3; ++i) v = v - 0.1 * (2 * (sin(v) * a - x) * a * cos(v));
    return v;
  };
  check_every_way(f, {ends(a), grad([&](const Tensor& v) { return sum(ends(v)); }, a)}, a, x);
}

TEST_CASE("scalar expressions and constants in a body") {
  const auto f = [](const Tensor& xs) {
    constexpr auto mish = elementwise([](auto x) { return x * tanh(log1p(exp(x))); });
    const auto value = [&](const Tensor& v) {
      return scan(
          [&](const Tensor& s, const Tensor& x) {
            return mish(s + x) + constant(std::vector{0.5, 1.0, -2.0}, {3});
          },
          v[0] * 0, v);
    };
    return std::vector{value(xs), grad([&](const Tensor& v) { return sum(value(v)); }, xs)};
  };
  const auto unrolled = [](const Tensor& v) {
    Tensor s = v[0] * 0;
    for (int t = 0; t < 4; ++t) {
      const Tensor z = s + v[t];
      s = z * tanh(log1p(exp(z))) + from_list({0.5, 1.0, -2.0});
    }
    return s;
  };
  const Tensor xs = noise({4, 3}, 1);
  check_every_way(f, {unrolled(xs), grad([&](const Tensor& v) { return sum(unrolled(v)); }, xs)}, xs);
}

TEST_CASE("scalar expressions of several results in a body, whose values the derivative reads") {
  const auto f = [](const Tensor& xs) {
    constexpr auto both = elementwise([](auto s, auto x) { return pack(sin(s) + x, exp(s * 0.5)); });
    const auto value = [&](const Tensor& v) {
      const auto [last, all] = scan(
          [&](const Tensor& s, const Tensor& x) {
            const auto [a, b] = both(s, x);
            return std::pair{a * b * 0.3, b * b};
          },
          v[0] * 0.5, v);
      return last + sum(all, 0);
    };
    return std::vector{value(xs), grad([&](const Tensor& v) { return sum(value(v)); }, xs)};
  };
  const auto unrolled = [](const Tensor& v) {
    Tensor s = v[0] * 0.5, total = v[0] * 0;
    for (int t = 0; t < 4; ++t) {
      const Tensor a = sin(s) + v[t], b = exp(s * 0.5);
      s = a * b * 0.3;
      total = total + b * b;
    }
    return s + total;
  };
  const Tensor xs = noise({4, 3}, 1);
  check_every_way(f, {unrolled(xs), grad([&](const Tensor& v) { return sum(unrolled(v)); }, xs)}, xs);
}

TEST_CASE("what no iteration changes: as a state, as a slice of results, in a condition, in a loop in a loop") {
  const auto f = [](const Tensor& xs, const Tensor& w) {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& x) {
          const Tensor same = exp(w) * 2;
          const Tensor inner = scan([&](const Tensor& u, const Tensor& y) { return u * 0.5 + y * same; }, s, xs);
          return std::pair{same, std::vector{inner + x, same, same * same}};
        },
        w, xs);
    const auto [count, halved] =
        while_loop([&](const std::pair<Tensor, Tensor>& s) { return max(s.second) > max(exp(w)) * 0.01; },
                   [&](const std::pair<Tensor, Tensor>& s) {
                     return std::pair{s.first + 1, s.second * sigmoid(w) * 0.5};
                   },
                   std::pair{zeros({}, {DType::i64}), exp(w)});
    return std::vector{last, all[0], all[1], all[2], cast(count, DType::f64), halved};
  };
  const Tensor xs = noise({3, 4}, 1), w = noise({4}, 2), same = exp(w) * 2;
  std::vector<Tensor> inner;
  for (int i = 0; i < 3; ++i) {
    Tensor u = i == 0 ? w : same;
    for (int t = 0; t < 3; ++t) u = u * 0.5 + xs[t] * same;
    inner.push_back(u + xs[i]);
  }
  Tensor v = exp(w);
  double count = 0;
  for (; max(v).item() > max(exp(w)).item() * 0.01; ++count) v = v * sigmoid(w) * 0.5;
  check_every_way(f,
                  {same, stack(inner), stack({same, same, same}), stack({same * same, same * same, same * same}),
                   full({}, count, {DType::f64}), v},
                  xs, w);
}

TEST_CASE("while_loop whose condition is one of its carries") {
  const auto halved = [](const Tensor& x) {
    auto [value, more] = while_loop([](const std::pair<Tensor, Tensor>& s) { return s.second; },
                                    [](const std::pair<Tensor, Tensor>& s) {
                                      const Tensor half = s.first / 2;
                                      return std::pair{half, sum(half) > 1};
                                    },
                                    std::pair{x, sum(x) > 1});
    return std::vector{value, cast(more, DType::f32)};
  };
  check_every_way(halved, {full({2}, 0.375), zeros({})}, full({2}, 3.));
  check_every_way(halved, {full({2}, 0.25), zeros({})}, full({2}, 0.25));
}

TEST_CASE("while_loop runs until its condition is false, and not beyond its limit") {
  const auto f = [](const Tensor& x, const Tensor& most) {
    auto [value, count] = while_loop([&](const std::pair<Tensor, Tensor>& s) { return sum(s.first) < most; },
                                     [&](const std::pair<Tensor, Tensor>& s) {
                                       return std::pair{s.first * 1.5 + abs(x), s.second + 1};
                                     },
                                     std::pair{x, zeros({}, {DType::i64})}, {.limit = 50});
    return std::vector{value, cast(count, DType::f64)};
  };
  const Tensor x = abs(noise({4}, 1)), most = full({}, 1000, {DType::f64});
  Tensor value = x;
  int count = 0;
  for (; sum(value).item() < 1000; ++count) value = value * 1.5 + abs(x);
  REQUIRE(count > 3);
  check_every_way(f, {value, full({}, count, {DType::f64})}, x, most);
  check_every_way(f, {x, full({}, 0, {DType::f64})}, x, full({}, -1, {DType::f64}));
  for (const Backend backend : backends) {
    auto compiled = compile(f, {.backend = backend});
    CHECK_THROWS_WITH_AS(compiled(x, full({}, 1e300, {DType::f64})),
                         doctest::Contains("[while_loop] the condition still holds after 50 iterations"), Error);
  }
  CHECK_THROWS_WITH_AS(grad(
                           [](const Tensor& v) {
                             return sum(while_loop([](const Tensor& s) { return sum(s) < 3; },
                                                   [](const Tensor& s) { return s + 1; }, v));
                           },
                           x),
                       doctest::Contains("a while_loop has no gradient"), Error);
}

TEST_CASE("cond runs one of two branches, and its derivative is that branch's") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const auto value = [&](const Tensor& v) {
      return sum(cond(
          sum(x) > 0, [&](const Tensor& a) { return tanh(a * v); }, [](const Tensor& a) { return a * 3; }, v * x));
    };
    return std::vector{value(w), grad(value, w)};
  };
  const Tensor x = abs(noise({4}, 1)), w = noise({4}, 2);
  const auto yes = [&](const Tensor& v) { return sum(tanh(v * x * v)); };
  const auto no = [&](const Tensor& v) { return sum(v * -x * 3); };
  check_every_way(f, {yes(w), grad(yes, w)}, x, w);
  check_every_way(f, {no(w), grad(no, w)}, -x, w);
}

TEST_CASE("random numbers that a body draws: of a generator of its own, of the default one, in a loop in a loop") {
  struct Draws {
    static std::vector<Tensor> run(Generator& rng, const Tensor& xs) {
      auto [last, ys] = scan(
          [&](const Tensor& s, const Tensor& x) {
            const Tensor y = fori(
                0, 2, [&](const Index&, const Tensor& r) { return r + uniform({3}, 0, 1, rng); }, s);
            return std::pair{y + x, y};
          },
          zeros({3}), xs);
      return {last, ys, uniform({3}, 0, 1, rng)};
    }
  };
  const Tensor xs = zeros({4, 3});
  Generator plain(7);
  Tensor s = zeros({3});
  std::vector<Tensor> ys;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) s = s + uniform({3}, 0, 1, plain);
    ys.push_back(s);
  }
  const std::vector<Tensor> expected{s, stack(ys), uniform({3}, 0, 1, plain)};
  const auto check = [&](const std::vector<Tensor>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) check_close(values[i], expected[i], 1e-6);
  };
  Generator eager(7), compiled(7);
  check(Draws::run(eager, xs));
  check(compile(Draws::run)(compiled, xs));
  const Tensor next = uniform({3}, 0, 1, plain);
  check_close(uniform({3}, 0, 1, eager), next, 0);
  check_close(uniform({3}, 0, 1, compiled), next, 0);

  const auto from_default = [](const Tensor& x) {
    return scan([](const Tensor& s, const Tensor& x) { return s + x + uniform({3}); }, zeros({3}), x) + uniform({3});
  };
  seed(5);
  Tensor total = zeros({3});
  for (int i = 0; i < 5; ++i) total = total + uniform({3});
  seed(5);
  check_close(from_default(xs), total, 1e-6);
  seed(5);
  check_close(compile(from_default)(xs), total, 1e-6);

  Generator kept(3), same(3);
  CHECK_THROWS_AS(scan(
                      [&](const Tensor& s, const Tensor&) -> Tensor {
                        uniform({2}, 0, 1, kept);
                        throw std::runtime_error("out");
                        return s;
                      },
                      zeros({2}), zeros({2, 2})),
                  std::runtime_error);
  check_close(uniform({2}, 0, 1, kept), uniform({2}, 0, 1, same), 0);
}

TEST_CASE("a check that fails in the middle of a loop stops the call and leaves state as it was") {
  struct Model {
    Tensor table;
    static Tensor run(Model& m, const Tensor& at) {
      const Tensor last = scan([&](const Tensor& t, const Tensor& i) { return t + gather(m.table, i); }, m.table, at);
      m.table = last;
      return sum(last);
    }
  };
  for (const Backend backend : {Backend::compiled, Backend::eager}) {
    Model m{noise({3, 3}, 1)};
    const Tensor before = m.table + 0;
    auto compiled = compile(Model::run, {.backend = backend});
    const Tensor good = from_list<std::int64_t>({0, 1, 2, 2, 1, 0}, {2, 3});
    compiled(m, good).eval();
    const Tensor after = m.table + 0;
    CHECK(max(abs(after - before)).item() > 0.1);
    CHECK_THROWS_WITH_AS(compiled(m, from_list<std::int64_t>({0, 1, 2, 2, 9, 0}, {2, 3})),
                         doctest::Contains("out of range"), Error);
    check_close(m.table, after, 0);
  }
  CHECK_THROWS_WITH_AS(scan([](const Tensor& s, const Tensor& i) { return s + gather(s, i); }, zeros({2}),
                            from_list<std::int64_t>({0, 1, 5, 0}, {2, 2})),
                       doctest::Contains("out of range"), Error);
}

TEST_CASE(
    "a carry that is updated where it is is not copied: neither in an iteration nor, where it was donated, at all") {
  struct Cache {
    Tensor rows;
    static Tensor run(Cache& cache, const Tensor& xs) {
      cache.rows = scan([](const Tensor& s, const Tensor& x) { return s * 0.5 + x; }, cache.rows, xs);
      return sum(xs);
    }
  };
  auto compiled = compile(Cache::run);
  Cache cache{ones({1 << 20})};
  const Tensor xs = ones({8, 1 << 20});
  const Explanation plan = explain(compiled, cache, xs);
  CHECK(plan.schedule.find("carries in place: 0") != std::string::npos);
  CHECK(plan.schedule.find("may take the memory of argument 0") != std::string::npos);
  CHECK(plan.arena_bytes < 1 << 16);
  compiled(cache, xs).eval();
  const float* const place = cache.rows.data<float>().data();
  compiled(cache, xs).eval();
  CHECK(cache.rows.data<float>().data() == place);
  check_close(cache.rows, full({1 << 20}, 2 - std::ldexp(1.0, -16)), 1e-6);
}

TEST_CASE("state that a loop replaces: of any length, updated in place or not, and carries that change places") {
  struct State {
    Tensor h, a, b;
    static Tensor run(State& s, const Tensor& w, const Tensor& xs) {
      auto [h, ab] = scan(
          [&](const std::pair<Tensor, std::pair<Tensor, Tensor>>& c, const Tensor& x) {
            const auto& [a, b] = c.second;
            return std::pair{tanh(matmul(c.first, w) + x), std::pair{b, a + b * 0.5}};
          },
          std::pair{s.h, std::pair{s.a, s.b}}, xs);
      s.h = h, s.a = ab.first, s.b = ab.second;
      return sum(h);
    }
  };
  for (const bool dynamic : {false, true}) {
    auto compiled = compile(State::run, {.dynamic = dynamic});
    State s{noise({3, 3}, 1), noise({40}, 2), noise({40}, 3)};
    State expected{s.h + 0, s.a + 0, s.b + 0};
    const Tensor w = noise({3, 3}, 4);
    for (const std::int64_t length : {1, 2, 3, 0, 5, 4, 2}) {
      CAPTURE(length);
      const Tensor xs = noise({length, 3, 3}, 5);
      compiled(s, w, xs).eval();
      for (std::int64_t t = 0; t < length; ++t) {
        expected.h = tanh(matmul(expected.h, w) + xs[t]);
        const Tensor b = expected.a + expected.b * 0.5;
        expected.a = expected.b, expected.b = b;
      }
      check_close(s.h, expected.h);
      check_close(s.a, expected.a);
      check_close(s.b, expected.b);
    }
  }
  const auto swaps = [](const Tensor& a, const Tensor& b) {
    auto [x, y] = fori(
        0, 3,
        [](const Index&, const std::pair<Tensor, Tensor>& s) {
          return std::pair{s.second, s.first};
        },
        std::pair{a, b});
    auto [z, u] = while_loop([](const std::pair<Tensor, Tensor>& s) { return max(s.first) < 7; },
                             [](const std::pair<Tensor, Tensor>& s) {
                               return std::pair{s.second + 1, s.first};
                             },
                             std::pair{a, b});
    return std::vector{x, y, z, u};
  };
  const Tensor a = noise({70}, 6), b = noise({70}, 7);
  Tensor z = a, u = b;
  while (max(z).item() < 7) std::swap(z, u), z = z + 1;
  check_every_way(swaps, {b, a, z, u}, a, b);
}

TEST_CASE("random numbers in one branch of a choice") {
  const auto f = [](Generator& rng, const Tensor& x) {
    const Tensor y = cond(
        sum(x) > 0, [&] { return x + uniform({2}, 0, 1, rng); }, [&] { return x * 1; });
    return std::vector{y, uniform({2}, 0, 1, rng)};
  };
  for (const double sign : {1.0, -1.0}) {
    const Tensor x = ones({2}) * sign;
    Generator plain(4), eager(4), made(4);
    const Tensor y = sign > 0 ? x + uniform({2}, 0, 1, plain) : x, next = uniform({2}, 0, 1, plain);
    auto compiled = compile(f);
    for (const std::vector<Tensor>& values : {f(eager, x), compiled(made, x)})
      check_close(values[0], y, 1e-6), check_close(values[1], next, 0);
  }
}

TEST_CASE("a derivative runs the forward loop once, and keeps products but no pointwise values") {
  auto step = compile([](const Tensor& w, const Tensor& h, const Tensor& xs) {
    return grad(
        [&](const Tensor& v) {
          return sum(square(
              scan([&](const Tensor& s, const Tensor& x) { return tanh(matmul(s, v) + x) * sigmoid(x); }, h, xs)));
        },
        w);
  });
  const Explanation plan = explain(step, noise({4, 4}, 1), noise({2, 4}, 2), noise({9, 2, 4}, 3));
  std::size_t loops = 0, at = 0;
  while ((at = plan.schedule.find("a body, run 9 times", at)) != std::string::npos) ++loops, ++at;
  INFO(plan.schedule);
  CHECK(loops == 2);
  CHECK(plan.schedule.find("f64 x 72") != std::string::npos);
}

TEST_CASE("what can't be a loop is refused in one sentence, with the user's line") {
  using Pair = std::pair<Tensor, Tensor>;
  using Count = std::pair<Tensor, int>;
  using List = std::vector<Tensor>;
  const Tensor x = ones({3, 2}), h = zeros({2});
  const Pair uneven{x, ones({4})};
  const auto same = [](const Tensor& s, const Tensor&) { return s; };
  const auto of_pair = [](const Tensor& s, const Pair&) { return s; };
  const auto number = [](const Tensor& s, const Tensor&) { return sum(s); };
  const auto wider = [](const Tensor& s, const Tensor&) { return cast(s, DType::f64); };
  const auto reads = [](const Tensor& s, const Tensor& x) { return sum(x).item() > 0 ? s : x; };
  const auto grows = [](List s, const Tensor& x) { return s.push_back(x), s; };
  const auto counts = [](Count s, const Tensor&) { return ++s.second, s; };
  refused([&] { scan(same, h, ones({})); }, "which has no axis to scan");
  refused([&] { scan(of_pair, h, uneven); }, "the first tensor of xs has 3");
  refused([&] { scan(number, h, x); }, "the state is f32[2] where the body begins and f32[] where it ends");
  refused([&] { scan(wider, h, x); }, "f64[2] where it ends: a state keeps its shape, dtype and device");
  refused([&] { scan(grows, List{h}, x); }, "changes lengths");
  refused([&] { scan(counts, Count{h, 1}, x); }, "is a number of the host, which the body changes: make it a tensor");
  CHECK_THROWS_WITH_AS(scan(reads, h, x), doctest::Contains("choose with where(condition, a, b) or cond"), Error);

  Tensor kept = h;
  const auto leaks = [&](const Tensor& s, const Tensor& x) { return kept = kept + x, s + x; };
  scan(leaks, h, x);
  refused([&] { (kept + 1).eval(); }, "of the body of a loop, of vmap or of a checkpointed function is used outside it");

  const auto small = [&] { return h; };
  const auto large = [&] { return x; };
  refused([&] { cond(h, small, small); }, "the predicate must be a bool of one element, it is f32[2]");
  refused([&] { cond(sum(h) > 0, small, large); }, "is f32[2] where it is true and f32[3,2] where it is false");
  const auto alone = [](const Tensor& s) { return s; };
  refused([&] { while_loop(alone, alone, h); }, "the condition must be a bool of one element, it is f32[2]");
  const auto indexed = [](const Index&, const Tensor& s) { return sum(s); };
  refused([&] { fori(0, 2, indexed, h); }, "[fori] the state is f32[2] where the body begins");
}
