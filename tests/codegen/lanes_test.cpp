// Arithmetic, comparisons, conversions, memory, reductions and random bits over lanes, at each ISA that this machine
// runs, against scalar C++ written from the definitions.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "interpret/reference_math.hpp"
#include "tests/codegen/lanes_functions.hpp"
#include "tests/codegen/lanes_ulp.hpp"

using namespace lanes_test;
namespace reference = weft::reference;

namespace {

template <class F>
void each_isa(F f) {
  Isa isas[3];
  for (int i = 0, count = supported(isas); i < count; ++i) {
    INFO(isas[i].name);
    f(*isas[i].functions);
  }
}

template <class T>
std::vector<T> special() {
  using limits = std::numeric_limits<T>;
  if constexpr (limits::is_integer) {
    std::vector<T> values = {
        0, 1, 2, 3, 7, 16, 100, limits::max(), limits::min(), limits::max() - 1, limits::min() + 1};
    if constexpr (limits::is_signed)
      for (T x : {-1, -2, -3, -7, -100}) values.push_back(x);
    return values;
  } else {
    const T infinity = limits::infinity();
    return {0.0f,
            -0.0f,
            0.25f,
            0.5f,
            -0.5f,
            1.0f,
            -1.0f,
            1.5f,
            -1.5f,
            2.5f,
            3.0f,
            -3.0f,
            7.0f,
            0.1f,
            1e10f,
            -1e10f,
            3e9f,
            -3e9f,
            1e20f,
            255.0f,
            256.0f,
            300.5f,
            2147483648.0f,
            -2147483648.0f,
            9223372036854775808.0f,
            8388607.5f,
            4503599627370495.5f,
            limits::min(),
            limits::denorm_min(),
            limits::max(),
            -limits::max(),
            infinity,
            -infinity,
            limits::quiet_NaN()};
  }
}
// Every pair of special values, then random ones; the count is no multiple of 16.
template <class T>
void pairs(std::vector<T>& a, std::vector<T>& b) {
  for (T x : special<T>())
    for (T y : special<T>()) a.push_back(x), b.push_back(y);
  std::mt19937_64 random(3);
  for (int i = 0; i < 5003; ++i) {
    if constexpr (std::numeric_limits<T>::is_integer) {
      a.push_back(static_cast<T>(random() >> random() % 64)), b.push_back(static_cast<T>(random() >> random() % 64));
    } else {
      const auto draw = [&] {
        return std::ldexp(static_cast<T>(static_cast<int>(random() % 200001) - 100000),
                          static_cast<int>(random() % 50) - 30);
      };
      a.push_back(draw()), b.push_back(draw());
    }
  }
  while (a.size() % 16 != 5) a.pop_back(), b.pop_back();
}

template <class T>
bool same(T a, T b) {
  if constexpr (!std::numeric_limits<T>::is_integer)
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// `exact` computes in `Wide`; its result is rounded (floats) or wraps (integers).
template <class Wide, class T>
void check_binary(const Function<T, T, T>* list, std::string name, std::function<Wide(Wide, Wide)> exact) {
  while (list->name != name) ++list;
  std::vector<T> a, b;
  pairs(a, b);
  std::vector<T> y(a.size());
  list->apply(y.data(), a.data(), b.data(), static_cast<long>(a.size()));
  int failures = 0;
  for (std::size_t i = 0; i < a.size() && failures < 5; ++i) {
    const T expected = static_cast<T>(exact(a[i], b[i]));
    if (same(y[i], expected)) continue;
    ++failures;
    FAIL_CHECK(name << "(" << +a[i] << ", " << +b[i] << ") is " << +y[i] << ", not " << +expected);
  }
}

template <class T>
void check_integers(const Function<T, T, T>* list) {
  using I = reference::Integer;
  using U = unsigned __int128;
  check_binary<I>(list, "add", [](I a, I b) { return a + b; });
  check_binary<I>(list, "sub", [](I a, I b) { return a - b; });
  check_binary<I>(list, "mul", [](I a, I b) { return static_cast<I>(static_cast<U>(a) * static_cast<U>(b)); });
  check_binary<I>(list, "minimum", [](I a, I b) { return reference::minimum(a, b); });
  check_binary<I>(list, "maximum", [](I a, I b) { return reference::maximum(a, b); });
  check_binary<I>(list, "floor_divide", [](I a, I b) { return reference::floor_divide(a, b); });
  check_binary<I>(list, "remainder", [](I a, I b) { return reference::remainder(a, b); });
  check_binary<I>(list, "pow", [](I a, I b) { return reference::power(a, b); });
  check_binary<I>(list, "and", [](I a, I b) { return a & b; });
  check_binary<I>(list, "or", [](I a, I b) { return a | b; });
  check_binary<I>(list, "xor", [](I a, I b) { return a ^ b; });
  check_binary<I>(list, "not", [](I a, I) { return ~a; });
  check_binary<I>(list, "neg", [](I a, I) { return -a; });
  check_binary<I>(list, "abs", [](I a, I) { return reference::absolute(a); });
  check_binary<I>(list, "sign", [](I a, I) { return static_cast<I>((a > 0) - (a < 0)); });
}

template <class T>
void check_floats(const Function<T, T, T>* list) {
  check_binary<T>(list, "add", [](T a, T b) { return a + b; });
  check_binary<T>(list, "sub", [](T a, T b) { return a - b; });
  check_binary<T>(list, "mul", [](T a, T b) { return a * b; });
  check_binary<T>(list, "div", [](T a, T b) { return a / b; });
  check_binary<double>(list, "minimum", [](double a, double b) { return reference::minimum(a, b); });
  check_binary<double>(list, "maximum", [](double a, double b) { return reference::maximum(a, b); });
  check_binary<double>(list, "remainder", [](double a, double b) { return reference::remainder(a, b); });
  check_binary<double>(list, "floor_divide", [](double a, double b) { return reference::floor_divide(a, b); });
  check_binary<T>(list, "copysign", [](T a, T b) { return std::copysign(a, b); });
}

template <class T>
void check_unary(const Function<T, T>* list, std::string name, T (*exact)(T)) {
  while (list->name != name) ++list;
  std::vector<T> a, b;
  pairs(a, b);
  std::vector<T> y(a.size());
  list->apply(y.data(), a.data(), static_cast<long>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(y[i], exact(a[i]))) FAIL_CHECK(name << "(" << a[i] << ") is " << y[i]);
}
template <class T>
void check_unaries(const Function<T, T>* list) {
  check_unary<T>(list, "sqrt", [](T x) { return std::sqrt(x); });
  check_unary<T>(list, "rsqrt", [](T x) { return 1 / std::sqrt(x); });
  check_unary<T>(list, "reciprocal", [](T x) { return 1 / x; });
  check_unary<T>(list, "floor", [](T x) { return std::floor(x); });
  check_unary<T>(list, "ceil", [](T x) { return std::ceil(x); });
  check_unary<T>(list, "round", [](T x) { return std::nearbyint(x); });
  check_unary<T>(list, "trunc", [](T x) { return std::trunc(x); });
  check_unary<T>(list, "abs", [](T x) { return std::fabs(x); });
  check_unary<T>(list, "sign", [](T x) { return T((x > 0) - (x < 0)); });
  check_unary<T>(list, "relu", [](T x) { return static_cast<T>(reference::maximum(static_cast<double>(x), 0.0)); });
}

template <class T>
void check_compare(void (*compare)(std::uint8_t*, const T*, const T*, long)) {
  std::vector<T> a, b;
  pairs(a, b);
  std::vector<std::uint8_t> y(a.size());
  compare(y.data(), a.data(), b.data(), static_cast<long>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int expected = (a[i] == b[i]) | (a[i] < b[i]) << 1 | (a[i] <= b[i]) << 2 | (a[i] != b[i]) << 3 |
                         (a[i] > b[i]) << 4 | (a[i] >= b[i]) << 5;
    if (y[i] != expected)
      FAIL_CHECK("comparing " << +a[i] << " and " << +b[i] << ": " << +y[i] << ", not " << expected);
  }
}

// What convert promises, from the definition.
template <class To, class From>
To converted(From x) {
  using limits = std::numeric_limits<To>;
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (limits::is_integer && !std::numeric_limits<From>::is_integer) {
    if (x != x) return 0;
    if (x >= static_cast<From>(limits::max())) return limits::max();
    return x <= static_cast<From>(limits::min()) ? limits::min() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}
template <class From, class To>
void check_convert(const Functions& functions, char from, char to) {
  std::vector<From> a, b;
  if constexpr (std::is_same_v<From, bool>)
    for (int i = 0; i < 37; ++i) a.push_back(i % 3 == 1);
  else
    pairs(a, b);
  const std::size_t n = a.size();
  std::unique_ptr<From[]> in(new From[n]);
  std::copy(a.begin(), a.end(), in.get());
  std::unique_ptr<To[]> out(new To[n]);
  functions.convert(from, to, in.get(), out.get(), static_cast<long>(n));
  for (std::size_t i = 0; i < n; ++i)
    if (!same(out[i], converted<To>(in[i])))
      FAIL_CHECK("convert " << from << " to " << to << " of " << +in[i] << " is " << +out[i]);
}
template <class From>
void check_converts(const Functions& functions, char from) {
  check_convert<From, float>(functions, from, 'f');
  check_convert<From, double>(functions, from, 'd');
  check_convert<From, int>(functions, from, 'i');
  check_convert<From, long>(functions, from, 'l');
  check_convert<From, std::uint8_t>(functions, from, 'u');
  check_convert<From, bool>(functions, from, 'b');
}

// The tree that reductions promise: halves onto halves.
template <class T>
T tree(std::vector<T> x, T (*join)(T, T)) {
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) x[i] = join(x[i], x[i + half]);
  return x[0];
}
template <class T>
void check_reduce(void (*reduce)(T*, const T*, long)) {
  using U = std::conditional_t<std::numeric_limits<T>::is_integer, unsigned long, T>;
  using limits = std::numeric_limits<T>;
  const T top = limits::is_integer ? limits::max() : limits::infinity(),
          bottom = limits::is_integer ? limits::min() : -top;
  std::mt19937_64 random(5);
  for (long n = 1; n <= 16; ++n)
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<T> x(16);
      for (T& value : x)
        value = static_cast<T>(static_cast<double>(random() % 2000001) / 1e6 - 1) * (limits::is_integer ? 1e9 : 1);
      const auto padded = [&](T identity) {
        std::vector<T> all(16, identity);
        std::copy(x.begin(), x.begin() + n, all.begin());
        return all;
      };
      T y[4];
      const std::vector<T> exactly_n(x.begin(), x.begin() + n);
      reduce(y, exactly_n.data(), n);
      CHECK(same(y[0], tree<T>(padded(0), [](T a, T b) { return T(U(a) + U(b)); })));
      CHECK(same(y[1], tree<T>(padded(1), [](T a, T b) { return T(U(a) * U(b)); })));
      CHECK(same(y[2], tree<T>(padded(top), [](T a, T b) { return a < b ? a : b; })));
      CHECK(same(y[3], tree<T>(padded(bottom), [](T a, T b) { return a < b ? b : a; })));
    }
}

}  // namespace

TEST_CASE("integer lanes wrap and divide by the divisor's sign") {
  each_isa([](const Functions& f) {
    check_integers(f.i32_binary);
    check_integers(f.i64_binary);
    check_integers(f.u8_binary);
  });
}

TEST_CASE("float lanes round once, and order NaN and zeros") {
  each_isa([](const Functions& f) {
    check_floats(f.f32_binary);
    check_floats(f.f64_binary);
    check_unaries(f.f32_unary);
    check_unaries(f.f64_unary);
  });
}

TEST_CASE("comparisons, with masks of different sizes together") {
  each_isa([](const Functions& f) {
    check_compare(f.compare_f32);
    check_compare(f.compare_f64);
    check_compare(f.compare_i32);
    check_compare(f.compare_i64);
    check_compare(f.compare_u8);
    std::vector<float> a, b;
    std::vector<double> c, d;
    pairs(a, b);
    pairs(d, c);
    std::vector<double> y(a.size());
    f.mixed_masks(y.data(), a.data(), b.data(), c.data(), d.data(), static_cast<long>(y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool first = a[i] < b[i], second = c[i] < d[i], m = first || second, n = first != second;
      CHECK(same(y[i], m && !n ? c[i] : n ? d[i] : double(m == first)));
    }
  });
}

TEST_CASE("conversions between all types") {
  each_isa([](const Functions& f) {
    check_converts<float>(f, 'f');
    check_converts<double>(f, 'd');
    check_converts<int>(f, 'i');
    check_converts<long>(f, 'l');
    check_converts<std::uint8_t>(f, 'u');
    check_converts<bool>(f, 'b');
  });
}

// The value of a 16-bit float from its definition: sign, `exponent` bits, the rest.
double half_value(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  double size = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  if (exponent > 0) size = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  if (exponent == (1 << exponent_bits) - 1) size = mantissa ? NAN : INFINITY;
  return bits & 0x8000 ? -size : size;
}
void check_half(int exponent_bits, void (*widen)(float*, const std::uint16_t*, long),
                void (*narrow)(std::uint16_t*, const float*, long)) {
  std::vector<std::uint16_t> all(65536), back(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(65536);
  widen(wide.data(), all.data(), 65536);
  narrow(back.data(), wide.data(), 65536);
  for (int i = 0; i < 65536; ++i) {
    if (!same(wide[i], static_cast<float>(half_value(all[i], exponent_bits))))
      FAIL_CHECK("widening " << i << " is " << wide[i]);
    if (std::isnan(wide[i]) ? !std::isnan(half_value(back[i], exponent_bits)) : back[i] != all[i])
      FAIL_CHECK("narrowing " << wide[i] << " is " << back[i]);
  }
  // Between neighbours: halves of the way go to the even one, others to the nearer one.
  for (int i = 0; i < 0x7fff; ++i) {
    const float low = wide[i], high = wide[i + 1], middle = low + (high - low) / 2;
    if (!std::isfinite(high)) continue;
    const float three[3] = {std::nextafter(middle, low), middle, std::nextafter(middle, high)};
    std::uint16_t rounded[3];
    narrow(rounded, three, 3);
    if (rounded[0] != i || rounded[1] != i + i % 2 || rounded[2] != i + 1)
      FAIL_CHECK("between " << low << " and " << high);
  }
}

TEST_CASE("16-bit floats widen exactly and round to nearest even") {
  each_isa([](const Functions& f) {
    check_half(8, f.widen_bf16, f.narrow_bf16);
    check_half(5, f.widen_f16, f.narrow_f16);
  });
}

TEST_CASE("reductions are one fixed tree, over any count") {
  each_isa([](const Functions& f) {
    check_reduce(f.reduce_f32);
    check_reduce(f.reduce_f64);
    check_reduce(f.reduce_i64);
    for (long n = 1; n <= 16; ++n)
      for (long set = 0; set < 16; ++set) {
        bool one[16] = {}, rest[16], y[2];
        one[set] = true;
        for (int i = 0; i < 16; ++i) rest[i] = !one[i];
        f.any_all(y, one, n);
        CHECK(y[0] == (set < n));
        CHECK(y[1] == (n == 1 && set == 0));
        f.any_all(y, rest, n);
        CHECK(y[0] == !(n == 1 && set == 0));
        CHECK(y[1] == (set >= n));
      }
  });
}

TEST_CASE("strided and indexed memory touches what it should") {
  each_isa([](const Functions& f) {
    for (long n = 0; n <= 16; ++n) {
      std::vector<double> from(16 * 3), to(16 * 3, -1), expected(16 * 3, -1);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<double>(i);
      for (long i = 0; i < n; ++i) expected[i * 3] = from[i * 3];
      f.strided(to.data(), from.data(), 3, n);
      CHECK(to == expected);
      std::vector<long> at(16);
      for (long i = 0; i < 16; ++i) at[i] = i * 29 % 48;
      std::fill(to.begin(), to.end(), -1), std::fill(expected.begin(), expected.end(), -1);
      for (long i = 0; i < n; ++i) expected[at[i]] = from[at[i]];
      f.indexed(to.data(), from.data(), at.data(), n);
      CHECK(to == expected);
    }
  });
}

TEST_CASE("random bits are Philox4x32-10 of seed, offset and element") {
  each_isa([](const Functions& f) {
    // The known answer of the zero counter and key.
    long y[16];
    f.random_run(y, 0, 0, 0);
    CHECK(y[0] == 0x6627e8d5);
    CHECK(y[1] == 0xe169c58d);
    CHECK(y[2] == 0xbc57ac4c);
    CHECK(y[3] == 0x9b00dbd8);
    // By indices and as a run, aligned or not, and far out.
    for (long first : {0L, 16L, 3L, 5L, 1L << 40, (1L << 34) + 7}) {
      long run[16], at[16], by_index[16];
      for (long i = 0; i < 16; ++i) at[i] = first + i;
      f.random_run(run, 1234567890123, -5, first);
      f.random_at(by_index, 1234567890123, -5, at);
      for (int i = 0; i < 16; ++i) {
        CHECK(run[i] == by_index[i]);
        CHECK((run[i] >> 32) == 0);
      }
    }
    long base[16], other_seed[16], other_offset[16], later[16];
    f.random_run(base, 1, 2, 0);
    f.random_run(other_seed, 1 + (1L << 32), 2, 0);
    f.random_run(other_offset, 1, 2 + (1L << 32), 0);
    f.random_run(later, 1, 2, 1L << 34);
    for (int i = 0; i < 16; ++i) {
      CHECK(base[i] != other_seed[i]);
      CHECK(base[i] != other_offset[i]);
      CHECK(base[i] != later[i]);
    }
  });
}
