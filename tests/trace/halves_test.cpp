// Conversions to f16 and bf16 round once, to nearest, ties to even: plainly and compiled by each backend, against an
// oracle that searches all 16-bit floats and compares exactly.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"

using namespace weft;
using namespace trace_test;

namespace {

using Exact = long double;  // holds every f64 and i64, and the middle of two 16-bit floats
static_assert(std::numeric_limits<Exact>::digits >= 64);

struct Format {
  int exponent_bits, fraction_bits;
};
constexpr Format f16{5, 10}, bf16{8, 7};

// The number of these bits, of what is not NaN. Infinity counts as the next number of that size would.
double value_of(Format format, std::uint16_t bits) {
  const int exponent = bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1), bias = (1 << (format.exponent_bits - 1)) - 1;
  const int leading = exponent ? 1 << format.fraction_bits : 0;
  return std::ldexp(leading + fraction, std::max(exponent, 1) - bias - format.fraction_bits);
}
std::uint16_t nearest(Format format, Exact x) {
  const auto infinity = static_cast<std::uint16_t>(((1 << format.exponent_bits) - 1) << format.fraction_bits);
  const Exact size = std::fabs(x);
  std::uint16_t low = 0, high = infinity;  // value(low) <= size < value(high)
  if (size >= static_cast<Exact>(value_of(format, infinity))) low = infinity;
  while (low + 1 < high) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<Exact>(value_of(format, middle)) <= size ? low : high) = middle;
  }
  std::uint16_t result = low;
  if (low < infinity) {
    const auto above = static_cast<std::uint16_t>(low + 1);
    const Exact half = (static_cast<Exact>(value_of(format, low)) + static_cast<Exact>(value_of(format, above))) / 2;
    result = size > half || (size == half && low % 2) ? above : low;
  }
  return static_cast<std::uint16_t>(result | (std::signbit(x) ? 0x8000 : 0));
}

std::vector<double> doubles() {
  std::vector<double> list;
  auto put = [&](double x) {
    for (double y : {x, std::nextafter(x, 0.0), std::nextafter(x, INFINITY)}) list.insert(list.end(), {y, -y});
  };
  std::mt19937_64 random(1);
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    put(std::ldexp(1.0, exponent));
    list.push_back(std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), exponent));
    list.push_back(-list.back());
  }
  for (Format format : {f16, bf16})
    for (std::uint32_t bits = 0; bits < 0x7fff; bits += bits < 64 || bits > 0x7b00 ? 1 : 37) {
      const double a = value_of(format, static_cast<std::uint16_t>(bits)),
                   b = value_of(format, static_cast<std::uint16_t>(bits + 1));
      put(a);
      put(a + (b - a) / 2);
    }
  for (double x : {1e-60, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min(),
                   std::numeric_limits<double>::max(), static_cast<double>(std::numeric_limits<float>::max()), 65504.0,
                   65519.999, 65520.0, 0x1.ffp127, 0x1.fep127})
    put(x);
  for (double x : {0.0, static_cast<double>(INFINITY)}) list.insert(list.end(), {x, -x});
  return list;
}
std::vector<std::int64_t> integers() {
  std::vector<std::int64_t> list{0, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT32_MAX, INT32_MIN};
  std::mt19937_64 random(2);
  for (int bit = 0; bit < 63; ++bit)
    for (int digits = 1; digits < 14; ++digits) {
      if (digits > bit) continue;
      const std::int64_t top = std::int64_t{1} << bit, half = std::int64_t{1} << (bit - digits);
      const auto rest = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(top));
      for (std::int64_t x : {top, top + half, top + half - 1, top + half + 1, top + (rest & -half), top + rest})
        list.insert(list.end(), {x, -x});
    }
  return list;
}
template <class To, class From>
std::vector<To> converted(const std::vector<From>& from) {
  std::vector<To> list;
  for (From x : from)
    if (static_cast<Exact>(static_cast<To>(x)) == static_cast<Exact>(x) || std::is_floating_point_v<To>)
      list.push_back(static_cast<To>(x));
  return list;
}

template <class T, class Half>
void compare(const std::vector<T>& from, const Tensor& halves, Format format) {
  View<const Half> bits = halves.data<Half>();
  int wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint16_t expected = nearest(format, static_cast<Exact>(from[i]));
    if (bits[i].bits == expected || ++wrong > 5) continue;
    CAPTURE(from[i]);
    CHECK(bits[i].bits == expected);
  }
  CHECK(wrong == 0);
}
template <class T>
void check_conversions(const std::vector<T>& from) {
  const Tensor x = from_span(from, {static_cast<std::int64_t>(from.size())});
  const auto results = every_way(
      [](const Tensor& x) {
        return std::vector<Tensor>{cast(x, DType::f16), cast(x, DType::bf16)};
      },
      x);
  for (std::size_t way = 0; way < results.size(); ++way) {
    CAPTURE(way);  // plainly, compiled, eager, reference
    compare<T, float16>(from, results[way][0], f16);
    compare<T, bfloat16>(from, results[way][1], bf16);
  }
}

// The numbers of the types themselves, without a tensor.
template <class Half>
void check_numbers(Format format) {
  int wrong = 0;
  for (double x : doubles())
    wrong += Half(x).bits != nearest(format, static_cast<Exact>(x)) ||
             Half(static_cast<float>(x)).bits != nearest(format, static_cast<Exact>(static_cast<float>(x)));
  CHECK(wrong == 0);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half = Half::from_bits(static_cast<std::uint16_t>(bits));
    const auto size = static_cast<std::uint16_t>(bits & 0x7fff);
    const int exponent = size >> format.fraction_bits;
    const double expected = exponent + 1 < 1 << format.exponent_bits   ? value_of(format, size)
                            : size == exponent << format.fraction_bits ? static_cast<double>(INFINITY)
                                                                       : static_cast<double>(NAN);
    const auto number = static_cast<float>(half);
    wrong += std::isnan(expected) ? !std::isnan(number) || !std::isnan(static_cast<float>(Half(number)))
                                  : std::fabs(number) != expected || std::signbit(number) != (bits > 0x7fff) ||
                                        Half(number).bits != bits;
  }
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("float16 and bfloat16 are made of a number, and are one") {
  check_numbers<float16>(f16);
  check_numbers<bfloat16>(bf16);
  static_assert(bfloat16(1.0f).bits == 0x3f80 && float16(-2).bits == 0xc000 && float16(1e9).bits == 0x7c00);
  static_assert(!std::is_convertible_v<float, bfloat16> && !std::is_convertible_v<bfloat16, float>);
  static_assert(std::is_trivial_v<float16> && std::is_trivial_v<bfloat16>);
  const Tensor x = full({}, 3.0, {.dtype = DType::bf16}),
               third = full({}, 1 + 0x1p-11 + 0x1p-40, {.dtype = DType::f64});
  CHECK(x.item<bfloat16>().bits == x.data<bfloat16>()[0].bits);
  CHECK(static_cast<float>(x.item<float16>()) == 3);
  CHECK(static_cast<float>(third.item<float16>()) == 1 + 0x1p-10f);  // through a float it would be a tie, and 1
  const Tensor listed = from_list({bfloat16(1.0f), bfloat16(0.5f), bfloat16(-2.0f)});
  CHECK(listed.dtype() == DType::bf16);
  CHECK(cast(listed, DType::f64)[2].item() == -2);
}

TEST_CASE("f64 to 16-bit floats rounds once, from the least denormal to the greatest number") {
  check_conversions(doubles());
}
TEST_CASE("f32 to 16-bit floats") { check_conversions(converted<float>(doubles())); }
TEST_CASE("integers to 16-bit floats") {
  check_conversions(integers());
  check_conversions(converted<std::int32_t>(integers()));
}

TEST_CASE("a tiny number becomes a zero of its sign, and NaN stays NaN") {
  check_every_way(
      [](const Tensor& x) {
        return Answers{{cast(x, DType::f16), "-0 0 nan"}, {cast(x, DType::bf16), "-0 0 nan"}};
      },
      from_list<double>({-1e-60, 1e-60, NAN}));
}

TEST_CASE("a value that is repeated is cast as often as it is needed") {
  for (DType half : {DType::f16, DType::bf16}) {
    CAPTURE(half);
    for (std::int64_t count : {1, 15, 16, 17, 40, 5000})
      for (const Tensor& value : {full({}, 0.125), full({}, 0.125).eval(), (ones({1}) / 8).eval()}) {
        CAPTURE(count);
        const Tensor wide = expand(value, {count}), narrow = expand(cast(value, half), {count});
        CHECK(amin(cast(wide, half)).item() == 0.125);
        CHECK(amax(cast(wide, half)).item() == 0.125);
        for (const Tensor& x : {cast(narrow.eval(), DType::f32), cast(narrow.eval(), DType::f64)}) {
          CHECK(amin(x).item() == 0.125);
          CHECK(amax(x).item() == 0.125);
        }
        CHECK(sum(cast(expand(cast(value * 8, DType::i64), {count}), half) == 1).item<int>() == count);
      }
    const Tensor x = cast(ones({40}), half);
    CHECK(sum(grad([](const Tensor& y) { return mean(cast(y, DType::f32)); }, x)).item() ==
          doctest::Approx(1).epsilon(0.01));
  }
}
