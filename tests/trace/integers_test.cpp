// Integers keep their meaning in compiled functions: they wrap, divide downwards, and never trap, whether they come as
// arguments or are constants of the function, which are folded. Answers are worked out by hand.
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {
template <class T>
Tensor list(std::initializer_list<T> numbers) {
  return from_list<T>(numbers);
}
constexpr std::int64_t least = INT64_MIN, greatest = INT64_MAX;
// What a 0-d i64 function gives for constants alone.
template <class F>
std::int64_t integer_of(F f) {
  return compile(f)().template item<std::int64_t>();
}
Tensor integer(std::int64_t value) { return full({}, value, {.dtype = DType::i64}); }
}  // namespace

TEST_CASE("division rounds down and the remainder has the divisor's sign; by zero and by -1 nothing traps") {
  Tensor x = list<std::int64_t>({-7, 7, -7, 7, 6, -6}), y = list<std::int64_t>({2, -2, -2, 2, -3, 3});
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        Tensor a = cast(x, DType::i32), b = cast(y, DType::i32), c = cast(x, DType::f32), d = cast(y, DType::f32);
        return Answers{
            {floor_divide(x, y), "-4 -4 3 3 -2 -2"}, {remainder(x, y), "1 -1 -1 1 0 0"},
            {floor_divide(a, b), "-4 -4 3 3 -2 -2"}, {remainder(a, b), "1 -1 -1 1 0 0"},
            {floor_divide(c, d), "-4 -4 3 3 -2 -2"}, {remainder(c, d), "1 -1 -1 1 0 -0"},  // a zero as from fmod
            {floor_divide(x, 3), "-3 2 -3 2 2 -2"},  {remainder(x, 4), "1 3 1 3 2 2"},
        };
      },
      x, y);
  check_every_way(
      [](const Tensor& x, const Tensor& y, const Tensor& a, const Tensor& b) {
        return Answers{
            {floor_divide(x, y) == x, "1 0 0"}, {remainder(x, y), "0 0 0"}, {floor_divide(x * 0 + 5, x * 0), "0 0 0"},
            {floor_divide(a, b) == a, "1 0 0"}, {remainder(a, b), "0 0 0"}, {floor_divide(a * 0 - 5, a * 0), "0 0 0"},
        };
      },
      list<std::int64_t>({least, 5, -5}), list<std::int64_t>({-1, 0, 0}), list<std::int32_t>({INT32_MIN, 5, -5}),
      list<std::int32_t>({-1, 0, 0}));
  CHECK(integer_of([] { return floor_divide(integer(-7), 2); }) == -4);
  CHECK(integer_of([] { return remainder(integer(-7), 2); }) == 1);
  CHECK(integer_of([] { return floor_divide(integer(least), -1); }) == least);
}

TEST_CASE("arithmetic wraps in every width") {
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {x + y, "-2147483648 2147483647 -2"},
        };
      },
      list<std::int32_t>({INT32_MAX, INT32_MIN, INT32_MAX}), list<std::int32_t>({1, -1, INT32_MAX}));
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {x * x * 2 - abs(x), "0 -2147483648"},
        };
      },
      list<std::int32_t>({0, INT32_MIN}));
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {x + y == cast(y, DType::i64) - 1 + (x + 1), "1 1 1"},
        };
      },
      list<std::int64_t>({greatest, least, 5}), list<std::int64_t>({1, -1, 6}));
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {-x == x, "1"},
        };
      },
      list<std::int64_t>({least}));
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {abs(x) == x, "1"},
        };
      },
      list<std::int32_t>({INT32_MIN}));
  // An increment is no proof that a number is greater than before.
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {x < x + 1, "0 1"},
        };
      },
      list<std::int32_t>({INT32_MAX, 0}));
  CHECK(integer_of([] { return integer(least) - 1; }) == greatest);
  CHECK(integer_of([] { return -integer(least); }) == least);
}

TEST_CASE("u8 wraps among its own kind, and is promoted with others as in PyTorch") {
  Tensor x = list<std::uint8_t>({200, 255, 3}), y = list<std::uint8_t>({100, 1, 5});
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {x + y, "44 0 8"},
            {x - y, "100 254 254"},
            {x * y, "32 255 15"},
        };
      },
      x, y);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {-x, "56 1 253"},
            {x + 100, "44 99 103"},
        };
      },
      x);
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {x + cast(y, DType::i32), "300 256 8"},
        };
      },
      x, y);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x), "458"},
            {~x, "55 0 252"},
        };
      },
      x);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {x / 1.5, "133.333328"},
        };
      },
      list<std::uint8_t>({200}));
}

TEST_CASE("bools add up as truth, and count when they are summed") {
  Tensor x = vector_of({1, 1, 0}) == 1, y = vector_of({1, 0, 0}) == 1;
  for (const Tensor& z : every_way([](const Tensor&x, const Tensor&y) { return x & y; }, x, y))
    CHECK(z.dtype() == DType::boolean);
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {~(x & y), "0 1 1"},
            {x ^ y, "0 1 0"},
        };
      },
      x, y);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {sum(x), "2"},
        };
      },
      x);
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {cast(x, DType::i32) + cast(y, DType::i32), "2 1 0"},
        };
      },
      x, y);
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {concat({reshape(any(x), {1}), reshape(all(x), {1})}), "1 0"},
        };
      },
      x);
}

TEST_CASE("floats beyond an integer's range saturate, NaN becomes 0; integers are cut to what fits") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  Tensor x = list<double>({1e30, -1e30, nan, inf, -inf, -1.9, 2147483648.0, 255.9});
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {cast(x, DType::i32), "2147483647 -2147483648 0 2147483647 -2147483648 -1 2147483647 255"},
            {cast(x, DType::u8), "255 0 0 255 0 0 255 255"},
            {cast(cast(x, DType::f32), DType::i32),
             "2147483647 -2147483648 0 2147483647 -2147483648 -1 2147483647 255"},
        };
      },
      x);
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {cast(x, DType::i64) == y, "1 1"},
        };
      },
      list<double>({9.3e18, -9.3e18}), list<std::int64_t>({greatest, least}));
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {cast(x, DType::u8), "44 255 0"},
        };
      },
      list<std::int64_t>({300, -1, 256}));
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {cast(x, DType::i32), "-2147483648 0 1 0"},
        };
      },
      list<std::int64_t>({2147483648, 4294967296, 4294967297, least}));
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {cast(x, DType::boolean), "1 0 1"},
        };
      },
      list<std::int64_t>({256, 0, least}));
  CHECK(integer_of([] { return cast(full({}, 1e30), DType::i64); }) == greatest);
  CHECK(integer_of([] { return cast(full({}, std::numeric_limits<double>::quiet_NaN()), DType::i64); }) == 0);
}

TEST_CASE("as a bool everything but 0 is true, NaN too") {
  check_every_way(
      [](const Tensor& x) {
        return Answers{{cast(x, DType::boolean), "1 0 0 1 1 1"},
                       {cast(cast(x, DType::f64), DType::boolean), "1 0 0 1 1 1"},
                       {cast(cast(x, DType::bf16), DType::boolean), "1 0 0 1 1 1"}};
      },
      from_list<float>({NAN, 0, -0.f, 0x1p-126f, INFINITY, -0.5f}));
  CHECK(text_of(full({}, NAN, {DType::boolean})) == "1");
}

TEST_CASE("powers of integers, negative exponents too") {
  check_every_way(
      [](const Tensor& x, const Tensor& y) {
        return Answers{
            {pow(x, y), "81 -8 1 0 -1 0"},
        };
      },
      list<std::int32_t>({3, -2, 2, 2, -1, 7}), list<std::int32_t>({4, 3, 0, 40, -3, -1}));
}

TEST_CASE("ties: the first greatest element, along rows and columns") {
  Tensor x = from_list<std::int64_t>({3, 3, 1, 3, -1, -1, -2, -1}, {2, 4});
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {argmax(x, 1), "0 0"},
            {argmax(x, 0), "0 0 0 0"},
            {argmax(-x, 1), "2 2"},
            {argmax(reshape(x, {8}) * 0 + cast(arange(8) > 0, DType::i64)), "1"},
        };
      },
      x);
}

TEST_CASE("an integer that goes through a float saturates, one that goes straight wraps") {
  check_every_way(
      [](const Tensor& x) {
        return Answers{
            {cast(cast(x, DType::f64), DType::u8), "255 0 7"},
            {cast(x, DType::u8), "44 255 7"},
            {cast(cast(x, DType::f64), DType::i64), "300 -1 7"},
        };
      },
      list<std::int32_t>({300, -1, 7}));
}
