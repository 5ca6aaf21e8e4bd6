// Elementwise composites: values and gradients as PyTorch gives them (functions_golden.inc), eager and compiled; what
// is special of each; what they refuse.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/special.hpp"

using namespace weft;
using namespace weft::test;

namespace {

using Numbers = std::vector<double>;

Tensor tensor_of(const Numbers& numbers, DType dtype) {
  return cast(from_span(std::span<const double>(numbers), {static_cast<std::int64_t>(numbers.size())}), dtype);
}
Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::f64);
  Numbers numbers;
  for (double x : wide.data<double>()) numbers.push_back(x);
  return numbers;
}

// Relative to 1 or to the number, whichever is more. `open`: a number may be in the place of a NaN.
void check_near(const Numbers& got, const Numbers& expected, double bound, bool open) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    if (std::isnan(expected[i]))
      CHECK((open || std::isnan(got[i])));
    else if (std::isinf(expected[i]))
      CHECK(got[i] == expected[i]);
    else
      CHECK(std::abs(got[i] - expected[i]) <= bound * std::max(1.0, std::abs(expected[i])));
  }
}

using Two = std::tuple<Tensor, Tensor>;

// Of all rows: values and gradients, one after the other.
template <class F>
void put_one(F, const Tensor& x, std::vector<Tensor>& results) {
  results.push_back(F()(x));
  results.push_back(grad([](const Tensor& v) { return sum(F()(v)); }, x));
}
template <class F>
void put_two(F, const Tensor& a, const Tensor& b, std::vector<Tensor>& results) {
  results.push_back(F()(a, b));
  auto [da, db] = grad([](const Two& v) { return sum(F()(get<0>(v), get<1>(v))); }, Two(a, b));
  results.push_back(da);
  results.push_back(db);
}

std::vector<Tensor> all_of_one(const Tensor& x) {
  std::vector<Tensor> results;
#define WEFT_GOLDEN_ONE(f, ...) put_one([](const Tensor& x) -> Tensor { return f; }, x, results);
#define WEFT_GOLDEN_TWO(...)
#include "tests/record/functions_golden.inc"
#undef WEFT_GOLDEN_ONE
#undef WEFT_GOLDEN_TWO
  return results;
}
std::vector<Tensor> all_of_two(const Tensor& a, const Tensor& b) {
  std::vector<Tensor> results;
#define WEFT_GOLDEN_ONE(...)
#define WEFT_GOLDEN_TWO(f, ...) put_two([](const Tensor& a, const Tensor& b) -> Tensor { return f; }, a, b, results);
#include "tests/record/functions_golden.inc"
#undef WEFT_GOLDEN_ONE
#undef WEFT_GOLDEN_TWO
  return results;
}

struct Row {
  std::string name;
  Numbers expected;
  bool is_gradient;
};
const Row rows_of_one[] = {
#define WEFT_GOLDEN_ONE(f, y, dx) {#f, Numbers y, false}, {#f, Numbers dx, true},
#define WEFT_GOLDEN_TWO(...)
#include "tests/record/functions_golden.inc"
#undef WEFT_GOLDEN_ONE
#undef WEFT_GOLDEN_TWO
};
const Row rows_of_two[] = {
#define WEFT_GOLDEN_ONE(...)
#define WEFT_GOLDEN_TWO(f, y, da, db) {#f, Numbers y, false}, {#f, Numbers da, true}, {#f, Numbers db, true},
#include "tests/record/functions_golden.inc"
#undef WEFT_GOLDEN_ONE
#undef WEFT_GOLDEN_TWO
};

template <std::size_t N>
void check_rows(const Row (&rows)[N], const std::vector<Tensor>& results, double bound) {
  REQUIRE(results.size() == N);
  for (std::size_t i = 0; i < N; ++i) {
    CAPTURE(rows[i].name);
    CAPTURE(rows[i].is_gradient);
    // PyTorch divides |a| by a, which gives NaN at infinities; the derivative is that of a sign here.
    const bool open = rows[i].is_gradient && rows[i].name == "(copysign(a, b))";
    check_near(numbers_of(results[i]), rows[i].expected, bound, open);
  }
}

const Numbers points WEFT_GOLDEN_POINTS, left WEFT_GOLDEN_LEFT, right WEFT_GOLDEN_RIGHT;

}  // namespace

TEST_CASE("values and gradients are PyTorch's in f64, eager and compiled") {
  const Tensor x = tensor_of(points, DType::f64), a = tensor_of(left, DType::f64), b = tensor_of(right, DType::f64);
  check_rows(rows_of_one, all_of_one(x), 1e-14);
  check_rows(rows_of_one, compile(all_of_one)(x), 1e-14);
  check_rows(rows_of_two, all_of_two(a, b), 1e-14);
  check_rows(rows_of_two, compile(all_of_two)(a, b), 1e-14);
}

// The first derivatives that PyTorch gives in f64.
TEST_CASE("pow and ldexp have PyTorch's derivatives at zeros, negative bases and infinities, eager and compiled") {
  const auto check = [](auto f, const Numbers& left, const Numbers& right, const Numbers& by_a, const Numbers& by_b) {
    const auto slopes = [](const Tensor& a, const Tensor& b) {
      return grad([](const Two& v) { return sum(decltype(f)()(get<0>(v), get<1>(v))); }, Two(a, b));
    };
    const Tensor a = tensor_of(left, DType::f64), b = tensor_of(right, DType::f64);
    for (const auto& [da, db] : {slopes(a, b), compile(slopes)(a, b)}) {
      check_near(numbers_of(da), by_a, 1e-14, false);
      check_near(numbers_of(db), by_b, 1e-14, false);
    }
  };
  check(
      [](const Tensor& a, const Tensor& b) { return pow(a, b); },
      {0.0,  0.0,  0.0,  0.0,  0.0,  0.0,  0.0,  -0.0,     -0.0,     -0.0,     -0.0,     -0.0,     -0.0,     -0.0,
       -2.0, -2.0, -2.0, -2.0, -2.0, -2.0, -2.0, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY},
      {0.0, 2.0, -2.0, 0.5, 3.0, INFINITY, -INFINITY, 0.0, 2.0, -2.0, 0.5, 3.0, INFINITY, -INFINITY,
       0.0, 2.0, -2.0, 0.5, 3.0, INFINITY, -INFINITY, 0.0, 2.0, -2.0, 0.5, 3.0, INFINITY, -INFINITY},
      {0.0,      0.0, -INFINITY, INFINITY,  0.0, NAN,      -INFINITY, 0.0, -0.0, INFINITY,
       INFINITY, 0.0, NAN,       -INFINITY, 0.0, -4.0,     0.25,      NAN, 12.0, INFINITY,
       NAN,      0.0, INFINITY,  -0.0,      0.0, INFINITY, INFINITY,  NAN},
      {0.0, 0.0, -INFINITY, 0.0, 0.0, 0.0, -INFINITY, 0.0,      0.0, -INFINITY, 0.0,      0.0,      0.0, -INFINITY, NAN,
       NAN, NAN, NAN,       NAN, NAN, NAN, INFINITY,  INFINITY, NAN, INFINITY,  INFINITY, INFINITY, NAN});
  check([](const Tensor& a, const Tensor& b) { return ldexp(a, b); },
        {0.0, 0.0, 0.0, -2.0, -2.0, -2.0, INFINITY, INFINITY, INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {0.0, 2.0, 0.5, 0.0, 2.0, 0.5, 0.0, 2.0, 0.5, 0.0, 2.0, 0.5},
        {1.0, 4.0, 1.4142135623730951, 1.0, 4.0, 1.4142135623730951, 1.0, 4.0, 1.4142135623730951, 1.0, 4.0,
         1.4142135623730951},
        {0.0, 0.0, 0.0, -1.3862943611198906, -5.545177444479562, -1.9605162869370945, INFINITY, INFINITY, INFINITY,
         -INFINITY, -INFINITY, -INFINITY});
}

TEST_CASE("the gradients of elu, selu, celu and expm1 keep their digits far below 0") {
  const auto check = [](auto f, double scale, double stretch) {
    const auto slope = [](const Tensor& x) { return grad([](const Tensor& v) { return sum(decltype(f)()(v)); }, x); };
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Numbers below = {-1e-8, -0.25, -3, -8, -16.5, -20, -40, -60, -80};
      const Tensor x = cast(tensor_of(below, DType::f64), dtype);
      const Numbers at = numbers_of(x);
      for (const Numbers& found : {numbers_of(slope(x)), numbers_of(compile(slope)(x))})
        for (std::size_t i = 0; i < at.size(); ++i) {
          CAPTURE(at[i]);
          CHECK(
              found[i] ==
              doctest::Approx(scale * std::exp(at[i] / stretch)).scale(0).epsilon(dtype == DType::f64 ? 1e-15 : 5e-7));
        }
    }
  };
  check([](const Tensor& x) { return elu(x); }, 1, 1);
  check([](const Tensor& x) { return elu(x, 3); }, 3, 1);
  check([](const Tensor& x) { return celu(x, 2); }, 1, 2);
  check([](const Tensor& x) { return selu(x); }, 1.6732632423543772 * 1.0507009873554805, 1);
  check([](const Tensor& x) { return expm1(x); }, 1, 1);
}

// Ordinary points: the constants of f32 and the infinities of f64 are others.
TEST_CASE("16-bit floats are computed in f32 and rounded once; integers become f32") {
  const Tensor x = tensor_of({-3, -1, -0.5, 0, 0.25, 0.5, 2, 5}, DType::f32),
               other = tensor_of({1, 2, 3, 4, -1, -2, -3, 5}, DType::f32);
  for (const DType half : {DType::f16, DType::bf16}) {
    CAPTURE(std::string(info(half).name));
    const auto check_half = [&](auto f) {
      const Tensor y = f(cast(x, half));
      CHECK(y.dtype() == half);
      CHECK(numbers_of(y) == numbers_of(cast(f(x), half)));
    };
    check_half([](const Tensor& x) { return mish(x); });
    check_half([](const Tensor& x) { return selu(x); });
    check_half([](const Tensor& x) { return softplus(x); });
    check_half([](const Tensor& x) { return log_sigmoid(x); });
    check_half([](const Tensor& x) { return tanhshrink(x); });
    check_half([&](const Tensor& x) { return hypot(x, cast(other, x.dtype())); });
    check_half([&](const Tensor& x) { return logaddexp(x, cast(other, x.dtype())); });
  }
  CHECK(elu(tensor_of({-1, 2}, DType::i64)).dtype() == DType::f32);
  CHECK(nn::relu6(tensor_of({-1, 7}, DType::u8)).dtype() == DType::f32);
  CHECK(numbers_of(hypot(tensor_of({3}, DType::i32), tensor_of({4}, DType::i8))) == Numbers{5});
  CHECK(fmax(tensor_of({3}, DType::i16), 4).dtype() == DType::i16);
}

TEST_CASE("nothing overflows on the way") {
  const Tensor big = tensor_of({1e30, -1e30, 1e-30}, DType::f32);
  CHECK(numbers_of(hypot(big, big) / big)[0] == doctest::Approx(std::sqrt(2.0)));
  CHECK(numbers_of(hypot(big, big) / big)[2] == doctest::Approx(std::sqrt(2.0)));
  CHECK(numbers_of(logaddexp(big, big))[0] == doctest::Approx(1e30));
  const Tensor slope = grad([](const Tensor& v) { return sum(hypot(v, v * 0.5)); }, big);
  CHECK(numbers_of(slope)[0] == doctest::Approx(1.25 / std::sqrt(1.25)));
  const double infinity = INFINITY;
  const Tensor a = tensor_of({infinity, -infinity, infinity}, DType::f64),
               b = tensor_of({infinity, -infinity, -infinity}, DType::f64);
  CHECK(numbers_of(logaddexp(a, b)) == Numbers{infinity, -infinity, infinity});
  CHECK(numbers_of(logaddexp2(a, b)) == Numbers{infinity, -infinity, infinity});
  CHECK(numbers_of(hypot(a, b)) == Numbers{infinity, infinity, infinity});
}

TEST_CASE("hypot is infinite beside an infinity, whatever the other is") {
  const auto compiled = compile([](const Tensor& a, const Tensor& b) { return hypot(a, b); });
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    CAPTURE(std::string(info(dtype).name));
    const Tensor a = tensor_of({INFINITY, -INFINITY, NAN, NAN, 5, NAN}, dtype),
                 b = tensor_of({NAN, NAN, INFINITY, -INFINITY, -INFINITY, 1}, dtype);
    for (const Numbers& got : {numbers_of(hypot(a, b)), numbers_of(compiled(a, b))}) {
      CHECK(Numbers(got.begin(), got.begin() + 5) == Numbers(5, INFINITY));
      CHECK(std::isnan(got[5]));
    }
  }
}

TEST_CASE("xlogy is 0 where x is 0, whatever the logarithm") {
  for (const double zero : {0.0, -0.0})
    for (const double y : {2.0, 0.5, 0.0, -1.0, HUGE_VAL}) {
      const double got = xlogy(tensor_of({zero}, DType::f64), y).item<double>();
      CHECK((got == 0 && !std::signbit(got)));
    }
  const Tensor x = tensor_of({0, 0, 0, 2, 0}, DType::f64), y = tensor_of({0, -1, INFINITY, 3, NAN}, DType::f64);
  const Numbers got = numbers_of(xlogy(x, y));
  CHECK(Numbers(got.begin(), got.begin() + 3) == Numbers{0, 0, 0});
  CHECK(got[3] == doctest::Approx(2 * std::log(3.0)));
  CHECK(std::isnan(got[4]));
}

TEST_CASE("logical functions are of what is not 0") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = from_list({0.0, -0.0, 2.0, nan}), y = from_list<std::int64_t>({0, 3, 0, -1});
  CHECK(logical_not(x).dtype() == DType::boolean);
  CHECK(numbers_of(logical_not(x)) == Numbers{1, 1, 0, 0});
  CHECK(numbers_of(logical_and(x, y)) == Numbers{0, 0, 0, 1});
  CHECK(numbers_of(logical_or(x, y)) == Numbers{0, 1, 1, 1});
  CHECK(numbers_of(logical_xor(x, y)) == Numbers{0, 1, 1, 0});
  CHECK(numbers_of(compile([](const Tensor& x) { return logical_not(x > 1); })(x)) == Numbers{1, 1, 0, 1});
}

TEST_CASE("isinf, signbit, heaviside, isclose, allclose") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    CAPTURE(std::string(info(dtype).name));
    const Tensor x = tensor_of({-INFINITY, -2, -0.0, 0, 3, INFINITY, NAN}, dtype);
    CHECK(numbers_of(isinf(x)) == Numbers{1, 0, 0, 0, 0, 1, 0});
    CHECK(numbers_of(signbit(x)) == Numbers{1, 1, 1, 0, 0, 0, 0});
    CHECK(numbers_of(heaviside(x, 0.5)) == Numbers{0, 0, 0.5, 0.5, 1, 1, 0});
    CHECK(heaviside(x, 0.5).dtype() == dtype);
    CHECK(numbers_of(nan_to_num(x, 1, 2, 3)) == Numbers{3, -2, -0.0, 0, 3, 2, 1});
    CHECK(std::isfinite(numbers_of(nan_to_num(x))[0]));
    CHECK(numbers_of(isclose(x, x)) == Numbers{1, 1, 1, 1, 1, 1, 0});
    CHECK(numbers_of(isclose(x, x, {.equal_nan = true})) == Numbers{1, 1, 1, 1, 1, 1, 1});
    CHECK(numbers_of(isclose(x, -x)) == Numbers{0, 0, 1, 1, 0, 0, 0});
    CHECK(numbers_of(isclose(x, x * 1.25, {.rtol = 0.25})) == Numbers{1, 1, 1, 1, 1, 1, 0});
  }
  CHECK(numbers_of(signbit(tensor_of({-1, 0, 1}, DType::i8))) == Numbers{1, 0, 0});
  CHECK(numbers_of(isinf(tensor_of({-1, 0, 1}, DType::i64))) == Numbers{0, 0, 0});
  CHECK(numbers_of(isclose(tensor_of({1, 2}, DType::u8), tensor_of({1, 3}, DType::u8))) == Numbers{1, 0});
  CHECK(numbers_of(isclose(tensor_of({0}, DType::u8), tensor_of({1}, DType::u8), {.atol = 1})) == Numbers{1});
  CHECK(allclose(ones({2, 3}), ones({3}) + 1e-7).item<bool>());
  CHECK_FALSE(allclose(ones({2, 3}), from_list({1.f, 1.f, 2.f})).item<bool>());
}

TEST_CASE("a square of bools is a number") {
  const Tensor y = square(tensor_of({0, 2}, DType::f32) > 1);
  CHECK(y.dtype() == DType::i64);
  CHECK(numbers_of(y) == Numbers{0, 1});
}

TEST_CASE("prelu takes one weight, or one a channel") {
  const Tensor x = reshape(arange(12, {DType::f32}) - 6.0, {2, 3, 2});
  const Numbers all = numbers_of(prelu(x, from_list({0.5f, 0.f, 2.f})));
  CHECK(all == Numbers{-3, -2.5, 0, 0, -4, -2, 0, 1, 2, 3, 4, 5});
  CHECK(numbers_of(prelu(x, from_list({0.5f}))) == numbers_of(prelu(x, 0.5)));
  CHECK(numbers_of(prelu(x, 0.5))[0] == -3);
  const Tensor slope = grad([&](const Tensor& weight) { return sum(prelu(x, weight)); }, ones({3}));
  CHECK(numbers_of(slope) == Numbers{-11, -7, -3});
  refused([&] { return prelu(x, ones({2})); }, "[prelu] the weight is one number, or has the size of axis 1");
}

TEST_CASE("the shifts wrap; a count out of range leaves no bits but the sign's") {
  for (const DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    CAPTURE(std::string(info(dtype).name));
    const double bits = static_cast<double>(8 * storage_bytes(dtype, 1));
    const Tensor x = tensor_of({1, -1, 3, -8, 5}, dtype), by = tensor_of({2, -1, bits - 1, 1, bits}, dtype);
    const double least = -std::ldexp(1.0, static_cast<int>(bits) - 1);
    CHECK(numbers_of(x << by) == Numbers{4, 0, least, -16, 0});
    CHECK(numbers_of(x >> by) == Numbers{0, -1, 0, -4, 0});
    CHECK((x << 1).dtype() == dtype);
  }
  CHECK(numbers_of(tensor_of({200, 1}, DType::u8) << tensor_of({1, 9}, DType::u8)) == Numbers{144, 0});
  CHECK(numbers_of(tensor_of({4294967295.0, 1}, DType::u32) >> 31) == Numbers{1, 0});
  refused([] { return bitwise_left_shift(ones({2}), 1); }, "[bitwise_left_shift] needs integers: f32[2]");
  refused([] { return full({2}, 1, {DType::boolean}) >> full({2}, 1, {DType::boolean}); },
          "[bitwise_right_shift] needs integers: bool[2]");
}

TEST_CASE("refusals say what is wrong at the user's line") {
  const Tensor x = ones({2});
  refused([&] { return celu(x, 0); }, "[celu] alpha is 0");
  refused([&] { return hardtanh(x, 2, 1); }, "[hardtanh] low 2 is above high 1");
  refused([&] { return softplus(x, 0); }, "[softplus] beta must be a number other than 0, it is 0");
  refused([&] { return softplus(x, NAN); }, "[softplus] beta must be a number other than 0, it is nan");
  refused([&] { return logit(x, 0.7); }, "[logit] eps must be at most 0.5, it is 0.7");
  refused([&] { return logit(x, NAN); }, "[logit] eps must be at most 0.5, it is nan");
  for (const double wrong : {NAN, INFINITY}) {
    refused([&] { return var(x, {}, wrong); }, "[var] the correction must be finite, it is ");
    refused([&] { return weft::std(x, {}, wrong); }, "[std] the correction must be finite, it is ");
    refused([&] { return cov(x, wrong); }, "[cov] the correction must be finite, it is ");
  }
  refused([&] { return histc(x, 3, 0, INFINITY); },
          "[histc] the range must be finite and ascending, it is from 0 to inf");
  refused([&] { return histc(x, 3, 1, 1); }, "[histc] the range must be finite and ascending, it is from 1 to 1");
  refused([] { return bincount(arange(3), -1); }, "[bincount] the count must not be negative, it is -1");
  refused([&] { return softshrink(x, -1); }, "[softshrink] lambda is -1, it must be 0 or more");
  refused([&] { return isclose(x, x, {.rtol = -1}); }, "[isclose] rtol -1 and atol");
  refused([&] { return hypot(x, ones({3})); }, "[hypot] shapes do not broadcast");
  refused([&] { return fmod(x < 0, x < 1); }, "[fmod] is not defined on bool");
}

TEST_CASE("variances and deviations have their value where squares or sums of f32 would not fit") {
  const auto moments = [](const Tensor& x) { return std::vector<Tensor>{var(x, 1), weft::std(x, 1, 0)}; };
  const auto slopes = [](const Tensor& x) {
    return std::vector<Tensor>{grad([](const Tensor& x) { return sum(var(x, 1)); }, x),
                               grad([](const Tensor& x) { return sum(weft::std(x, 1, 0)); }, x)};
  };
  const Tensor alike = full({1, 768}, 8.5071e37), apart = reshape(tensor_of({1e30, -1e30}, DType::f32), {1, 2}),
               tiny = reshape(tensor_of({1e-30, -1e-30}, DType::f32), {1, 2});
  const auto every_way = [](auto f, const Tensor& x, auto check) {
    check(f(x));
    check(compile(f)(x));
    check(compile(f, {.dynamic = true})(x));
    check(compile(f, {.backend = Backend::reference})(x));
  };
  every_way(moments, alike, [](const std::vector<Tensor>& found) {
    CHECK(numbers_of(found[0]) == Numbers{0});
    CHECK(numbers_of(found[1]) == Numbers{0});
  });
  every_way(moments, apart, [](const std::vector<Tensor>& found) {
    CHECK(numbers_of(found[0])[0] == INFINITY);
    CHECK(numbers_of(found[1])[0] == double{1e30f});
  });
  every_way(moments, tiny, [](const std::vector<Tensor>& found) { CHECK(numbers_of(found[1])[0] == double{1e-30f}); });
  every_way(slopes, alike, [](const std::vector<Tensor>& found) {
    CHECK(numbers_of(found[0]) == Numbers(768, 0));
    CHECK(numbers_of(found[1]) == Numbers(768, 0));
  });
  every_way(slopes, apart, [](const std::vector<Tensor>& found) {  // of the variance 4e30 and -4e30
    check_near(numbers_of(found[0] / 1e30f), {2, -2}, 1e-6, true);
    check_near(numbers_of(found[1]), {0.5, -0.5}, 1e-6, true);
  });
  CHECK(numbers_of(weft::std(cast(apart, DType::bf16), 1, 0))[0] == doctest::Approx(1e30).epsilon(0x1p-8));
}

TEST_CASE("the gradient of hypot at the origin is 0") {
  const Tensor zero = zeros({2});
  const auto slope = [](const Tensor& x) {
    return grad([](const Tensor& x) { return sum(hypot(x, x * 2)) + sum(hypot(x, 0)); }, x);
  };
  CHECK(numbers_of(slope(zero)) == Numbers{0, 0});
  CHECK(numbers_of(compile(slope)(zero)) == Numbers{0, 0});
}

TEST_CASE("literals fit the narrow integers, or are errors") {
  refused([] { return full({2}, 1, {DType::i8}) + 128; }, "[add] 128 does not fit into i8, which holds -128 to 127");
  refused([] { return full({2}, 1, {DType::i16}) * 40000; }, "[mul] 40000 does not fit into i16");
  refused([] { return full({2}, 1, {DType::u16}) - 65536; },
          "[sub] 65536 does not fit into u16, which holds 0 to 65535");
  refused([] { return full({2}, -1, {DType::u32}); }, "[full] -1 does not fit into u32, which holds 0 to 4294967295");
  CHECK(numbers_of(full({1}, 127, {DType::i8}) + 1) == Numbers{-128});
  CHECK(numbers_of(full({1}, 65535, {DType::u16}) + 1) == Numbers{0});
  CHECK(numbers_of(full({1}, 4294967295.0, {DType::u32}) * 2) == Numbers{4294967294.0});
  CHECK(numbers_of(full({1}, 0, {DType::u32}) - 1) == Numbers{4294967295.0});
}
