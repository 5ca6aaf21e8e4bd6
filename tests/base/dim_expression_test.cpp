// Size expressions: whatever simplification does, their value stays; and what is proved of them from bounds holds.
#include "base/dim_expression.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/dim_guards.hpp"
#include "tests/sanitized.hpp"

using namespace weft;

namespace {

using Int = std::int64_t;

// Two sizes of at least 2 and loop variables below them, at some points, the ends of every range among them.
struct Point {
  Int sizes[2], axes[4];
};
const Dim rows = dims::symbol(0, 2), columns = dims::symbol(1, 2);
const Dim extents[] = {rows, columns, Dim(6), Dim(4) * rows};

std::vector<Point> make_points(std::mt19937_64& random) {
  std::vector<Point> points;
  for (int i = 0; i < 60; ++i) {
    Point p{{2 + static_cast<Int>(random() % 5), 2 + static_cast<Int>(random() % 5)}, {}};
    const Int ends[] = {p.sizes[0], p.sizes[1], 6, p.sizes[0] * 4};
    for (int a = 0; a < 4; ++a) {
      const std::uint64_t where = random() % 3;
      p.axes[a] = where == 0 ? 0 : where == 1 ? ends[a] - 1 : static_cast<Int>(random()) & (ends[a] - 1);
      p.axes[a] = std::min(p.axes[a], ends[a] - 1);
    }
    points.push_back(p);
  }
  return points;
}

Int value_at(Dim dim, const Point& point) {
  return dims::evaluate(dim, [&](const DimNode* atom) {
    return atom->kind == DimKind::symbol ? point.sizes[atom->number] : point.axes[atom->number];
  });
}

// An expression, and its values as plain arithmetic has them.
struct Known {
  Dim dim;
  std::vector<Int> values;
};

// What indices are made with: sums, and products, quotients and remainders by sizes.
struct Operation {
  Dim (*on_dims)(Dim, Dim);
  Int (*on_values)(Int, Int);
  bool by_size;
};
constexpr Operation operations[] = {
    {[](Dim a, Dim b) { return a + b; }, [](Int a, Int b) { return a + b; }, false},
    {[](Dim a, Dim b) { return a * b; }, [](Int a, Int b) { return a * b; }, true},
    {[](Dim a, Dim b) { return a / b; }, [](Int a, Int b) { return a / b; }, true},
    {[](Dim a, Dim b) { return a % b; }, [](Int a, Int b) { return a % b; }, true},
    {[](Dim a, Dim b) { return a % b; }, [](Int a, Int b) { return a % b; }, true},
};

// Expressions over axes and over axes backwards, all of them nonnegative, as indices are.
std::vector<Known> make_expressions(std::size_t count, std::mt19937_64& random, const std::vector<Point>& points) {
  std::vector<Known> pool, divisors;
  const auto leaf = [&](std::vector<Known>& into, Dim dim) {
    Known known{dim, {}};
    for (const Point& point : points) known.values.push_back(value_at(dim, point));
    into.push_back(std::move(known));
  };
  for (const Dim size : {rows, columns, Dim(2), Dim(3), Dim(4), Dim(12), rows * columns, columns * Dim(4),
                         columns / Dim(2) + Dim(1), rows * columns + rows, rows + columns})
    leaf(divisors, size);
  for (int a = 0; a < 4; ++a) leaf(pool, dims::axis(a, extents[a]));
  for (int a = 0; a < 4; ++a) leaf(pool, extents[a] - Dim(1) - dims::axis(a, extents[a]));
  while (pool.size() < count) {
    // Recent ones more often, so that expressions nest; from time to time all over again.
    const std::size_t recent = pool.size() % 50 < 8 ? 0 : pool.size() - pool.size() % 50;
    const auto any = [&] { return random() % 2 ? recent + random() % (pool.size() - recent) : random() % pool.size(); };
    const Operation& operation = operations[random() % std::size(operations)];
    const Known &x = pool[any()], &y = operation.by_size ? divisors[random() % divisors.size()] : pool[any()];
    Known made{operation.on_dims(x.dim, y.dim), {}};
    for (std::size_t i = 0; i < points.size(); ++i)
      made.values.push_back(operation.on_values(x.values[i], y.values[i]));
    if (*std::max_element(made.values.begin(), made.values.end()) < 1000000) pool.push_back(std::move(made));
  }
  return pool;
}

}  // namespace

TEST_CASE("simplified expressions keep their value, also when they are made again atom by atom") {
  std::mt19937_64 random(3);
  const std::vector<Point> points = make_points(random);
  for (const Known& known : make_expressions(800 / test::less_when_sanitized, random, points)) {
    const Dim again = dims::substitute(known.dim, [](const DimNode* atom) { return Dim::from_node(atom); });
    for (std::size_t i = 0; i < points.size(); ++i) {
      REQUIRE_MESSAGE(value_at(known.dim, points[i]) == known.values[i], dims::to_string(known.dim));
      REQUIRE_MESSAGE(value_at(again, points[i]) == known.values[i], dims::to_string(again));
    }
  }
}

TEST_CASE("what is proved of sizes holds, and enough is proved") {
  std::mt19937_64 random(4);
  const std::vector<Point> points = make_points(random);
  const std::vector<Known> pool = make_expressions(120, random, points);
  constexpr int pairs = 1500 / test::less_when_sanitized;
  int proved = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    const Known &x = pool[random() % pool.size()], &y = pool[random() % pool.size()];
    const bool less = dims::proves_less(x.dim, y.dim), not_less = dims::proves_nonnegative(x.dim - y.dim);
    proved += less || not_less;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (less) REQUIRE_MESSAGE(x.values[i] < y.values[i], dims::to_string(x.dim), " < ", dims::to_string(y.dim));
      if (not_less) REQUIRE_MESSAGE(x.values[i] >= y.values[i], dims::to_string(x.dim), " >= ", dims::to_string(y.dim));
    }
  }
  CHECK(proved * 30 > pairs);
  const Dim i = dims::axis(0, rows);
  CHECK(dims::proves_less(i, rows));
  CHECK_FALSE(dims::proves_less(i + Dim(1), rows));
  CHECK_FALSE(dims::proves_less(rows, rows));
  CHECK(dims::proves_less(i * columns + dims::axis(1, columns), rows * columns));
  CHECK_FALSE(dims::proves_less(Dim(2), rows));  // at least 2, not more
}

TEST_CASE("of differences and of divisors of either sign as well: values stay and what is proved holds") {
  struct Signed {
    Dim dim;
    std::vector<Int> values;
  };
  const auto floor_divide = [](Int a, Int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); };
  std::mt19937_64 random(5);
  const std::vector<Point> points = make_points(random);
  std::vector<Signed> pool, divisors;
  for (const Dim dim : {rows, columns, Dim(-3), Dim(5), rows - Dim(5), Dim(4) - columns}) {
    pool.push_back({dim, {}});
    for (const Point& point : points) pool.back().values.push_back(value_at(dim, point));
  }
  for (const Dim dim : {Dim(2), Dim(-2), Dim(3), Dim(-5), rows, columns * Dim(2), -rows}) {
    divisors.push_back({dim, {}});
    for (const Point& point : points) divisors.back().values.push_back(value_at(dim, point));
  }
  while (pool.size() < 150) {
    const Signed &x = pool[random() % pool.size()], &y = pool[random() % pool.size()];
    const Signed& d = divisors[random() % divisors.size()];
    Signed made;
    const auto operation = random() % 5;
    made.dim = operation == 0   ? x.dim + y.dim
               : operation == 1 ? x.dim - y.dim
               : operation == 2 ? x.dim * d.dim
               : operation == 3 ? x.dim / d.dim
                                : x.dim % d.dim;
    bool small = true;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Int a = x.values[i], b = y.values[i], c = d.values[i], quotient = floor_divide(a, c);
      made.values.push_back(operation == 0   ? a + b
                            : operation == 1 ? a - b
                            : operation == 2 ? a * c
                            : operation == 3 ? quotient
                                             : a - c * quotient);
      REQUIRE_MESSAGE(value_at(made.dim, points[i]) == made.values[i], dims::to_string(made.dim));
      small = small && std::abs(made.values[i]) < 1000;
    }
    if (small) pool.push_back(std::move(made));
  }
  int proved = 0;
  constexpr int pairs = 3000 / test::less_when_sanitized;
  for (int pair = 0; pair < pairs; ++pair) {
    const Signed &x = pool[random() % pool.size()], &y = pool[random() % pool.size()];
    const bool less = dims::proves_less(x.dim, y.dim), not_less = dims::proves_nonnegative(x.dim - y.dim);
    proved += less || not_less;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (less) REQUIRE_MESSAGE(x.values[i] < y.values[i], dims::to_string(x.dim), " < ", dims::to_string(y.dim));
      if (not_less) REQUIRE_MESSAGE(x.values[i] >= y.values[i], dims::to_string(x.dim), " >= ", dims::to_string(y.dim));
    }
  }
  CHECK(proved * 20 > pairs);
  CHECK(dims::proves_less(Dim(-1), (rows - Dim(2)) / Dim(3)));
  CHECK_FALSE(dims::proves_nonnegative((rows - Dim(5)) / Dim(2)));
}

TEST_CASE("an index that was cut in two and joined again is the index") {
  const Dim i = dims::axis(0, rows), j = dims::axis(1, columns), flat = i * columns + j;
  CHECK((flat / columns).same(i));
  CHECK((flat % columns).same(j));
  CHECK(((flat / columns) * columns + flat % columns).same(flat));
  // positions of a strided window, whose count is a sum
  const Dim down = (rows - Dim(1)) / Dim(2) + Dim(1), across = (columns - Dim(1)) / Dim(2) + Dim(1);
  const Dim n = dims::axis(3, down * across);
  CHECK(((n / across) * across + n % across).same(n));
  const Dim y = dims::axis(4, down), x = dims::axis(5, across), z = (i * down + y) * across + x;
  CHECK((z % across).same(x));
  CHECK((z / across).same(i * down + y));
  CHECK((z / across / down).same(i));
  const Dim k = dims::axis(2, Dim(6));
  CHECK(((k / Dim(2)) / Dim(3)).same(Dim(0)));
  CHECK((k % Dim(4) % Dim(2)).same(k % Dim(2)));
  CHECK_FALSE((k % Dim(4)).same(k));
}

TEST_CASE("numbers too large for a size saturate, in expressions as among constants") {
  const Dim large = Dim(std::int64_t{1} << 40), size = dims::symbol(0);
  CHECK((large * large).beyond());
  CHECK((size * large * large).same(size * Dim(INT64_MAX)));
  CHECK((size * large * Dim(-1) * large).same(size * Dim(INT64_MIN)));
  CHECK((size * Dim(INT64_MAX) + size * Dim(INT64_MAX)).same(size * Dim(INT64_MAX)));
  const std::int64_t sizes[] = {std::int64_t{1} << 40};
  CHECK(Dim(dims::evaluate(size * size, sizes)).beyond());
  CHECK(Dim(dims::evaluate(size * large + size, sizes)).beyond());
  CHECK(dims::evaluate(Dim(0) - size * size, sizes) == Dim(INT64_MIN).constant());
  CHECK(dims::to_string(Dim(INT64_MAX)) == "2^62");
  CHECK(dims::to_string(Dim(INT64_MIN)) == "-2^62");
}

TEST_CASE("what takes a size as an integer through `...` gets the size") {
  const char* format = "%ld %ld %ld";  // no literal: the compiler would warn, as it should
  char text[100];
  std::snprintf(text, sizeof text, format, Dim(48), Dim(-7), Dim(std::int64_t{1} << 60));
  CHECK(std::string(text) == "48 -7 1152921504606846976");
}

TEST_CASE("a size that a narrower integer does not hold is an error") {
  const Dim large = std::int64_t{1} << 40;
  CHECK_THROWS_WITH_AS((void)static_cast<int>(large), "[size] an integer of 4 bytes does not hold 1099511627776",
                       Error);
  CHECK_THROWS_AS((void)static_cast<unsigned>(Dim(-1)), Error);
  CHECK_THROWS_AS((void)static_cast<std::uint64_t>(Dim(-1)), Error);
  CHECK(static_cast<int>(Dim(-7)) == -7);
  CHECK(static_cast<std::size_t>(large) == std::size_t{1} << 40);
  CHECK(static_cast<double>(large) == 0x1p40);
}

TEST_CASE("what follows from equalities that were decided is not decided again") {
  DimEnvironment environment;
  DimEnvironment* const saved = std::exchange(DimEnvironment::current(), &environment);
  const Dim batch = environment.new_symbol(3), height = environment.new_symbol(8), width = environment.new_symbol(12);
  CHECK(height / Dim(2) == Dim(2) * (height / Dim(4)));
  CHECK(Dim(2) * (width / Dim(4)) == width / Dim(2));
  CHECK(environment.conditions.size() == 2);
  CHECK(Dim(8) * batch * (height / Dim(2)) * (width / Dim(2)) ==
        Dim(32) * batch * (height / Dim(4)) * (width / Dim(4)));
  CHECK_FALSE(batch * (height / Dim(2)) == Dim(4) * batch * (height / Dim(4)));
  CHECK(environment.conditions.size() == 3);  // what was said not to be equal does not follow
  DimEnvironment::current() = saved;
}

TEST_CASE("equalities whose sides contain each other do not make expressions grow") {
  DimEnvironment environment;
  DimEnvironment* const saved = std::exchange(DimEnvironment::current(), &environment);
  const Dim rows = environment.new_symbol(2), columns = environment.new_symbol(3), other = environment.new_symbol(2);
  CHECK(rows * columns - Dim(2) * rows == rows);
  CHECK(rows * columns - columns == columns);
  CHECK(columns == other + Dim(1));
  CHECK(other == columns - Dim(1));
  CHECK(environment.conditions.size() == 3);  // the last one follows
  CHECK(environment.rewritten(rows * columns).same(rows * other + rows));
  CHECK(rows * other == rows * columns - rows);
  CHECK(environment.conditions.size() == 3);
  CHECK(other == rows);
  CHECK(environment.rewritten(columns * rows).same(rows * rows + rows));  // in the solution before, too
  CHECK(environment.conditions.size() == 4);
  DimEnvironment::current() = saved;
}

namespace {

// A trace's decisions on sizes, without the trace.
struct Deciding {
  DimEnvironment environment;
  DimEnvironment* const saved = std::exchange(DimEnvironment::current(), &environment);
  const bool guarded = std::exchange(dims::are_guarded(), true);
  ~Deciding() {
    DimEnvironment::current() = saved;
    dims::are_guarded() = guarded;
  }
};

}  // namespace

TEST_CASE("a size is rewritten without deciding anything: an index joined again asks for its divisor") {
  Deciding deciding;
  DimEnvironment& environment = deciding.environment;
  const Dim length = environment.new_symbol(7), divisor = environment.new_symbol(3, 0, INT64_MAX);
  const Dim count = environment.new_symbol(2), total = environment.new_symbol(7);
  const Dim rest = length % divisor;
  CHECK(count == length / divisor);
  CHECK(total == rest + count * divisor);
  const std::size_t decided = environment.conditions.size();
  CHECK(environment.rewritten(rest + count * divisor).same(length));
  CHECK(environment.rewritten(total).same(length));
  CHECK(environment.conditions.size() == decided);
}

TEST_CASE("a chain of squares is not multiplied out") {
  Deciding deciding;
  DimEnvironment& environment = deciding.environment;
  std::vector<Dim> sizes;
  for (int i = 0; i < 12; ++i) sizes.push_back(environment.new_symbol(2 + i % 2));
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const Dim next = sizes[i + 1];
    CHECK(sizes[i] == next * next - next + Dim(environment.hint(sizes[i] - next * next + next)));
  }
  CHECK(environment.hint(environment.rewritten(sizes[0])) == 2);
}

TEST_CASE("of random equalities: rewriting ends, keeps the value and decides nothing") {
  int rewritten = 0;
  for (unsigned seed = 0; seed < 100u / test::less_when_sanitized; ++seed) {
    std::mt19937_64 random(seed);
    Deciding deciding;
    DimEnvironment& environment = deciding.environment;
    std::vector<Dim> pool = {Dim(1), Dim(2), Dim(3)};
    for (int i = 0; i < 4; ++i) {
      const Int hint = static_cast<Int>(random() % 6);
      pool.push_back(environment.new_symbol(hint, std::min<Int>(hint, static_cast<Int>(random() % 3))));
    }
    for (int step = 0; step < 120; ++step) {
      const Dim x = pool[random() % pool.size()], y = pool[random() % pool.size()];
      const bool divides = environment.hint(y) > 0;
      const auto operation = random() % 7;
      const Dim made = operation < 2                ? x + y
                       : operation == 2             ? x - y
                       : operation == 3             ? x * y
                       : operation == 4 || !divides ? x - Dim(1)
                       : operation == 5             ? x / y
                                                    : x % y;
      if (std::abs(environment.hint(made)) > 40 || dims::terms(made).size() > 6) continue;
      pool.push_back(made);
      const std::size_t start = random() % pool.size();
      for (std::size_t i = 0; i < pool.size(); ++i) {
        const Dim other = pool[(start + i) % pool.size()];
        if (other.same(made) || environment.hint(other) != environment.hint(made)) continue;
        REQUIRE(made == other);
        break;
      }
    }
    for (const Dim size : pool) {
      const std::size_t decided = environment.conditions.size();
      const Dim again = environment.rewritten(size);
      rewritten += !again.same(size);
      REQUIRE_MESSAGE(environment.hint(again) == environment.hint(size), "seed ", seed, ": ", dims::to_string(size));
      REQUIRE(environment.conditions.size() == decided);
    }
  }
  CHECK(rewritten > 1000 / test::less_when_sanitized);
}
