// The accuracy of exp, log and the like over lanes, at each ISA that this machine runs: all exponents with random
// mantissas, and the edges. lanes_math_long_test.cpp walks every f32.
#include <doctest/doctest.h>

#include <bit>
#include <cfenv>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/codegen/lanes_functions.hpp"
#include "tests/codegen/lanes_ulp.hpp"
#include "tests/needs.hpp"

using namespace lanes_test;

namespace {

template <class T>
std::vector<T> edges() {
  using limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (double x : {0.0,   1.0,   0.5,  2.0,    3.0,       4.0,    0.1,    0.69314718, 9.01,       9.02,
                   88.72, 88.73, 87.3, 103.97, 104.0,     709.78, 709.79, 745.13,     745.14,     3.92,
                   3.93,  5.92,  1e5,  1e6,    1048576.0, 1e10,   1e22,   0.78539816, 1.57079633, 3.14159265})
    values.push_back(static_cast<T>(x));
  for (T x :
       {limits::min(), limits::denorm_min(), limits::max(), limits::infinity(), limits::quiet_NaN(), limits::epsilon(),
        T(1) + limits::epsilon(), T(1) - limits::epsilon() / 2, limits::min() - limits::denorm_min()})
    values.push_back(x);
  for (std::size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  return values;
}

// Every exponent `each` times, and as many again where most functions have their interesting part.
template <class T, class Bits>
std::vector<T> samples(int each) {
  constexpr int mantissa = std::numeric_limits<T>::digits - 1, exponents = sizeof(T) == 4 ? 255 : 2047;
  std::mt19937_64 random(42);
  std::vector<T> values = edges<T>();
  const auto add = [&](int exponent) {
    const Bits bits = static_cast<Bits>(random());
    const Bits sign_and_mantissa = bits & ~(static_cast<Bits>(exponents) << mantissa);
    values.push_back(std::bit_cast<T>(sign_and_mantissa | static_cast<Bits>(exponent) << mantissa));
  };
  for (int exponent = 0; exponent < exponents; ++exponent)
    for (int i = 0; i < each; ++i) add(exponent);
  for (int i = 0; i < each * 100; ++i) add(exponents / 2 - 12 + i % 20);
  return values;
}

template <class T, class Wide, std::size_t N>
void check(const Measured<Wide> (&table)[N], const Function<T, T>* Functions::*list, const std::vector<T>& inputs) {
  Isa isas[3];
  const int count = supported(isas);
  std::vector<T> outputs(inputs.size());
  std::vector<Wide> exact(inputs.size());
  for (const auto& row : table) {
    for (std::size_t i = 0; i < inputs.size(); ++i) exact[i] = row.exact(inputs[i]);
    for (int isa = 0; isa < count; ++isa) {
      const Function<T, T>* function = isas[isa].functions->*list;
      while (function->name != row.name) ++function;
      function->apply(outputs.data(), inputs.data(), static_cast<long>(inputs.size()));
      double worst = 0;
      T at = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double error = ulp_error(outputs[i], exact[i]);
        if (error > worst) worst = error, at = inputs[i];
      }
      INFO(row.name << " of f" << 8 * sizeof(T) << ", " << isas[isa].name << ", at " << at);
      CHECK(worst <= row.bound[isas[isa].has_fma ? 0 : 1]);
      MESSAGE(row.name << " f" << 8 * sizeof(T) << " " << isas[isa].name << ": " << worst << " ULP");
    }
  }
}

template <class T>
std::uint64_t bits_of(T x) {
  std::uint64_t bits = 0;
  if (x == x) std::memcpy(&bits, &x, sizeof x);
  return bits;
}
// All the functions at AVX2 and AVX-512, bit for bit.
template <class T>
void check_same(const Function<T, T>* first, const Function<T, T>* second, const std::vector<T>& inputs) {
  std::vector<T> a(inputs.size()), b(inputs.size());
  for (; first->name; ++first, ++second) {
    first->apply(a.data(), inputs.data(), static_cast<long>(inputs.size()));
    second->apply(b.data(), inputs.data(), static_cast<long>(inputs.size()));
    std::size_t different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) different += bits_of(a[i]) != bits_of(b[i]);
    INFO(std::string(first->name));
    CHECK(different == 0);
  }
}

std::string all_isas() {
  Isa isas[3];
  return supported(isas) == 3 ? "" : "this CPU has not all ISAs that are built";
}

}  // namespace

TEST_CASE("functions of f32 lanes keep their bounds") {
  check(measured_f32, &Functions::f32_unary, samples<float, std::uint32_t>(400));
}

TEST_CASE("functions of f64 lanes keep their bounds") {
  check(measured_f64, &Functions::f64_unary, samples<double, std::uint64_t>(40));
}

namespace {
template <class T>
T value_of(const Function<T, T>* function, const char* name, T x) {
  while (std::string(function->name) != name) ++function;
  T y;
  function->apply(&y, &x, 1);
  return y;
}
template <class T>
void check_denormals(const Functions& functions, const Function<T, T>* Functions::*list) {
  constexpr T least = std::numeric_limits<T>::denorm_min();
  for (const char* name : {"expm1", "sinh", "log1p", "tanh", "asinh", "atan"})
    for (const T x : {least, -least, 3 * least, -5 * least}) {
      INFO(std::string(name) << " of f" << 8 * sizeof(T) << " at " << x);
      CHECK(value_of(functions.*list, name, x) == x);
    }
}
}  // namespace

// A processor may take a hundred times as long where a result underflows, as softmax's of masked scores would.
TEST_CASE("exp of what is far below is 0 without an underflow") {
  const auto check_quiet = [](const auto* function, auto x) {
    for (const double far : {-105.0 * x, -1e30, -std::numeric_limits<double>::infinity()}) {
      std::feclearexcept(FE_ALL_EXCEPT);
      CHECK(value_of(function, "exp", static_cast<decltype(x)>(far)) == 0);
      CHECK_FALSE(std::fetestexcept(FE_UNDERFLOW));
    }
  };
  Isa isas[3];
  for (int isa = 0, count = supported(isas); isa < count; ++isa) {
    INFO(isas[isa].name);
    check_quiet(isas[isa].functions->f32_unary, 1.0f);
    check_quiet(isas[isa].functions->f64_unary, 8.0);
  }
}

// The bounds in ULP above don't tell the least number from 0.
TEST_CASE("functions that are about x beside 0 are x where it is denormal") {
  Isa isas[3];
  for (int isa = 0, count = supported(isas); isa < count; ++isa) {
    INFO(isas[isa].name);
    check_denormals(*isas[isa].functions, &Functions::f32_unary);
    check_denormals(*isas[isa].functions, &Functions::f64_unary);
  }
}

TEST_CASE("lgamma is infinite at whole numbers below 0, however large") {
  Isa isas[3];
  for (int isa = 0, count = supported(isas); isa < count; ++isa) {
    INFO(isas[isa].name);
    for (const double x : {-1.0, -7.0, -1e17, -1e300, -1e308, -std::numeric_limits<double>::max()})
      CHECK(value_of(isas[isa].functions->f64_unary, "lgamma", x) == std::numeric_limits<double>::infinity());
  }
}

TEST_CASE("ISAs with FMA give the same bits" * weft::test::needs(all_isas)) {
  check_same(avx2::functions.f32_unary, avx512::functions.f32_unary, samples<float, std::uint32_t>(400));
  check_same(avx2::functions.f64_unary, avx512::functions.f64_unary, samples<double, std::uint64_t>(40));
}

TEST_CASE("pow") {
  Isa isas[3];
  const int count = supported(isas);
  std::mt19937_64 random(7);
  std::vector<float> a, b;
  for (float x : edges<float>())
    for (float y : edges<float>()) a.push_back(x), b.push_back(y);
  for (int i = 0; i < 200000; ++i) {
    a.push_back(std::ldexp(1 + static_cast<float>(random() % 8388608) / 8388608, static_cast<int>(random() % 60) - 30));
    b.push_back(static_cast<float>(static_cast<int>(random() % 20001) - 10000) / (i % 2 ? 1000 : 7));
    if (i % 5 == 0) a.back() = -a.back(), b.back() = std::floor(b.back());
  }
  std::vector<double> a64(a.begin(), a.end()), b64(b.begin(), b.end());
  for (double x : edges<double>())
    for (double y : edges<double>()) a64.push_back(x), b64.push_back(y);
  std::vector<float> y(a.size());
  std::vector<double> y64(a64.size());
  for (int isa = 0; isa < count; ++isa) {
    INFO(isas[isa].name);
    const auto apply = [&](auto* function, auto& to, auto& left, auto& right) {
      while (std::string(function->name) != "pow") ++function;
      function->apply(to.data(), left.data(), right.data(), static_cast<long>(to.size()));
    };
    apply(isas[isa].functions->f32_binary, y, a, b);
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double error = ulp_error(y[i], std::pow(static_cast<double>(a[i]), static_cast<double>(b[i])));
      if (error > worst) worst = error;
      if (error > 0.52) FAIL_CHECK("pow(" << a[i] << ", " << b[i] << ") is " << y[i]);
    }
    MESSAGE("pow f32 " << isas[isa].name << ": " << worst << " ULP");
    apply(isas[isa].functions->f64_binary, y64, a64, b64);
    double near = 0, far = 0;
    for (std::size_t i = 0; i < a64.size(); ++i) {
      const double error =
          ulp_error(y64[i], std::pow(static_cast<long double>(a64[i]), static_cast<long double>(b64[i])));
      const double product = std::fabs(b64[i] * std::log(std::fabs(a64[i])));
      const double allowed = std::isfinite(product) ? 1.5 + product / 20 : 0;
      if (product < 20 && error > near) near = error;
      if (error > far) far = error;
      if (error > allowed)
        FAIL_CHECK("pow(" << a64[i] << ", " << b64[i] << ") is " << y64[i] << ": " << error << " ULP");
    }
    const auto check_exact = [&](auto* function, auto numbers) {
      for (int exponent : {1, 2}) {
        auto power = numbers, expected = numbers, exponents = numbers;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          exponents[i] = static_cast<decltype(numbers[i] + 0)>(exponent);
          if (exponent == 2) expected[i] *= numbers[i];
        }
        apply(function, power, numbers, exponents);
        std::size_t different = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i) different += bits_of(power[i]) != bits_of(expected[i]);
        CHECK(different == 0);
      }
    };
    check_exact(isas[isa].functions->f32_binary, a);
    check_exact(isas[isa].functions->f64_binary, a64);
    MESSAGE("pow f64 " << isas[isa].name << ": " << near << " ULP near, " << far << " in all");
  }
}
