// Floats keep their meaning in compiled functions: NaNs, infinities and signed zeros, every rounding of narrow dtypes,
// subnormals, constants under any locale, and the modes of the caller's CPU. Answers are worked out by hand.
#include <cfenv>
#include <clocale>
#include <cmath>
#include <locale>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// Sixteen of them and one more: a vector, and what is left over.
Tensor many(float x) { return full({17}, x).eval(); }

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};
// A global locale that writes 1.234,5, for C++ and, where one is installed, for C.
struct ForeignLocale {
  std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  std::string c_before = std::setlocale(LC_ALL, nullptr);
  ForeignLocale() {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
      if (std::setlocale(LC_ALL, name)) break;
  }
  ForeignLocale(const ForeignLocale&) = delete;
  ~ForeignLocale() {
    std::setlocale(LC_ALL, c_before.c_str());
    std::locale::global(before);
  }
};

// Modes that a program may have set for itself, or a library built with -ffast-math for it.
struct CallerModes {
  std::fenv_t before;
  int rounding;
  explicit CallerModes(int mode) : rounding(mode) {
    std::fegetenv(&before);
    std::fesetround(mode);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  }
  CallerModes(const CallerModes&) = delete;
  ~CallerModes() { std::fesetenv(&before); }
  bool hold() const {
#if defined(__x86_64__)
    if ((_mm_getcsr() & 0x8040) != 0x8040) return false;
#endif
    return std::fegetround() == rounding;
  }
};

}  // namespace

TEST_CASE("NaN passes through relu, clamp, minimum and maximum, from each operand") {
  Tensor x = vector_of({NAN, 1, NAN, -1}), y = vector_of({1, NAN, NAN, 2});
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {relu(x), "nan 1 nan 0"},
            {maximum(x, y), "nan nan nan 2"},
            {minimum(x, y), "nan nan nan -1"},
            {clamp(x, 0.0, 0.5), "nan 0.5 nan 0"},
            {clamp(x, y - 10, y + 10), "nan nan nan -1"},
            {maximum(x, -INFINITY), "nan 1 nan -1"},
            {minimum(NAN, x), "nan nan nan nan"},
            {sign(x) + abs(y), "1 nan nan 1"},  // the sign of NaN is 0, as in PyTorch
        };
      },
      x, y);
}

TEST_CASE("NaN reaches the greatest and the least element, and argmax takes the first") {
  Tensor x = from_list<float>({1, NAN, 3, NAN, 2, 7, 7, 1}, {2, 4});
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {amax(x, 1), "nan 7"}, {amin(x, 1), "nan 1"},     {amax(x, 0), "2 nan 7 nan"},
            {argmax(x, 1), "1 1"}, {argmax(x, 0), "1 0 1 0"},
        };
      },
      x);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {argmax(x * 0 == x * 0, 1), "0 0"},
        };
      },
      abs(from_list<float>({1, 2}, {2, 1})));
}

TEST_CASE("comparisons are 1 and 0 where they are used as numbers, and false with NaN") {
  Tensor x = vector_of({1, NAN, 3, -0.0f}), y = vector_of({2, 2, 3, 0});
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {cast(x < y, DType::f32), "1 0 0 0"},
            {(x <= y) * 10.0f + (x == y) * 10.0f, "10 0 20 20"},
            {sum(x != y), "2"},
        };
      },
      x, y);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x < 5) + cast(isnan(x), DType::i64) * 0, "3 3 3 3"},
            {~cast(isnan(x), DType::i64), "-1 -2 -1 -1"},
        };
      },
      x);
}

TEST_CASE("zeros keep their sign") {
  Tensor x = vector_of({-0.0f, 0.0f, -0.25f, -0.0f}), y = vector_of({0.0f, -0.0f, -0.0f, -0.0f});
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {abs(x), "0 0 0.25 0"},
            {maximum(x, y), "0 0 -0 -0"},
            {minimum(x, y), "-0 -0 -0.25 -0"},
            {round(x), "-0 0 -0 -0"},
            {ceil(x), "-0 0 -0 -0"},
            {-x, "0 -0 0.25 0"},
            {0.0 - x, "0 0 0.25 0"},
            {1 / x, "-inf inf -4 -inf"},
            {x + -0.0, "-0 0 -0.25 -0"},
            {x + 0.0, "0 0 -0.25 0"},
            {x * 0, "-0 0 -0 -0"},
            {where(x == 0, sqrt(x), -sqrt(-x)), "-0 0 -0.5 -0"},
            {0 * (x + INFINITY), "nan nan nan nan"},
        };
      },
      x, y);
}

TEST_CASE("softmax of a row that is all -inf is NaN, in that row alone, forwards and backwards") {
  Tensor x = from_list<float>({-INFINITY, -INFINITY, 0, -INFINITY, INFINITY, 0}, {3, 2});
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {softmax(x), "nan nan 1 0 nan nan"},
            {log_softmax(x), "nan nan 0 -inf nan nan"},
            {logsumexp(x), "-inf 0 inf"},
        };
      },
      x);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {abs(grad([](const Tensor& x) { return sum(square(softmax(x))); }, x)), "nan nan 0 0 nan nan"},
        };
      },
      x);
}

TEST_CASE("the variance of numbers far from zero keeps its digits") {
  // 1000000 -+ 0.001, and in f32 a million and its neighbours: 0.0625 is the distance between them.
  std::vector<double> real;
  std::vector<float> single;
  for (int i = 0; i < 1000; ++i) {
    real.push_back(1e6 + (i % 2 ? 1e-3 : -1e-3));
    single.push_back(1e6f + (i % 2 ? 0.0625f : -0.0625f));
  }
  auto f = [](const Tensor& x) { return var(x, {}, 0); };
  for (const Tensor& v : every_way(f, from_span(std::span(real), {1000})))
    CHECK(v.item() == doctest::Approx(1e-6).epsilon(1e-6));
  for (const Tensor& v : every_way(f, from_span(std::span(single), {1000})))
    CHECK(v.item() == doctest::Approx(0.0625 * 0.0625).epsilon(1e-5));
}

TEST_CASE("roundings to narrow dtypes are made before a comparison, of each operation, and once where one is asked") {
  Tensor third = full({19}, 1.0 / 3, {.dtype = DType::f64}).eval();
  // Halfway between two bf16 but for a bit that a float drops: a tie by way of f32, which goes to the even one.
  Tensor tie = full({19}, 1 + 0x1p-8 + 0x1p-30, {.dtype = DType::f64}).eval();
  Tensor integer = from_list<std::int64_t>({(1 << 30) + (1 << 22) + 1, -(1 << 30) - (1 << 22) - 1, 1 << 30, 7});
  check_every_way(
      [](const Tensor& third, const Tensor& tie, const Tensor& integer) {
        Tensor narrow = cast(third, DType::bf16), big = cast(third * 0 + 256, DType::bf16);
        return Answers{
            {sum(cast(cast(third, DType::f32), DType::f64) == third), "0"},
            {sum(cast(narrow, DType::f32) == cast(third, DType::f32)), "0"},
            {sum(narrow * 3 == cast(cast(narrow, DType::f32) * 3, DType::bf16)), "19"},
            {sum(big + 1 + 1 + 1 + 1 == 256.0), "19"},  // 256 + 1 is 256 in bf16, each time
            {sum(cast(cast(tie, DType::f32), DType::bf16) == 1.0), "19"},
            {sum(cast(tie, DType::bf16) == 1 + 0x1p-7), "19"},
            {sum(cast(-tie, DType::bf16) == -1 - 0x1p-7), "19"},
            {sum(cast(tie + 0x1p-11 - 0x1p-8, DType::f16) == 1 + 0x1p-10), "19"},
            {cast(full({1}, 1 + 0x1p-8 + 0x1p-30, {.dtype = DType::bf16}), DType::f32) - 1, "0.0078125"},
            {cast(cast(full({1}, 1 + 0x1p-8 + 0x1p-30, {.dtype = DType::f64}), DType::bf16), DType::f32) - 1,
             "0.0078125"},
            {cast(integer, DType::bf16) == cast((1 << 30) + (1 << 23), DType::i64), "1 0 0 0"},
            {cast(-cast(integer, DType::i32), DType::bf16) == cast((1 << 30) + (1 << 23), DType::i64), "0 1 0 0"},
            // Beyond what a double holds: 2^60 + 2^52 + 1.
            {cast((integer - 1) * (1 << 30) + 1, DType::bf16) == cast(1 << 30, DType::i64) * (1 << 30) + (1L << 53),
             "1 0 0 0"},
        };
      },
      third, tie, integer);
}

TEST_CASE("sums of 16-bit floats are accumulated in f32") {
  for (DType dtype : {DType::bf16, DType::f16}) {
    Tensor ones_of_it = ones({16384}, {.dtype = dtype}).eval();
    check_every_way(
        [](const Tensor& x) {
          return Answers{
              {sum(x), "16384"},
              {mean(x), "1"},
              {sum(reshape(x, {4096, 4}), 0), "4096 4096 4096 4096"},
          };
        },
        ones_of_it);
  }
}

TEST_CASE("a product and a sum are rounded twice: no contraction into one operation") {
  // The square is 1 + 2^-11 + 2^-24, of which a float drops the last.
  Tensor x = many(1 + 0x1p-12f), product = (x * x).eval();
  REQUIRE(product.data<float>()[0] == 1 + 0x1p-11f);
  Tensor wide = full({17}, 1 + 0x1p-27, {.dtype = DType::f64}).eval(), wide_product = (wide * wide).eval();
  REQUIRE(wide_product.data<double>()[0] == 1 + 0x1p-26);
  check_every_way(
      [](const Tensor& x, const Tensor& y, const Tensor& product, const Tensor& wide, const Tensor& wide_product) {
        return Answers{
            {sum(abs(x * y - product)), "0"},
            {sum(abs(product - x * y)), "0"},
            {sum(abs(-(x * y) + product)), "0"},
            {sum(x * y - product), "0"},
            {sum(abs(wide * wide - wide_product)), "0"},
            {sum(abs(wide_product - wide * wide)), "0"},
        };
      },
      x, x, product, wide, wide_product);
}

TEST_CASE("subnormals are numbers, whether loaded, computed or written as constants") {
  Tensor least = many(0x1p-149f), normal = many(0x1p-126f);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x > 0), "17"},
        };
      },
      least);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x * 0.5 == 0x1p-127), "17"},
            {sum(x / 0x1p23 == 0x1p-149), "17"},
        };
      },
      normal);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x + x == 0x1p-148), "17"},
        };
      },
      least);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x * 0x1p1023 == 0x1p-51), "17"},
        };
      },
      full({17}, 0x1p-1074, {.dtype = DType::f64}).eval());
}

#if defined(__x86_64__)
TEST_CASE("compiling, loading and running leave the modes of the caller's CPU alone") {
  constexpr unsigned modes = 0xffc0;  // all but the sticky exception flags
  const unsigned before = _mm_getcsr() & modes;
  auto f = compile([](const Tensor& x) { return softmax(reshape(x, {50, 100})) * exp(mean(x)); });
  Tensor x = uniform({5000});
  for (int call = 0; call < 3; ++call) {
    f(x).eval();
    CHECK((_mm_getcsr() & modes) == before);
  }
  uniform({300, 300});
  matmul(uniform({300, 300}), uniform({300, 300})).eval();
  CHECK((_mm_getcsr() & modes) == before);
}
#endif

TEST_CASE("the caller's rounding mode and flushing of subnormals decide nothing: neither constants nor results") {
  // Long enough for several threads, of which the mode is one's alone.
  auto f = [](const Tensor& x) {
    return std::pair(x * (full({}, 1) / full({}, 3) + exp(full({}, 0.7))) + 0.1, sum(x / 3));
  };
  Tensor x = uniform({100000}, 0, 0x1p-120).eval();
  const auto expected = every_way(f, x);
  auto same = [](const Tensor& a, const Tensor& b) { return numbers_of(a) == numbers_of(b); };
  auto compiled_before = compile(f);
  compiled_before(x);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    CAPTURE(mode);
    auto compiled_there = compile(f);
    {
      CallerModes modes(mode);
      const auto there = every_way(f, x);
      for (std::size_t way = 0; way < there.size(); ++way) {
        CAPTURE(way);
        CHECK(same(there[way].first, expected[way].first));
        CHECK(same(there[way].second, expected[way].second));
      }
      CHECK(same(compiled_before(x).first, expected[1].first));
      compiled_there(x);
      CHECK(modes.hold());
    }
    CHECK(same(compiled_there(x).first, expected[1].first));
  }
}

TEST_CASE("a global locale with commas changes neither generated source nor results nor messages") {
  auto f = [](const Tensor& x) { return (x + 0.1) * 16777217.0 + x * 1e-30 + sum(x * 123456.75) * 12345; };
  Tensor x = ones({1234}).eval();
  auto look = [&] { return std::pair(explain(compile(f), x), text_of(compile(f)(x))); };
  const auto [before, expected] = look();
  REQUIRE(before.kernels.size() > 0);
  ForeignLocale foreign;
  auto [after, result] = look();
  CHECK(result == expected);
  after.passes = before.passes;  // times
  after.trace_milliseconds = before.trace_milliseconds;
  after.autograd_milliseconds = before.autograd_milliseconds;
  after.cache = before.cache;  // a kernel of the first call is in memory
  CHECK(after.graph == before.graph);
  CHECK(after.guards == before.guards);
  REQUIRE(after.kernels.size() == before.kernels.size());
  for (std::size_t i = 0; i < after.kernels.size(); ++i) CHECK(after.kernels[i].source == before.kernels[i].source);
  CHECK(to_string(after) == to_string(before));
  auto again = compile(f);
  again(x);
  again(ones({1235}));
  CHECK(last_recompile_reason(again) == "argument 0: size of dimension 0 was 1234, is 1235");
  CHECK(contains(message_of([&] { ones({1234}) + ones({1235}); }), "f32[1234] x f32[1235]"));
}

TEST_CASE("16-bit literals are rounded once, and bits are looked at as they are, in every executor") {
  const Tensor zero = zeros({1}, {DType::f16}), numbers = from_list<float>({1, -2.5, 65504, 0});
  check_every_way(
      [](const Tensor& zero, const Tensor& numbers) {
        const Tensor half = cast(numbers, DType::f16), brain = cast(numbers, DType::bf16);
        return Answers{
            {zero + 1.0004882812509095, "1"},  // the sum is f32, as in PyTorch, and a tie of f16
            {maximum(zero, 1.0004882812509095), "1.00097656"},
            {bitcast(half, DType::bf16), "0.0078125 -8 2.6480714e+36 0"},
            {bitcast(half * 2, DType::bf16), "2 -2048 2.65845599e+36 0"},
            {bitcast(bitcast(half, DType::bf16), DType::f16) == half, "1 1 1 1"},
            {bitcast(bitcast(brain, DType::f16), DType::bf16) == brain, "1 1 1 1"},
            {bitcast(numbers > 0, DType::u8), "1 0 1 0"},
            {bitcast(cast(numbers > 0, DType::u8) * 7, DType::boolean), "1 0 1 0"},
        };
      },
      zero, numbers);
}

TEST_CASE("the gradient of rows that are read three hundred times, in 16 bits: added in f32, rounded once") {
  check_every_way(
      [](const Tensor& table, const Tensor& index) {
        Answers answers;
        for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
          auto rows = [&](const Tensor& t) { return sum(gather(t, index)); };
          answers.push_back({grad(rows, cast(table, dtype)), "300 0 1"});
        }
        return answers;
      },
      ones({3}), cast(arange(301) == 300, DType::i64) * 2);
}
