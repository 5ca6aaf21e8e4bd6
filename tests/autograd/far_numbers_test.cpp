// Values and derivatives of operands far from 1, whose squares are no numbers of the dtype, eager and compiled.
#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <tuple>
#include <vector>

#include "weft/compile.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"
#include "weft/special.hpp"

using namespace weft;

namespace {

using Numbers = std::vector<double>;
using Two = std::tuple<Tensor, Tensor>;

Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::f64);
  Numbers numbers;
  for (const double x : wide.data<double>()) numbers.push_back(x);
  return numbers;
}
Tensor tensor_of(const Numbers& numbers, DType dtype) {
  return cast(from_span(std::span<const double>(numbers), {static_cast<std::int64_t>(numbers.size())}), dtype);
}
// Relative to each number; a subnormal one has its spacing.
void check_near(const Tensor& got, const Numbers& expected, double bound, double spacing) {
  const Numbers found = numbers_of(got);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CAPTURE(found[i]);
    CAPTURE(expected[i]);
    const bool is_near = std::abs(found[i] - expected[i]) <= bound * std::abs(expected[i]) + spacing;
    CHECK((found[i] == expected[i] || is_near));
  }
}

struct Range {
  DType dtype;
  int least, most;  // exponents of powers of two that are normal numbers
  double bound, spacing;
};
constexpr Range ranges[] = {{DType::f16, -14, 15, 0x1p-9, 0x1p-24},
                            {DType::bf16, -126, 127, 0x1p-6, 0x1p-133},
                            {DType::f32, -126, 127, 0x1p-21, 0x1p-149},
                            {DType::f64, -1022, 1023, 0x1p-49, 0x1p-1074}};

}  // namespace

TEST_CASE("std and its gradient at every exponent") {
  const auto both = [](const Tensor& x) {
    return std::vector{weft::std(x, 1), grad([](const Tensor& v) { return sum(weft::std(v, 1)); }, x)};
  };
  const auto compiled = compile(both);
  const double slope = std::sqrt(0.5);
  for (const Range& range : ranges) {
    CAPTURE(info(range.dtype).name);
    Numbers values, deviations, slopes;
    for (int exponent = range.least; exponent < range.most; ++exponent) {
      const double x = std::ldexp(1.0, exponent);
      values.insert(values.end(), {x, -x});
      deviations.push_back(x * std::sqrt(2.0));
      slopes.insert(slopes.end(), {slope, -slope});
    }
    const Tensor x = reshape(tensor_of(values, range.dtype), {-1, 2});
    for (const std::vector<Tensor>& found : {both(x), compiled(x)}) {
      check_near(found[0], deviations, range.bound, range.spacing);
      check_near(reshape(found[1], {-1}), slopes, range.bound, 0);
    }
  }
}

TEST_CASE("the gradient of atan2 at every exponent") {
  const auto slopes = [](const Tensor& a, const Tensor& b) {
    auto [da, db] = grad([](const Two& v) { return sum(atan2(std::get<0>(v), std::get<1>(v))); }, Two(a, b));
    auto [ea, eb] = grad(
        [](const Two& v) {
          return sum(elementwise([](auto x, auto y) { return atan2(x, y); })(std::get<0>(v), std::get<1>(v)));
        },
        Two(a, b));
    return std::vector{da, db, ea, eb};
  };
  const auto compiled = compile(slopes);
  for (const Range& range : ranges) {
    CAPTURE(info(range.dtype).name);
    Numbers a, b, by_a, by_b;
    for (int exponent = range.least + 4; exponent < range.most - 4; ++exponent)
      for (const auto& [x, y] : {std::pair{1, 2}, {-3, 1}, {1, -1}, {0, 2}, {2, 0}}) {
        a.push_back(std::ldexp(x, exponent));
        b.push_back(std::ldexp(y, exponent));
        by_a.push_back(std::ldexp(static_cast<double>(y) / (x * x + y * y), -exponent));
        by_b.push_back(std::ldexp(-static_cast<double>(x) / (x * x + y * y), -exponent));
      }
    const Tensor left = tensor_of(a, range.dtype), right = tensor_of(b, range.dtype);
    for (const std::vector<Tensor>& found : {slopes(left, right), compiled(left, right)})
      for (int way = 0; way < 4; ++way)
        check_near(found[static_cast<std::size_t>(way)], way % 2 == 0 ? by_a : by_b, range.bound, range.spacing);
  }
}

TEST_CASE("derivatives of atan2 at zeros and infinities, and what cancels") {
  const Tensor a = tensor_of({0, 0, 2, INFINITY, 1, -INFINITY, NAN}, DType::f64),
               b = tensor_of({0, -4, 0, 1, INFINITY, 1e300, 1}, DType::f64);
  const auto [da, db] = grad([](const Two& v) { return sum(atan2(std::get<0>(v), std::get<1>(v))); }, Two(a, b));
  check_near(slice(da, 0, 0, 6), {0, -0.25, 0, 0, 0, 0}, 0, 0);
  check_near(slice(db, 0, 0, 6), {0, 0, -0.5, 0, 0, 0}, 0, 0);
  CHECK(std::isnan(numbers_of(da)[6]));
  CHECK(std::isnan(numbers_of(db)[6]));
  for (const float x : {1e-30F, 1e30F}) {
    const auto f = [](const Tensor& v) { return sum(atan2(v, v * 2)); };
    CHECK(grad(f, full({}, x)).item<float>() * x == doctest::Approx(0).epsilon(1e-6));
  }
  const auto second = [](const Tensor& x) {
    const auto first = [](const Tensor& v) { return grad([](const Tensor& u) { return sum(atan2(u, 1)); }, v); };
    return grad([&](const Tensor& v) { return sum(first(v)); }, x);
  };
  check_near(second(from_list({0.0, 0.5, -3.0})), {0, -0.64, 0.06}, 1e-14, 0);
}

TEST_CASE("the gradients of asinh and acosh at large numbers") {
  const auto both = [](const Tensor& x) {
    return std::vector{grad([](const Tensor& v) { return sum(asinh(v)); }, x),
                       grad([](const Tensor& v) { return sum(acosh(v)); }, x)};
  };
  const auto compiled = compile(both);
  for (const Range& range : ranges) {
    CAPTURE(info(range.dtype).name);
    Numbers values, sines, cosines;
    for (int exponent = 1; exponent < range.most - 2; ++exponent) {
      const double x = std::ldexp(1.5, exponent);
      values.push_back(x);
      sines.push_back(1 / std::hypot(x, 1));
      cosines.push_back(1 / (std::sqrt(x - 1) * std::sqrt(x + 1)));
    }
    const Tensor x = tensor_of(values, range.dtype);
    for (const std::vector<Tensor>& found : {both(x), compiled(x)}) {
      check_near(found[0], sines, range.bound, range.spacing);
      check_near(found[1], cosines, range.bound, range.spacing);
    }
  }
}

TEST_CASE("the gradient of ldexp by an exponent that is large") {
  const auto by_power = [](const Tensor& x, const Tensor& e) {
    return grad([&](const Tensor& v) { return sum(ldexp(x, v)); }, e);
  };
  const Tensor x = from_list({1.F, 1.F, 1.F, 0x1p-120F, INFINITY}),
               e = from_list({2000.F, 4000.F, -4000.F, 130.F, 3.F});
  const Numbers expected = {INFINITY, INFINITY, 0, 1024 * std::log(2.0), INFINITY};
  check_near(by_power(x, e), expected, 1e-6, 0);
  check_near(compile(by_power)(x, e), expected, 1e-6, 0);
}
