// Special functions: values, first and second derivatives against 60 digits (special_golden.inc), eager, compiled,
// dynamic and by the reference; edges as PyTorch gives them; dtypes; what they refuse.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/special.hpp"

using namespace weft;
using namespace weft::test;

namespace {

using Numbers = std::vector<double>;
constexpr double inf = INFINITY, NaN = NAN;

Tensor tensor_of(const Numbers& numbers, DType dtype = DType::f64) {
  return cast(from_span(std::span<const double>(numbers), {static_cast<std::int64_t>(numbers.size())}), dtype);
}
Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::f64);
  Numbers numbers;
  for (double x : wide.data<double>()) numbers.push_back(x);
  return numbers;
}

// Equal, NaN to NaN, and zeros with their sign.
void check_same(const Numbers& got, const Numbers& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    CHECK((std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i]));
    if (expected[i] == 0) CHECK(std::signbit(got[i]) == std::signbit(expected[i]));
  }
}
// What each row of the table says, and how exact the header promises its values to be.
struct Row {
  std::string name;
  bool is_absolute;
  Numbers a, x, value, slope, curvature;
};
const Row rows[] = {
#define WEFT_GOLDEN(f, absolute, a, x, y, slope, curvature) \
  {#f, absolute, Numbers a, Numbers x, Numbers y, Numbers slope, Numbers curvature},
#include "tests/record/special_golden.inc"
#undef WEFT_GOLDEN
};
double bound_of(const std::string& name) {
  const auto starts = [&](const char* with) { return name.rfind(with, 1) == 1; };
  if (starts("igamma")) return 1e-13;
  if (starts("zeta")) return 1e-14;
  if (starts("bessel") || starts("entr") || starts("sinc") || starts("xlog1py")) return 1e-15;
  return 2e-15;
}

std::vector<Tensor> values_of(std::vector<std::pair<Tensor, Tensor>> inputs) {
  std::vector<Tensor> results;
  std::size_t next = 0;
  const auto put = [&](auto f) {
    const auto& [a, x] = inputs[next++];
    results.push_back(f(a, x));
  };
#define WEFT_GOLDEN(f, ...) put([]([[maybe_unused]] const Tensor& a, const Tensor& x) -> Tensor { return f; });
#include "tests/record/special_golden.inc"
#undef WEFT_GOLDEN
  return results;
}
template <class F>
std::vector<Tensor> derivatives_of_row(const Tensor& a, const Tensor& x) {
  const auto slope = [&a](const Tensor& v) { return grad([&](const Tensor& w) { return sum(F()(a, w)); }, v); };
  return {slope(x), grad([&](const Tensor& v) { return sum(slope(v)); }, x)};
}
// A function a row: the kernels of all of them at once take g++ minutes.
template <class Run>
std::vector<Tensor> derivatives_by(const std::vector<std::pair<Tensor, Tensor>>& inputs, Run run) {
  std::vector<Tensor> results;
  std::size_t next = 0;
  const auto put = [&](auto f) {
    const auto& [a, x] = inputs[next++];
    for (const Tensor& made : run(derivatives_of_row<decltype(f)>, a, x)) results.push_back(made);
  };
#define WEFT_GOLDEN(f, ...) put([]([[maybe_unused]] const Tensor& a, const Tensor& x) -> Tensor { return f; });
#include "tests/record/special_golden.inc"
#undef WEFT_GOLDEN
  return results;
}
std::vector<std::pair<Tensor, Tensor>> inputs_in(DType dtype) {
  std::vector<std::pair<Tensor, Tensor>> inputs;
  for (const Row& row : rows) inputs.emplace_back(tensor_of(row.a, dtype), tensor_of(row.x, dtype));
  return inputs;
}

void check_against(const Row& row, const Numbers& got, const Numbers& expected, double bound) {
  CAPTURE(row.name);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(row.a[i]);
    CAPTURE(row.x[i]);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    const double size = std::abs(expected[i]), error = std::abs(got[i] - expected[i]);
    CAPTURE(error / size);
    if (std::isinf(expected[i]))
      CHECK(got[i] == expected[i]);
    else
      CHECK(error <= std::max(bound * (row.is_absolute ? std::max(1.0, size) : size), 0x1p-1070));
  }
}
void check_values(const std::vector<Tensor>& results) {
  std::size_t next = 0;
  for (const Row& row : rows) check_against(row, numbers_of(results[next++]), row.value, bound_of(row.name));
}
void check_derivatives(const std::vector<Tensor>& results) {
  std::size_t next = 0;
  for (const Row& row : rows) {
    check_against(row, numbers_of(results[next++]), row.slope, 1e-12);
    check_against(row, numbers_of(results[next++]), row.curvature, 1e-11);
  }
}

}  // namespace

TEST_CASE("special functions are within their bounds in f64, however they run") {
  const auto inputs = inputs_in(DType::f64);
  check_values(values_of(inputs));
  check_values(compile(values_of)(inputs));
  check_values(compile(values_of, {.dynamic = true})(inputs));
  check_values(compile(values_of, {.backend = Backend::reference})(inputs));
}

TEST_CASE("first and second derivatives of special functions are right, however they run") {
  const auto inputs = inputs_in(DType::f64);
  const auto check = [&](auto run) { check_derivatives(derivatives_by(inputs, run)); };
  check([](auto f, const Tensor& a, const Tensor& x) { return f(a, x); });
  check([](auto f, const Tensor& a, const Tensor& x) { return compile(f)(a, x); });
  check([](auto f, const Tensor& a, const Tensor& x) {
    return compile(f, {.dynamic = true, .backend = Backend::eager})(a, x);
  });
  check([](auto f, const Tensor& a, const Tensor& x) { return compile(f, {.backend = Backend::reference})(a, x); });
}

// What PyTorch 2.15 gives, but where its infinities times 0 are NaN and the function is infinite.
TEST_CASE("special functions at the edges") {
  const auto edges = [](auto f, const Numbers& x, const Numbers& expected) {
    check_same(numbers_of(f(tensor_of(x))), expected);
    check_same(numbers_of(compile(f)(tensor_of(x))), expected);
    check_same(numbers_of(f(tensor_of(x, DType::f32))), expected);
  };
  edges([](const Tensor& x) { return i0(x); }, {0, -0.0, inf, -inf, 1e9, NaN}, {1, 1, inf, inf, inf, NaN});
  edges([](const Tensor& x) { return i0e(x); }, {0, -0.0, inf, -inf, NaN}, {1, 1, 0, 0, NaN});
  edges([](const Tensor& x) { return i1(x); }, {0, inf, -inf, -1e9, NaN}, {0, inf, -inf, -inf, NaN});
  edges([](const Tensor& x) { return i1e(x); }, {0, inf, -inf, NaN}, {0, 0, -0.0, NaN});
  edges([](const Tensor& x) { return bessel_j0(x); }, {0, -0.0, inf, -inf, NaN}, {1, 1, NaN, NaN, NaN});
  edges([](const Tensor& x) { return bessel_j1(x); }, {0, -0.0, inf, -inf, NaN}, {0, -0.0, NaN, NaN, NaN});
  edges([](const Tensor& x) { return bessel_y0(x); }, {0, -0.0, -1, inf, -inf, NaN}, {-inf, -inf, NaN, NaN, NaN, NaN});
  edges([](const Tensor& x) { return bessel_y1(x); }, {0, -0.0, -1, inf, -inf, NaN}, {-inf, -inf, NaN, NaN, NaN, NaN});
  edges([](const Tensor& x) { return ndtr(x); }, {0, -0.0, inf, -inf, -800, 800, NaN}, {0.5, 0.5, 1, 0, 0, 1, NaN});
  edges([](const Tensor& x) { return ndtri(x); }, {0, -0.0, 1, 0.5, -1, 2, inf, -inf, NaN},
        {-inf, -inf, inf, 0, NaN, NaN, NaN, NaN, NaN});
  edges([](const Tensor& x) { return log_ndtr(x); }, {inf, -inf, 800, NaN}, {-0.0, -inf, -0.0, NaN});
  edges([](const Tensor& x) { return erfcx(x); }, {0, inf, -inf, -800, NaN}, {1, 0, inf, inf, NaN});
  edges([](const Tensor& x) { return entr(x); }, {0, -0.0, 1, inf, -inf, -2, NaN}, {0, 0, 0, -inf, -inf, -inf, NaN});
  edges([](const Tensor& x) { return sinc(x); }, {0, -0.0, 1, inf, -inf, NaN}, {1, 1, 0, NaN, NaN, NaN});
  CHECK(numbers_of(sinc(tensor_of({1, -2, 1e15}))) == Numbers{0, 0, 0});
  CHECK(std::abs(numbers_of(i0(tensor_of({712})))[0] / 0x1.1935f1e2c1b45p+1021 - 1) < 1e-14);
  CHECK(numbers_of(i1(tensor_of({-720})))[0] == -inf);
}

TEST_CASE("special functions of two operands at the edges") {
  const auto edges = [](auto f, const Numbers& a, const Numbers& x, const Numbers& expected) {
    check_same(numbers_of(f(tensor_of(a), tensor_of(x))), expected);
    check_same(numbers_of(compile(f)(tensor_of(a), tensor_of(x))), expected);
    check_same(numbers_of(f(tensor_of(a, DType::f32), tensor_of(x, DType::f32))), expected);
  };
  const Numbers a = {0, 0, 1, 1, inf, inf, 2, -1, 2, NaN, 1, 0.5, 0, 1e18, 1e18},
                x = {0, 1, 0, inf, inf, 2, inf, 1, -1, 1, NaN, 0, inf, 1e17, 1e19};
  edges([](const Tensor& a, const Tensor& x) { return igamma(a, x); }, a, x,
        {NaN, 1, 0, 1, NaN, 0, 1, NaN, NaN, NaN, NaN, 0, 1, 0, 1});
  edges([](const Tensor& a, const Tensor& x) { return igammac(a, x); }, a, x,
        {NaN, 0, 1, 0, NaN, 1, 0, NaN, NaN, NaN, NaN, 1, 0, 1, 0});
  edges([](const Tensor& s, const Tensor& q) { return zeta(s, q); }, {1, 0.5, 2, 2, 2.5, 2, NaN, 3, inf, 2},
        {2, 2, 0, -1, -0.5, NaN, 1, -inf, 2, inf}, {inf, NaN, inf, inf, NaN, NaN, NaN, inf, 0, 0});
  edges([](const Tensor& x, const Tensor& y) { return xlog1py(x, y); }, {0, 0, 0, NaN, 1, -1, 0},
        {-1, -2, NaN, 0, -1, -2, inf}, {0, 0, NaN, NaN, -inf, NaN, 0});
  const auto slope = [](const Tensor& v) { return grad([](const Tensor& w) { return sum(xlog1py(0, w)); }, v); };
  check_same(numbers_of(slope(tensor_of({-1, -3, 2, inf}))), {0, 0, 0, 0});
  // The density at 0, by a.
  const auto density = [](const Tensor& a, const Tensor& x) {
    return grad([&](const Tensor& w) { return sum(igamma(a, w)); }, x);
  };
  check_same(numbers_of(density(tensor_of({0.5, 1, 2, 2, 2}), tensor_of({0, 0, 0, inf, -1}))), {inf, 1, 0, 0, NaN});
}

TEST_CASE("first derivatives at the edges") {
  const auto slopes = [](auto f, const Numbers& x, const Numbers& expected) {
    check_same(numbers_of(grad([&](const Tensor& v) { return sum(f(v)); }, tensor_of(x))), expected);
  };
  slopes([](const Tensor& x) { return i0(x); }, {0, inf, -inf, NaN}, {0, inf, -inf, NaN});
  slopes([](const Tensor& x) { return i0e(x); }, {0, inf, NaN}, {-0.0, -0.0, NaN});
  slopes([](const Tensor& x) { return i1(x); }, {0, inf, NaN}, {0.5, inf, NaN});
  slopes([](const Tensor& x) { return i1e(x); }, {0, NaN}, {0.5, NaN});
  slopes([](const Tensor& x) { return bessel_j0(x); }, {0}, {-0.0});
  slopes([](const Tensor& x) { return bessel_j1(x); }, {0, -0.0}, {0.5, 0.5});
  slopes([](const Tensor& x) { return ndtr(x); }, {inf, -inf, NaN}, {0, 0, NaN});
  slopes([](const Tensor& x) { return ndtri(x); }, {0, 1, 2}, {inf, inf, NaN});
  slopes([](const Tensor& x) { return log_ndtr(x); }, {inf, -inf, NaN}, {0, inf, NaN});
  slopes([](const Tensor& x) { return erfcx(x); }, {inf, -inf, NaN}, {-0.0, -inf, NaN});
  slopes([](const Tensor& x) { return entr(x); }, {0, 1, -1, inf, NaN}, {inf, -1, NaN, -inf, NaN});
  slopes([](const Tensor& x) { return sinc(x); }, {0, -0.0, inf}, {0, 0, NaN});
}

TEST_CASE("special functions of integers are f32, 16-bit floats are rounded once") {
  const auto check_one = [](auto f, const Numbers& x) {
    for (const DType half : {DType::f16, DType::bf16, DType::f32}) {
      const Tensor given = tensor_of(x, half), y = f(given);
      CHECK(y.dtype() == half);
      CHECK(numbers_of(y) == numbers_of(cast(f(cast(given, DType::f64)), half)));
    }
    CHECK(f(tensor_of({1, 2}, DType::i64)).dtype() == DType::f32);
    CHECK(numbers_of(f(tensor_of({1, 0}, DType::u8))) == numbers_of(f(tensor_of({1, 0}, DType::f32))));
    CHECK(f(tensor_of({1, 0}, DType::boolean)).dtype() == DType::f32);
  };
  const Numbers x = {-7, -1.5, -0.25, 0.125, 0.5, 0.9, 3, 9, 40};
  check_one([](const Tensor& x) { return i0(x); }, x);
  check_one([](const Tensor& x) { return i0e(x); }, x);
  check_one([](const Tensor& x) { return i1(x); }, x);
  check_one([](const Tensor& x) { return i1e(x); }, x);
  check_one([](const Tensor& x) { return bessel_j0(x); }, x);
  check_one([](const Tensor& x) { return bessel_j1(x); }, x);
  check_one([](const Tensor& x) { return bessel_y0(x); }, {0.125, 0.9, 3, 9, 40});
  check_one([](const Tensor& x) { return bessel_y1(x); }, {0.125, 0.9, 3, 9, 40});
  check_one([](const Tensor& x) { return ndtr(x); }, x);
  check_one([](const Tensor& x) { return log_ndtr(x); }, x);
  check_one([](const Tensor& x) { return ndtri(x); }, {0.125, 0.25, 0.75});
  check_one([](const Tensor& x) { return erfcx(x); }, {-2, -0.5, 0.25, 0.75, 9, 40});
  check_one([](const Tensor& x) { return mvlgamma(x * 3, 2); }, {0.5, 2, 4});
  const auto check_two = [](auto f, const Numbers& a, const Numbers& x) {
    for (const DType half : {DType::f16, DType::bf16, DType::f32}) {
      const Tensor left = tensor_of(a, half), right = tensor_of(x, half), y = f(left, right);
      CHECK(y.dtype() == half);
      CHECK(numbers_of(y) == numbers_of(cast(f(cast(left, DType::f64), cast(right, DType::f64)), half)));
    }
    CHECK(f(tensor_of({2}, DType::i64), tensor_of({2}, DType::i8)).dtype() == DType::f32);
    CHECK(f(tensor_of({2}, DType::f16), tensor_of({2}, DType::f64)).dtype() == DType::f64);
    CHECK(f(tensor_of({2}, DType::f16), tensor_of({2}, DType::i64)).dtype() == DType::f16);
  };
  check_two([](const Tensor& a, const Tensor& x) { return igamma(a, x); }, {0.5, 3, 250}, {0.25, 8, 240});
  check_two([](const Tensor& a, const Tensor& x) { return igammac(a, x); }, {0.5, 3, 250}, {0.25, 8, 240});
  check_two([](const Tensor& a, const Tensor& x) { return zeta(a, x); }, {1.5, 3, 4}, {0.25, 8, -2.5});
  check_two([](const Tensor& a, const Tensor& x) { return ldexp(a, x); }, {0.75, -3, 1}, {3, -2, 0.5});
  CHECK(entr(tensor_of({1}, DType::i32)).dtype() == DType::f32);
  CHECK(sinc(tensor_of({1}, DType::f16)).dtype() == DType::f16);
  CHECK(xlog1py(tensor_of({1}, DType::i32), 2).dtype() == DType::f32);
  CHECK(igamma(tensor_of({1}), ones({3, 1}, {DType::f64})).shape().rank() == 2);
  CHECK(std::abs(numbers_of(igamma(2, tensor_of({3})))[0] - 0.8008517265285442) < 1e-15);
}

// The bodies of loops belong to the process: a compilation that numbered their nodes anew broke later calls.
TEST_CASE("a function with loops gives the same after it was compiled") {
  const auto f = [](const Tensor& a, const Tensor& x) { return igamma(a, x); };
  const Tensor a = tensor_of({3, 3, 0.5}), x = tensor_of({2, 7, 1});
  const Numbers compiled = numbers_of(compile(f)(a, x));
  CHECK(numbers_of(f(a, x)) == compiled);
  CHECK(numbers_of(compile(f)(a, x)) == compiled);
  CHECK(numbers_of(compile(f, {.backend = Backend::eager})(a, x)) == compiled);
  CHECK(std::abs(compiled[0] - 0.3233235838169365) < 1e-15);
}

TEST_CASE("special functions have their derivatives inside of a scan") {
  const auto f = [](const Tensor& x) {
    return grad(
        [](const Tensor& v) {
          return scan([](const Tensor& s, const Tensor& each) { return s + bessel_j0(each * s) + ndtri(each * 0.1); },
                      full({}, 0.5, {DType::f64}), v);
        },
        x);
  };
  const auto plain = [](const Tensor& x) {
    return grad(
        [](const Tensor& v) {
          Tensor s = full({}, 0.5, {DType::f64});
          for (int i = 0; i < 3; ++i) s = s + bessel_j0(v[i] * s) + ndtri(v[i] * 0.1);
          return s;
        },
        x);
  };
  const Tensor x = tensor_of({0.5, 2, 9});
  const Numbers expected = numbers_of(plain(x)), eager = numbers_of(f(x)), compiled = numbers_of(compile(f)(x));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(eager[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    CHECK(compiled[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("what special functions refuse") {
  const Tensor x = tensor_of({1, 2}), whole = tensor_of({1, 2}, DType::i32);
  const auto by_first = [&](auto f) {
    return [f, x] { return grad([&](const Tensor& a) { return sum(f(a, a)); }, x); };
  };
  refused(by_first([](const Tensor& a, const Tensor& x) { return igamma(a, x); }),
          "igamma has no derivative with respect to a: use stop_gradient");
  refused(by_first([](const Tensor& a, const Tensor& x) { return igammac(a, x); }),
          "igammac has no derivative with respect to a: use stop_gradient");
  refused(by_first([](const Tensor& s, const Tensor& q) { return zeta(s + 1, q); }),
          "zeta has no derivative with respect to s: use stop_gradient");
  refused(by_first([](const Tensor& a, const Tensor& b) { return nextafter(a, b); }),
          "nextafter has no derivative: use stop_gradient");
  check_same(numbers_of(grad([](const Tensor& a) { return sum(zeta(stop_gradient(a) + 1, a)); }, x)),
             numbers_of(grad([&](const Tensor& a) { return sum(zeta(x + 1, a)); }, x)));
  refused([&] { return nextafter(whole, whole); }, "[nextafter] takes floats: i32[2] and i32[2]");
  refused([&] { return frexp(whole); }, "[frexp] takes floats: i32[2]");
  refused([&] { return round(whole, -1); }, "[round] integers to -1 decimals: cast them to a float first");
  refused([&] { return mvlgamma(x, 0); }, "[mvlgamma] p must be 1 or more, it is 0");
  refused([&] { return gcd(x, x); }, "[gcd]");
  refused([&] { return lcm(whole < 3, whole < 3); }, "[lcm]");
  refused([&] { return gcd(whole < 3, whole < 3); }, "[gcd]");
  refused([&] { return igamma(x, ones({3})); }, "[igamma] shapes do not broadcast");
}

TEST_CASE("nextafter, ldexp and frexp are exact") {
  const auto next = [](const Tensor& a, const Tensor& b) { return nextafter(a, b); };
  const Numbers from = {0, -0.0, 1, inf, -inf, NaN, 1, 5e-324, 1.7976931348623157e308, 0, 0, -1, -1},
                to = {1, -1, 1, 0, 0, 1, NaN, 0, inf, -0.0, inf, 0, -inf};
  Numbers expected;
  for (std::size_t i = 0; i < from.size(); ++i) expected.push_back(std::nextafter(from[i], to[i]));
  check_same(numbers_of(next(tensor_of(from), tensor_of(to))), expected);
  check_same(numbers_of(compile(next)(tensor_of(from), tensor_of(to))), expected);
  check_same(numbers_of(compile(next, {.backend = Backend::reference})(tensor_of(from), tensor_of(to))), expected);
  check_same(numbers_of(nextafter(tensor_of({1, 0, -2}, DType::f32), 5)),
             {std::nextafter(1.0F, 5.0F), 0x1p-149, std::nextafter(-2.0F, 5.0F)});
  check_same(numbers_of(nextafter(tensor_of({1, 0, 65504}, DType::f16), inf)), {1 + 0x1p-10, 0x1p-24, inf});
  check_same(numbers_of(nextafter(tensor_of({1, 0}, DType::bf16), -inf)), {1 - 0x1p-8, -0x1p-133});

  const auto scaled = [](const Tensor& a, const Tensor& b) { return ldexp(a, b); };
  const Numbers numbers = {1, 1, 1e-300, -0.0, inf, 0, 0x1p-1074, 0x1p1000, 3, 0x1.8p-1000, NaN, 0x1.7p-10},
                powers = {2000, -1074, 2000, 5, -3, 5000, 2097, -2000, -1, -60, 1, -1064};
  Numbers products;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    products.push_back(std::ldexp(numbers[i], static_cast<int>(powers[i])));
  for (const DType exponent : {DType::f64, DType::i32, DType::i64}) {
    check_same(numbers_of(scaled(tensor_of(numbers), tensor_of(powers, exponent))), products);
    check_same(numbers_of(compile(scaled)(tensor_of(numbers), tensor_of(powers, exponent))), products);
  }
  check_same(numbers_of(ldexp(tensor_of({1, 3}, DType::f32), tensor_of({-149, 126}, DType::i32))),
             {0x1p-149, 0x1.8p127});
  check_same(numbers_of(ldexp(tensor_of({3}, DType::i32), 2)), {12});
  const auto [by_x, by_power] =
      grad([](const std::tuple<Tensor, Tensor>& v) { return sum(ldexp(std::get<0>(v), std::get<1>(v))); },
           std::tuple(tensor_of({3}), tensor_of({4})));
  CHECK(by_x.item() == 16);
  CHECK(by_power.item() == doctest::Approx(48 * std::log(2.0)).epsilon(1e-15));

  const auto parts = [](const Tensor& x) {
    auto [mantissa, exponent] = frexp(x);
    return std::vector<Tensor>{mantissa, exponent};
  };
  const Numbers x = {0, -0.0, 1, -3, 5e-324, 0x1.8p-1060, 1.7e308, 0.75, inf, -inf, NaN};
  Numbers mantissas, exponents;
  for (const double each : x) {
    int exponent = 0;
    mantissas.push_back(std::frexp(each, &exponent));
    exponents.push_back(std::isfinite(each) ? exponent : 0);
  }
  for (const std::vector<Tensor>& found : {parts(tensor_of(x)), compile(parts)(tensor_of(x)),
                                           compile(parts, {.backend = Backend::reference})(tensor_of(x))}) {
    CHECK(found[1].dtype() == DType::i32);
    check_same(numbers_of(found[0]), mantissas);
    check_same(numbers_of(found[1]), exponents);
  }
  CHECK(frexp(tensor_of({3}, DType::bf16)).mantissa.dtype() == DType::bf16);
  CHECK(numbers_of(frexp(tensor_of({0x1p-149}, DType::f32)).exponent) == Numbers{-148});
  CHECK(grad([](const Tensor& v) { return sum(frexp(v).mantissa); }, tensor_of({6})).item() == 0.125);
}

TEST_CASE("rounding to decimals, infinities by sign") {
  const auto two = [](const Tensor& x) { return round(x, 2); };
  const Numbers x = {1.005, 2.5, -1.255, inf, -inf, NaN, 1e300, 1e307, 15, -0.004};
  const Numbers expected = {1.0, 2.5, -1.25, inf, -inf, NaN, 1e300, 1e307, 15, -0.0};
  check_same(numbers_of(two(tensor_of(x))), expected);
  check_same(numbers_of(compile(two)(tensor_of(x))), expected);
  check_same(numbers_of(round(tensor_of({15, 25, -14, inf}), -1)), {20, 20, -10, inf});
  check_same(numbers_of(round(tensor_of({1.23, -7}), 400)), {1.23, -7});
  check_same(numbers_of(round(tensor_of({1.23, -7.5}), 0)), {1, -8});
  check_same(numbers_of(round(tensor_of({3, -7}, DType::i8), 1)), {3, -7});
  CHECK(round(tensor_of({1.26}, DType::f16), 1).dtype() == DType::f16);
  check_same(numbers_of(grad([](const Tensor& v) { return sum(round(v, 1)); }, tensor_of({1.26, inf, 1e308}))),
             {0, 0, 0});
  const Tensor mixed = tensor_of({inf, -inf, 1, NaN});
  CHECK(numbers_of(isposinf(mixed)) == Numbers{1, 0, 0, 0});
  CHECK(numbers_of(isneginf(mixed)) == Numbers{0, 1, 0, 0});
  CHECK(isposinf(mixed).dtype() == DType::boolean);
  CHECK(numbers_of(isneginf(tensor_of({1, 0}, DType::i32))) == Numbers{0, 0});
  CHECK(numbers_of(isposinf(tensor_of({1, 0}, DType::boolean))) == Numbers{0, 0});
}

TEST_CASE("divisors and multiples of integers") {
  const auto both = [](const Tensor& a, const Tensor& b) { return std::vector<Tensor>{gcd(a, b), lcm(a, b)}; };
  const auto check = [&](const Numbers& a, const Numbers& b, DType dtype, const Numbers& divisor,
                         const Numbers& multiple) {
    const Tensor x = tensor_of(a, dtype), y = tensor_of(b, dtype);
    for (const std::vector<Tensor>& found : {both(x, y), compile(both)(x, y), compile(both, {.dynamic = true})(x, y),
                                             compile(both, {.backend = Backend::reference})(x, y), both(x, y)}) {
      CHECK(found[0].dtype() == dtype);
      CHECK(numbers_of(found[0]) == divisor);
      CHECK(numbers_of(found[1]) == multiple);
    }
  };
  check({0, 12, -12, 7, 0, -5, 1836311903}, {0, 18, 18, 13, -5, 0, 1134903170}, DType::i64, {0, 6, 6, 1, 5, 5, 1},
        {0, 36, 36, 91, 0, 0, 1836311903.0 * 1134903170});
  check({12, -128, -128, -128}, {18, 6, 0, -1}, DType::i8, {6, 2, -128, 1}, {36, -128, 0, -128});
  check({200, 255}, {75, 0}, DType::u8, {25, 255}, {88, 0});
  CHECK(numbers_of(gcd(tensor_of({8, 12, 9}, DType::i32), 6)) == Numbers{2, 6, 3});
  CHECK(numbers_of(gcd(zeros({0}, {DType::i64}), 6)).empty());
}

TEST_CASE("special functions of operands that broadcast, and of nothing") {
  const auto slopes = [](const Tensor& x, const Tensor& e) {
    return grad([](const std::tuple<Tensor, Tensor>& v) { return sum(ldexp(std::get<0>(v), std::get<1>(v))); },
                std::tuple(x, e));
  };
  const Tensor column = reshape(tensor_of({1, 3}), {2, 1}), row = tensor_of({0, 1, -2});
  for (const auto& [by_x, by_power] :
       {slopes(column, row), compile(slopes)(column, row), compile(slopes, {.dynamic = true})(column, row)}) {
    CHECK(by_x.shape().rank() == 2);
    CHECK(numbers_of(by_x) == Numbers{3.25, 3.25});
    CHECK(numbers_of(by_power)[1] == doctest::Approx(8 * std::log(2.0)).epsilon(1e-15));
  }
  const auto density = [](const Tensor& a, const Tensor& x) {
    return grad([&](const Tensor& v) { return sum(igammac(a, v)); }, x);
  };
  CHECK(numbers_of(density(tensor_of({1, 2}), full({}, 1, {DType::f64})))[0] ==
        doctest::Approx(-2 * std::exp(-1.0)).epsilon(1e-15));
  const Tensor nothing = zeros({0, 3}, {DType::f64});
  for (const Tensor& made : {igamma(nothing, 1), zeta(2, nothing), bessel_y1(nothing), frexp(nothing).mantissa,
                             nextafter(nothing, nothing), mvlgamma(nothing, 2)})
    CHECK(made.shape() == nothing.shape());
}
