// Cumulative functions: against the numbers that PyTorch gives, in every way that there is to run them; fused with the
// operations around them; along any axis, of rows of any length, of every dtype, with symbolic sizes.
#include <cmath>
#include <limits>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"
#include "weft/transforms.hpp"

using namespace weft;
using namespace trace_test;

namespace {
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

Tensor some(const Sizes& sizes) {
  Dim count = 1;
  for (const Dim size : sizes.shape()) count = count * size;
  return reshape(sin(arange(count, {DType::f32}) * 1.7f), sizes);
}
double distance(const Tensor& a, const Tensor& b) {
  if (!a.shape().same(b.shape())) return std::numeric_limits<double>::infinity();
  if (a.element_count().same(Dim(0))) return 0;
  const Tensor apart = abs(cast(a, DType::f64) - cast(b, DType::f64)) / (abs(cast(b, DType::f64)) + 1);
  return amax(apart).item();
}

template <int axis>
std::vector<Tensor> scanned(const Tensor& x) {
  const Tensor shifted = x * 0.5 + 0.25;
  const auto greatest = cummax(shifted, axis);
  return {cumsum(shifted, axis) * 2, greatest.values, cast(greatest.indices, DType::f32), logcumsumexp(shifted, axis),
          cumprod(shifted * 1e-4 + 1, axis)};
}
template <int axis>
void check_rows(const Sizes& sizes) {
  const Tensor x = some(sizes), wide = cast(x, DType::f64);
  const std::vector<Tensor> plain = scanned<axis>(x), found = compile(scanned<axis>)(x), exact = scanned<axis>(wide);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    if (i != 2) CHECK(distance(plain[i], exact[i]) < 1e-4);
    if (i != 2) CHECK(distance(found[i], exact[i]) < 1e-4);
    CHECK(distance(found[i], plain[i]) == 0);  // bits are one
  }
  CHECK(distance(gather(x * 0.5 + 0.25, axis, cast(plain[2], DType::i64)), plain[1]) == 0);
}

template <int which>
Tensor loss(const Tensor& x) {
  const Tensor w = reshape(arange(10, {DType::f32}) + 1, {2, 5});
  if (which == 0) return sum(cumsum(x, 1) * w);
  if (which == 1) return sum(cumprod(x, 1) * w);
  if (which == 2) return sum(cummax(x, 1).values * w);
  return sum(cummin(x, 0).values * w);
}
template <int which>
void check_gradient(const std::string& expected) {
  const auto gradient = [](const Tensor& x) { return grad(loss<which>, x); };
  const Tensor x = constant(std::vector<float>{1, 3, 3, 2, 5, 0.5f, 0, -2, 0, 1}, {2, 5});
  for (const Tensor& found : every_way(gradient, x)) CHECK(text_of(found + 0) == expected);
}
}  // namespace

TEST_CASE("cumulative functions are PyTorch's") {
  check_every_way(
      [](const Tensor& x) {
        const auto greatest = cummax(x, 1), least = cummin(x, -1);
        const auto down = cummax(x, 0), least_down = cummin(x, 0);
        const Tensor ones = x == x;
        return Answers{{cumsum(x, 1), "1 4 7 9 14 -1 nan nan nan nan 0.5 -inf -inf nan nan"},
                       {cumsum(x, 0), "1 3 3 2 5 0 nan 7 nan 7 0.5 nan 5 nan 8"},
                       {cumprod(x, -1), "1 3 9 18 90 -1 nan nan nan nan 0.5 -inf inf inf inf"},
                       {greatest.values, "1 3 3 3 5 -1 nan nan nan nan 0.5 0.5 0.5 inf inf"},
                       {greatest.indices, "0 1 2 2 4 0 1 1 3 3 0 0 0 3 3"},
                       {down.values, "1 3 3 2 5 1 nan 4 nan 5 1 nan 4 nan 5"},
                       {down.indices, "0 0 0 0 0 0 1 1 1 0 0 1 1 1 0"},
                       {least.values, "1 1 1 1 1 -1 nan nan nan nan 0.5 -inf -inf -inf -inf"},
                       {least.indices, "0 0 0 0 0 0 1 1 3 3 0 1 1 1 1"},
                       {least_down.values, "1 3 3 2 5 -1 nan 3 nan 2 -1 nan -2 nan 1"},
                       {least_down.indices, "0 0 0 0 0 1 1 0 1 1 1 1 2 1 2"},
                       {cumsum(ones, 1), "1 2 3 4 5 1 1 2 2 3 1 2 3 4 5"},
                       {cummin(ones, 1).values, "1 1 1 1 1 1 0 0 0 0 1 1 1 1 1"},
                       {cumsum(x, 1)[0] * 2 + 1, "3 9 15 19 29"},
                       {cumsum(x * 0 + 1, 1)[0], "1 2 3 4 5"},
                       {cumsum(full({2, 3}, 2), 1), "2 4 6 2 4 6"}};
      },
      constant(std::vector<float>{1, 3, 3, 2, 5, -1, not_a_number, 4, not_a_number, 2, 0.5f, -inf, -2, inf, 1},
               {3, 5}));
}

TEST_CASE("logcumsumexp is PyTorch's, and loses nothing where elements are far apart") {
  const auto f = [](const Tensor& x) { return stack({logcumsumexp(x, 1), logcumsumexp(x * 2, 1) / 2}); };
  const Tensor x = constant(
      std::vector<float>{1, 3, 3, 2, 5, 0.5f, -inf, -2, inf, 1, -inf, -inf, 1, -inf, 2, -1000, -1001, 800, 801, -3},
      {4, 5});
  const std::string expected =
      "1 3.127 3.759 3.918 5.292 0.500 0.500 0.579 inf inf -inf -inf 1 1 2.313 -1000 -999.687 800 801.313 801.313";
  for (const Tensor& y : every_way(f, x)) {
    std::string text;
    for (const float value : numbers_of(y[0])) {
      char number[40];
      std::snprintf(number, sizeof number, value == std::round(value) ? "%g" : "%.3f", static_cast<double>(value));
      text += (text.empty() ? "" : " ") + std::string(number);
    }
    CHECK(text == expected);
  }
}

TEST_CASE("rows of any length, along any axis") {
  // Sums in f64 are what is right to 24 bits.
  for (const std::int64_t length : {1, 2, 15, 16, 17, 33, 300, 4097, 20000}) {
    CAPTURE(length);
    check_rows<0>({length, 2, 5});
    check_rows<1>({3, length, 5});
    check_rows<2>({3, 2, length});
  }
}

TEST_CASE("dtypes: integers are summed in i64, 16-bit floats wider, each element rounded once") {
  const auto f = [](const Tensor& x) {
    const Tensor bytes = cast(x, DType::u8), small = cast(x, DType::i16);
    return Answers{{cumsum(bytes, 1), "100 200 300 253 260 310"},
                   {cumprod(bytes, 0), "100 100 100 25300 700 5000"},
                   {cummax(bytes, 1).values, "100 100 100 253 253 253"},
                   {cummin(cast(bytes, DType::i8), 1).values, "100 100 100 -3 -3 -3"},
                   {cumsum(small * 300, 1), "30000 60000 90000 10364 12464 27464"},
                   {cummax(cast(x, DType::u32), 0).indices, "0 0 0 1 0 0"},
                   {cumsum(cast(x, DType::bf16), 1), "100 200 300 253 260 310"},
                   {cumsum(full({5}, 0.1, {DType::f16}), 0)[4], "0.5"},
                   {cumsum(full({4096}, 1, {DType::f16}), 0)[4095], "4096"}};
  };
  check_every_way(f, constant(std::vector<float>{100, 100, 100, 253, 7, 50}, {2, 3}));
  const Tensor x = constant(std::vector<float>{1, 2}, {2});
  CHECK(cumsum(cast(x, DType::i32), 0).dtype() == DType::i64);
  CHECK(cumsum(x > 1, 0).dtype() == DType::i64);
  CHECK(cummax(x > 1, 0).values.dtype() == DType::boolean);
  CHECK(cummax(cast(x, DType::i8), 0).values.dtype() == DType::i8);
  CHECK(cumprod(cast(x, DType::bf16), 0).dtype() == DType::bf16);
  CHECK(logcumsumexp(cast(x, DType::i32), 0).dtype() == DType::f32);
}

TEST_CASE("no axes, none and one element, and zeros below zero") {
  check_every_way(
      [](const Tensor& x) {
        const Tensor one = sum(x), empty = slice(x, 0, 0, 0), column = unsqueeze(x, 1), zero = x * -0.0;
        return Answers{{cumsum(one, 0), "3"},
                       {cummax(one, -1).values, "3"},
                       {cummax(one, 0).indices, "0"},
                       {logcumsumexp(one, 0), "3"},
                       {cumsum(empty, 0), ""},
                       {cummin(empty, 0).indices, ""},
                       {cumprod(column, 1), "1 2"},
                       {cumsum(column, 1) + 1, "2 3"},
                       {cummax(column, 1).indices, "0 0"},
                       {cumsum(x > 1, 0), "0 1"},
                       {cumsum(cast(column, DType::i32), 1), "1 2"},
                       {cumsum(zero, 0), "0 0"},
                       {cumsum(unsqueeze(zero, 1), 1), "0 0"}};
      },
      vector_of({1, 2}));
}

TEST_CASE("derivatives are PyTorch's, with zeros in products and equal extremes") {
  check_gradient<0>("15 14 12 9 5 40 34 27 19 10");
  check_gradient<1>("556 185 183 261 90 6 -4.5 0 0 0");
  check_gradient<2>("1 2 7 0 5 30 0 0 0 10");
  check_gradient<3>("1 2 3 4 5 6 7 8 9 10");
  const auto logarithms = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return sum(logcumsumexp(x, 1) * reshape(arange(10, {DType::f32}) - 4, {2, 5}));
        },
        x);
  };
  const Tensor far = constant(std::vector<float>{-900, 3, 3, 200, -500, -inf, -inf, 1, -inf, 2}, {2, 5});
  // Of f64, by the definition: the sum over i >= k of w[i] exp(x[k] - y[i]).
  const std::vector<float> found = numbers_of(logarithms(far)), compiled = numbers_of(compile(logarithms)(far));
  const std::vector<float> numbers = numbers_of(far);
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t k = 0; k < 5; ++k) {
      double total = 0;
      for (std::size_t i = k; i < 5; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j)
          sum += std::exp(double{numbers[row * 5 + j]} - double{numbers[row * 5 + k]});
        if (std::isfinite(numbers[row * 5 + k])) total += (static_cast<double>(row * 5 + i) - 4) / sum;
      }
      CAPTURE(row);
      CAPTURE(k);
      CHECK(found[row * 5 + k] == doctest::Approx(total).epsilon(1e-5));
      CHECK(compiled[row * 5 + k] == doctest::Approx(total).epsilon(1e-5));
    }
}

TEST_CASE("the second derivative of logcumsumexp, also where the gradient of its result is 0") {
  // Of sum_i (y - y0)_i^2 with y = logcumsumexp(x) the gradient of y is 0 at the third and at the fourth element. With
  // J[i][k] = exp(x[k] - y[i]) the second derivative is 2 J^T J + 2 sum_i (y - y0)_i (diag(J_i) - J_i J_i^T).
  static constexpr auto slope = [](const Tensor& x, const Tensor& y0) {
    return grad([&](const Tensor& x) { return sum(square(logcumsumexp(x, 0) - y0)); }, x);
  };
  static constexpr auto product = [](const Tensor& x, const Tensor& y0, const Tensor& along) {
    return grad([&](const Tensor& x) { return sum(slope(x, y0) * along); }, x);
  };
  for (const DType dtype : {DType::f64, DType::f32}) {
    CAPTURE(dtype);
    const Tensor x = cast(vector_of({0.5, -1, 2, 0.25, -30}), dtype),
                 along = cast(vector_of({1, 2, -1, 0.5, 3}), dtype);
    const Tensor apart = cast(vector_of({1, -1, 0, 0, 0}), dtype), y0 = logcumsumexp(x, 0) - apart;
    const Tensor wide = cast(x, DType::f64), by = cast(along, DType::f64), y = logcumsumexp(wide, 0);
    const Tensor jacobian = tril(exp(unsqueeze(wide, 0) - unsqueeze(y, 1))), back = transpose(jacobian);
    const Tensor moved = matmul(jacobian, by), weights = 2 * cast(apart, DType::f64);
    const Tensor expected = matmul(back, 2 * moved) + by * matmul(back, weights) - matmul(back, weights * moved);
    const double bound = dtype == DType::f64 ? 1e-12 : 1e-5;
    CHECK(distance(product(x, y0, along), expected) < bound);
    CHECK(distance(compile(product)(x, y0, along), expected) < bound);
    CHECK(distance(jvp([&](const Tensor& x) { return slope(x, y0); }, x, along).tangent, expected) < bound);
    // Of gradients that are all 0 the gradient is 0, not a small number.
    const Tensor nothing = grad([&](const Tensor& x) { return sum(logcumsumexp(x, 0) * zeros({5}, {dtype})); }, x);
    CHECK(!any(nothing != 0).item<bool>());
  }
}

TEST_CASE("the operations around a scan are in its kernel, and a value that reads it at another index is not") {
  const auto softly = [](const Tensor& x) {
    const Tensor e = exp(x);
    return cumsum(e, 1) / sum(e, 1, true) + cummax(x, 1).values;
  };
  const Tensor x = some({64, 200});
  const auto has_kernels = [&x](const auto& function, std::size_t count) {
    const Explanation found = explain(compile(function), x);
    return found.kernels.size() == count || contains(found.fallback, "no C++ compiler");
  };
  CHECK(has_kernels(softly, 1));
  CHECK(distance(compile(softly)(x), softly(x)) < 1e-6);
  const auto turned = [](const Tensor& x) { return flip(cumsum(flip(x, 1), 1), 1) + x; };
  CHECK(has_kernels(turned, 2));
  CHECK(distance(compile(turned)(x), turned(x)) == 0);
  const auto both_axes = [](const Tensor& x) { return cumsum(cumsum(x, 0), 1) + sum(x, 0); };
  CHECK(distance(compile(both_axes)(x), both_axes(x)) < 1e-5);
  // One long row beside a long reduction, which is cut.
  const auto long_row = [](const Tensor& x) { return cumsum(x / sum(abs(x)), 0) * 2; };
  const Tensor row = some({200000});
  CHECK(distance(compile(long_row)(row), long_row(row)) < 1e-6);
}

TEST_CASE("symbolic sizes: one compilation serves all") {
  auto f = compile(
      [](const Tensor& x) {
        return std::vector{cumsum(x, 1), cast(cummax(x, 0).indices, DType::f32), logcumsumexp(x, 1),
                           grad([](const Tensor& x) { return sum(square(cumsum(x, 0)) + cummin(x, 1).values); }, x)};
      },
      {.dynamic = true});
  for (const auto& size : {std::pair<int, int>{3, 5}, {7, 40}, {2, 300}, {65, 2}}) {
    const int rows = size.first, columns = size.second;
    const Tensor x = some({rows, columns}), wide = cast(x, DType::f64);
    CAPTURE(rows);
    const std::vector<Tensor> found = f(x);
    CHECK(distance(found[0], cumsum(wide, 1)) < 1e-5);
    CHECK(distance(found[1], cummax(wide, 0).indices) == 0);
    CHECK(distance(found[2], logcumsumexp(wide, 1)) < 1e-5);
    const auto loss = [](const Tensor& x) { return sum(square(cumsum(x, 0)) + cummin(x, 1).values); };
    CHECK(distance(found[3], grad(loss, wide)) < 1e-5);
  }
  CHECK(last_recompile_reason(f).empty());
}

TEST_CASE("axes that do not exist are errors at the user's line") {
  const Tensor x = vector_of({1, 2});
  CHECK(message_of([&] { cumsum(x, 1); }) == "[cumsum] axis 1 is out of range for 1 axis" + AT_LINE(__LINE__));
}
