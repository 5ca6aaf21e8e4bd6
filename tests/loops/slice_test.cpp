// Slices at positions that are known when they are read: slice with an Index, update_slice, and a cache that grows in a
// compiled step.
#include <random>

#include "tests/loops/support.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using namespace loops_test;
using weft::test::refused;

TEST_CASE("slice and update_slice at an Index: along any axis, compiled and eager, with their derivatives") {
  const auto f = [](const Tensor& x, const Tensor& u, const Index& at) {
    const auto value = [&](const std::pair<Tensor, Tensor>& in) {
      const Tensor updated = update_slice(in.first * 2, in.second, 1, at);
      return sum(sin(updated) * slice(exp(in.first), 2, at, 1)) + sum(square(slice(updated, 0, at + (-1), 2)));
    };
    auto [dx, du] = grad(value, std::pair{x, u});
    return std::vector{update_slice(x, u, 1, at), slice(x, 1, at, 2), slice(x, 2, at, 2), value({x, u}), dx, du};
  };
  const auto expected = [](const Tensor& x, const Tensor& u, std::int64_t at) {
    const auto put = [&](const Tensor& x, const Tensor& u) {
      return concat(std::vector{slice(x, 1, 0, at), u, slice(x, 1, at + 2)}, 1);
    };
    const auto value = [&](const std::pair<Tensor, Tensor>& in) {
      const Tensor updated = put(in.first * 2, in.second);
      return sum(sin(updated) * slice(exp(in.first), 2, at, at + 1)) + sum(square(slice(updated, 0, at - 1, at + 1)));
    };
    auto [dx, du] = grad(value, std::pair{x, u});
    return std::vector{put(x, u), slice(x, 1, at, at + 2), slice(x, 2, at, at + 2), value({x, u}), dx, du};
  };
  const Tensor x = noise({3, 5, 4}, 1), u = noise({3, 2, 4}, 2);
  for (const Backend backend : {Backend::compiled, Backend::eager, Backend::reference}) {
    auto compiled = compile(f, {.backend = backend});
    for (const std::int64_t at : {1, 2}) {
      const std::vector<Tensor> made = compiled(x, u, at), plain = f(x, u, at), wanted = expected(x, u, at);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        CAPTURE(i);
        check_close(made[i], wanted[i]);
        check_close(plain[i], wanted[i]);
      }
    }
    CHECK(specialization_count(compiled) == 1);
  }
}

TEST_CASE(
    "a cache in a compiled step grows without a copy and without another compilation; a bad position changes nothing") {
  struct Cache {
    Tensor k;
    static Tensor step(Cache& cache, const Tensor& row, const Index& at) {
      cache.k = update_slice(cache.k, row, 1, at);
      return sum(slice(cache.k, 1, at, 1)) + sum(cache.k);
    }
  };
  auto compiled = compile(Cache::step);
  Cache cache{zeros({2, 1 << 16, 4})};
  const Tensor row = ones({2, 1, 4});
  CHECK(compiled(cache, row, Index(0)).item() == 16);
  const float* const place = cache.k.data<float>().data();
  for (int i = 1; i < 5; ++i)
    CHECK(compiled(cache, row * (i + 1), Index(i)).item() == 8 * (i + 1) + 4 * (i + 1) * (i + 2));
  CHECK(cache.k.data<float>().data() == place);
  CHECK(specialization_count(compiled) == 1);
  CHECK(explain(compiled, cache, row, Index(0)).arena_bytes < 1 << 16);
  const double before = sum(cache.k).item();
  CHECK_THROWS_WITH_AS(compiled(cache, row, Index(1 << 16)),
                       doctest::Contains("the position is out of range [0, 65535]"), Error);
  CHECK_THROWS_AS(compiled(cache, row, Index(-1)), Error);
  CHECK(sum(cache.k).item() == before);
}

// Each way in which a step may use its state, of [2, 64, 4] and the same; x [2, 3, 4] at positions `at` of axis 1.
namespace {
struct Caches {
  Tensor k, v;
};
using CacheStep = Tensor (*)(Caches&, const Tensor& x, const Index& at);
constexpr CacheStep cache_steps[] = {
    [](Caches& c, const Tensor& x, const Index& at) {
      c.k = update_slice(c.k, tanh(x) * 2, 1, at);
      return sum(c.k, 1);
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // two of one kernel
      c.k = update_slice(c.k, tanh(x), 1, at), c.v = update_slice(c.v, sin(x) * 2, 1, at);
      return matmul(c.k, transpose(c.v));
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // what is written is read elsewhere too
      const Tensor made = tanh(x) + 1;
      c.k = update_slice(c.k, made, 1, at);
      return made * sum(c.k, 1, true);
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // made of what it overwrites
      c.k = update_slice(c.k, tanh(x) + slice(c.k, 1, at, 3), 1, at);
      return sum(c.k, 1);
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // the old state is read before and after
      const Tensor old = c.k, before = sum(old, 1, true);
      c.k = update_slice(old, tanh(x) + before, 1, at);
      return sum(c.k, 1) + cumsum(old, 1)[0][5];
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // one after the other, and a place that is computed
      const Index first(minimum(at.tensor() * 2, 61));
      c.k = update_slice(update_slice(c.k, tanh(x), 1, at), exp(x), 1, first);
      return sum(c.k, 1);
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // the other state's place is what this one's was
      std::swap(c.k, c.v);
      c.k = update_slice(c.k, tanh(x), 1, at);
      return sum(c.k - c.v, 1);
    },
    [](Caches& c, const Tensor& x, const Index& at) {  // a reduction, a product, and along the last axis
      c.k = update_slice(c.k, sum(unsqueeze(x, -1) * ones({8}), -1), 1, at);
      c.v = update_slice(c.v, matmul(x, sin(ones({4, 4}))), 1, at);
      const Tensor column = update_slice(c.v, amax(c.k * 2, 2, true), 2, Index(minimum(at.tensor(), 3)));
      return sum(c.k, 1) + sum(column, 1);
    },
};
}  // namespace

TEST_CASE("a slice of a state that a step computes is written where it lies, whoever reads what, at every position") {
  const Tensor x = noise({2, 3, 4}, 3);
  for (std::size_t i = 0; i < std::size(cache_steps); ++i) {
    CAPTURE(i);
    auto compiled = compile(cache_steps[i]);
    Caches made{noise({2, 64, 4}, 1), noise({2, 64, 4}, 2)}, expected = made;
    made.k.eval(), made.v.eval();
    for (const std::int64_t at : {0, 61, 17, 18, 2}) {
      const Caches held = at == 17 ? made : Caches{};  // somebody else has the state: nothing may be written there
      const Tensor before = at == 17 ? (made.k * 1).eval() : Tensor();
      check_close(compiled(made, x + at, at), cache_steps[i](expected, x + at, at));
      check_close(made.k, expected.k);
      check_close(made.v, expected.v);
      if (before.defined()) check_close(held.k, before, 0);
    }
    CHECK_THROWS_AS(compiled(made, x, Index(62)), Error);
    check_close(made.k, expected.k);
    check_close(made.v, expected.v);
  }
}

// Six random uses of two states [2, 64, 4]: parts of them, sums over them, and slices written at positions that are
// known, given or computed.
template <unsigned seed>
Tensor random_step(Caches& c, const Tensor& x, const Index& at) {
  std::mt19937 random(seed);
  std::vector<Tensor> values{x, tanh(x)};
  for (int turn = 0; turn < 6; ++turn) {
    Tensor& cache = random() % 2 ? c.k : c.v;
    const Tensor a = values[random() % values.size()], b = values[random() % values.size()];
    const unsigned kind = random() % 3;
    const Index place = kind == 0   ? Index(static_cast<std::int64_t>(random() % 60))
                        : kind == 1 ? at
                                    : Index(minimum(at.tensor() + static_cast<std::int64_t>(random() % 5), 61));
    switch (random() % 6) {
      case 0: values.push_back(slice(cache, 1, place, 3) * a); break;
      case 1: values.push_back(sin(a) + b); break;
      case 2: values.push_back(a * mean(cache, 1, true)); break;
      default:
        cache = update_slice(cache, slice(sin(a) * b, 1, 0, static_cast<std::int64_t>(1 + random() % 3)), 1, place);
    }
  }
  return concat(values, 1);
}

TEST_CASE("random steps over states give what they give eagerly") {
  constexpr CacheStep steps[] = {random_step<1>, random_step<2>, random_step<3>, random_step<4>,
                                 random_step<5>, random_step<6>, random_step<7>, random_step<8>};
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    CAPTURE(i);
    auto compiled = compile(steps[i]);
    Caches made{noise({2, 64, 4}, 1), noise({2, 64, 4}, 2)}, expected = made;
    const Tensor x = noise({2, 3, 4}, 3);
    for (const std::int64_t at : {0, 61, 5}) {
      check_close(compiled(made, x, at), steps[i](expected, x, at));
      check_close(made.k, expected.k);
      check_close(made.v, expected.v);
    }
  }
}

TEST_CASE("slices of lengths that change are written where they lie") {
  const auto step = [](Caches& c, const Tensor& x, const Index& at) {
    c.k = update_slice(c.k, tanh(x) * 2, 1, at);
    return sum(c.k);
  };
  auto compiled = compile(step);
  Caches made{noise({2, 64, 4}, 1)}, expected = made;
  made.k.eval();
  for (const std::int64_t length : {3, 5, 7, 64, 1, 9}) {
    const Tensor x = noise({2, length, 4}, 3);
    for (const std::int64_t at : {std::int64_t{0}, (64 - length) / 2, 64 - length}) {
      check_close(compiled(made, x, at), step(expected, x, at));
      check_close(made.k, expected.k);
    }
  }
}

TEST_CASE("an update of a loop's state is made where that lies") {
  struct Fill {
    static Tensor run(const Tensor& rows) {
      return scan(
                 [](const std::pair<Tensor, Tensor>& s, const Tensor& row) {
                   return std::pair{update_slice(s.first, unsqueeze(row, 0), 0, s.second), s.second + 1};
                 },
                 std::pair{zeros({1000, 256}), zeros({}, {DType::i64})}, rows)
          .first;
    }
  };
  const Tensor rows = cast(noise({100, 256}, 1), DType::f32);
  auto compiled = compile(Fill::run);
  const Tensor expected = concat(std::vector{rows, zeros({900, 256})}, 0);
  check_close(compiled(rows), expected, 0);
  check_close(Fill::run(rows), expected, 0);
  const Explanation plan = explain(compiled, rows);
  INFO(plan.schedule);
  CHECK(plan.schedule.find("carries in place: 0") != std::string::npos);
}

TEST_CASE("updates and slices that do not fit are refused") {
  const Tensor x = ones({3, 4});
  refused([&] { update_slice(x, ones({3, 5}), 1, 0); }, "an update f32[3,5] does not fit into f32[3,4] along axis 1");
  refused([&] { update_slice(x, ones({2, 1}), 1, 0); }, "does not fit into");
  refused([&] { update_slice(x, ones({3, 2}), 1, 3); }, "the position is out of range [0, 2]");
  refused([&] { update_slice(x, ones({3, 2}), 1, ones({2})); }, "the position must be one integer");
  refused([&] { slice(x, 1, Index(0), 5); }, "a part of 5 along axis 1 of f32[3,4]");
  refused([&] { slice(x, 1, Index(-1), 2); }, "the position is out of range [0, 2]");
}
