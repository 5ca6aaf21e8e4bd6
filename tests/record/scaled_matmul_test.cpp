// Products of 8-bit floats with scales: against sums in f64 of what the operands hold, in every way that there is to
// run them, and the sentences for what does not fit.
#include <cmath>
#include <vector>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

namespace {

using Operands = std::vector<Tensor>;  // a, b, the scales, the bias if there is one

// In f64, of the numbers that the operands hold.
Tensor reference(const Operands& x) {
  const auto wide = [](const Tensor& value) { return cast(value, DType::f64); };
  Tensor result = matmul(wide(x[0]), wide(x[1])) * wide(x[2]) * wide(x[3]);
  return x.size() > 4 ? result + wide(x[4]) : result;
}
template <DType dtype>
Tensor product(const Operands& x) {
  return scaled_matmul(x[0], x[1], x[2], x[3], {.bias = x.size() > 4 ? x[4] : Tensor(), .dtype = dtype});
}

// One rounding to the dtype, and sums of k products in f32.
template <DType dtype>
void check_product(const Operands& x) {
  const Tensor expected = reference(x);
  const double largest = amax(abs(expected)).item(), k = static_cast<double>(static_cast<std::int64_t>(x[0].size(1)));
  const double unit = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  const auto results = every_way(product<dtype>, x);
  for (std::size_t way = 0; way < results.size(); ++way) {
    CAPTURE(way);
    CAPTURE(info(dtype).name);
    CHECK(results[way].dtype() == dtype);
    const double apart = amax(abs(cast(results[way], DType::f64) - expected)).item();
    CHECK(apart <= largest * (unit + std::sqrt(k) * 4 * 0x1p-24));
  }
}
void check_each(const Operands& x) {
  check_product<DType::f32>(x);
  check_product<DType::bf16>(x);
  check_product<DType::f16>(x);
}

Tensor eighth(const Sizes& sizes, DType dtype, Generator& rng) {
  return cast(clamp(normal(sizes, 0, 8, rng), -448, 448), dtype).eval();
}

}  // namespace

TEST_CASE("scaled_matmul: one scale each, of both dtypes, with a bias and without") {
  Generator rng(1);
  for (const auto& [left, right] : {std::pair{DType::f8e4m3, DType::f8e4m3},
                                    {DType::f8e4m3, DType::f8e5m2},
                                    {DType::f8e5m2, DType::f8e4m3},
                                    {DType::f8e5m2, DType::f8e5m2}}) {
    const Tensor a = eighth({17, 48}, left, rng), b = eighth({48, 32}, right, rng);
    const Tensor s = full({}, 0.25F).eval(), t = full({1, 1}, 0.01F).eval();
    check_each({a, b, s, t});
    check_each({a, transpose(eighth({32, 48}, right, rng)), s, t, normal({32}, 0, 3, rng).eval()});
  }
}

TEST_CASE("scaled_matmul: a scale for each row and each column") {
  Generator rng(2);
  const Tensor a = eighth({33, 64}, DType::f8e4m3, rng), b = eighth({64, 16}, DType::f8e4m3, rng);
  const Tensor rows = exp(normal({33, 1}, 0, 1, rng)).eval(), columns = exp(normal({1, 16}, 0, 1, rng)).eval();
  check_each({a, b, rows, columns});
  check_each({a, b, rows, columns, cast(normal({16}, 0, 3, rng), DType::bf16).eval()});
  // One row: its scale is one number, those of the columns are not.
  check_each({slice(a, 0, 0, 1).eval(), b, slice(rows, 0, 0, 1).eval(), columns});
}

TEST_CASE("scaled_matmul: what a tensor is when it is quantized, multiplied and scaled back is near the product") {
  Generator rng(3);
  const auto function = [](const Tensor& x, const Tensor& w) {
    const auto scale_of = [](const Tensor& value) { return amax(abs(value)) / 448; };
    const Tensor s = scale_of(x), t = scale_of(w);
    return scaled_matmul(cast(x / s, DType::f8e4m3), cast(w / t, DType::f8e4m3), s, t, {.dtype = DType::f32});
  };
  const Tensor x = normal({20, 256}, 0, 1, rng).eval(), w = normal({256, 32}, 0, 0.02, rng).eval();
  const Tensor right = matmul(x, w);
  for (const Tensor& result : every_way(function, x, w)) {
    const double apart = std::sqrt(sum(square(result - right)).item() / sum(square(right)).item());
    CHECK(apart < 0.05);
    CHECK(apart > 0.005);  // it is of 8 bits
  }
}

TEST_CASE("scaled_matmul: sizes that are symbols, and no rows") {
  const auto function = compile(product<DType::bf16>, {.dynamic = true});
  Generator rng(4);
  const Tensor b = eighth({32, 16}, DType::f8e4m3, rng), one = full({}, 1.0F).eval();
  for (const std::int64_t rows : {3, 5, 0}) {
    const Operands x{eighth({rows, 32}, DType::f8e4m3, rng), b, one, one};
    const Tensor result = function(x);
    CHECK(static_cast<std::int64_t>(result.size(0)) == rows);
    if (rows > 0)
      CHECK(amax(abs(cast(result, DType::f64) - reference(x))).item() <= amax(abs(reference(x))).item() * 0x1p-8);
  }
}

TEST_CASE("scaled_matmul: what does not fit is refused, and a gradient") {
  const Tensor a = cast(ones({4, 16}), DType::f8e4m3), b = cast(ones({16, 8}), DType::f8e4m3), one = full({}, 1.0F);
  const Tensor wide = ones({4, 16});
  refused([&] { scaled_matmul(wide, b, one, one); },
          "[scaled_matmul] multiplies f8e4m3 and f8e5m2, other dtypes by matmul: f32[4,16] x f8e4m3[16,8]");
  refused([&] { scaled_matmul(a, a, one, one); }, "inner sizes differ: f8e4m3[4,16] x f8e4m3[4,16]");
  refused([&] { scaled_matmul(reshape(a, {1, 4, 16}), b, one, one); }, "multiplies two matrices");
  refused([&] { scaled_matmul(a, b, one, cast(one, DType::f64)); }, "scales are f32: f64[]");
  refused([&] { scaled_matmul(a, b, ones({4}), one); }, "scales are one number each, or [m,1] and [1,n]: f32[4] and");
  refused([&] { scaled_matmul(a, b, ones({4, 1}), one); }, "scales are one number each, or [m,1] and [1,n]");
  refused([&] { scaled_matmul(a, b, one, one, {.dtype = DType::f64}); }, "gives f16, bf16 or f32, it is asked for f64");
  refused([&] { scaled_matmul(a, b, one, one, {.bias = ones({4})}); }, "the bias is floats [n]: f32[4]");
  CHECK(scaled_matmul(a, b, 2.0, 0.5).dtype() == DType::bf16);
  CHECK_THROWS_WITH_AS(grad(
                           [&](const Tensor& x) {
                             return sum(scaled_matmul(cast(x, DType::f8e4m3), b, one, one, {.dtype = DType::f32}));
                           },
                           ones({4, 16}))
                           .eval(),
                       doctest::Contains("scaled_matmul has no derivative: give it one by custom_vjp"), Error);
}
