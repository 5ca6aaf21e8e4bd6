// QR of columns of every length, whose squares are no numbers of the dtype: factors, least squares, and the reference.
#include <cmath>
#include <span>
#include <vector>

#include "tests/linalg/support.hpp"
#include "weft/compile.hpp"
#include "weft/linalg.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace weft::linalg;
using namespace weft::test;

namespace {

Tensor random(Sizes sizes, DType dtype) {
  Generator generator(7);
  return normal(sizes, 0, 1, generator, {dtype});
}
// Powers of two for columns.
Tensor lengths(const std::vector<int>& exponents, DType dtype) {
  std::vector<double> powers;
  for (const int exponent : exponents) powers.push_back(std::ldexp(1.0, exponent));
  return cast(from_span(std::span<const double>(powers), {static_cast<std::int64_t>(powers.size())}), dtype);
}

}  // namespace

TEST_CASE("columns scaled by powers of two give the same Q, and R with its columns scaled, exactly") {
  const auto factor = [](const Tensor& a) {
    const auto [q, r] = qr(a);
    return std::vector{q, r};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const int most = dtype == DType::f64 ? 1000 : 115;
    for (const auto& [m, n] : {std::pair{4, 4}, {9, 4}, {2, 4}, {80, 4}}) {
      const Tensor a = random({m, n}, dtype);
      const auto [q, r] = qr(a);
      for (const std::vector<int>& exponents : {std::vector{-most, -most, -most, -most},
                                                {most, most, most, most},
                                                {0, -most, 0, most},
                                                {-most, most, 1, 0},
                                                {-most / 2, 3, -most / 2 - 9, most / 2}}) {
        CAPTURE(exponents[0]);
        const Tensor scales = lengths(exponents, dtype), scaled = a * scales;
        for (const std::vector<Tensor>& found : {factor(scaled), compile(factor)(scaled)}) {
          check_near(found[0], q, 0);
          check_near(found[1] / scales, r, 0);
        }
        const std::vector<Tensor> reference = compile(factor, {.backend = Backend::reference})(scaled);
        check_near(abs(reference[1] / scales), abs(r), dtype == DType::f64 ? 1e-12 : 1e-4);
      }
    }
  }
}

TEST_CASE("QR of small, large, zero and dependent columns") {
  for (const float scale : {1e-37F, 1e-20F, 1.F, 1e20F, 1e37F})
    CHECK(std::abs(qr(from_list({{3 * scale}, {4 * scale}})).r.item<float>() / scale) ==
          doctest::Approx(5).epsilon(1e-6));
  for (const double scale : {5e-324 * 0x1p20, 1e-300, 1e-160, 1e160, 1e300})
    CHECK(std::abs(qr(from_list({{3 * scale}, {4 * scale}})).r.item<double>() / scale) ==
          doctest::Approx(5).epsilon(1e-6));
  const Tensor a = from_list({{0.0, 1e-200, 2e-200, 1e200}, {0.0, 3e-200, 6e-200, 0.0}, {0.0, 4e-200, 8e-200, 1e200}});
  const auto [q, r] = qr(a);
  const Tensor scales = from_list({1.0, 1e200, 1e200, 1e-200});
  check_near(matmul(q, r * scales), a * scales, 1e-14);
  check_near(matmul(transpose(q), q), identity(3), 1e-14);
  check_near(select(r, 1, 0), zeros({3}, {DType::f64}), 0);
}

TEST_CASE("least squares of one small column beside others") {
  const Tensor a = random({6, 3}, DType::f32), b = random({6, 2}, DType::f32), x = lstsq(a, b);
  const Tensor scales = from_list({1.F, 0x1p-70F, 1.F});
  check_near(lstsq(a * scales, b) * unsqueeze(scales, -1), x, 0);
}
