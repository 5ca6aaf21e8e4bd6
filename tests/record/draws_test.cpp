// Draws of distributions that are made of uniform and normal ones: quantiles and moments, dtypes, the same numbers in
// every way that there is to run them, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft {
namespace {

constexpr int many = 40000;

// The share of the draws that is at most this.
double share(const Tensor& draws, double bound) { return mean(cast(draws <= bound, DType::f64)).item(); }

TEST_CASE("draws have the distribution functions of their distributions") {
  Generator rng(5);
  const Tensor cauchy = weft::cauchy({many}, 1, 2, rng), exponential = weft::exponential({many}, 0.5, rng);
  const Tensor geometric = weft::geometric({many}, 0.3, rng), log_normal = weft::log_normal({many}, 0.5, 0.75, rng);
  for (const double x : {-4.0, -1.0, 1.0, 2.0, 9.0}) {
    CAPTURE(x);
    CHECK(share(cauchy, x) == doctest::Approx(0.5 + std::atan((x - 1) / 2) / 3.14159265358979).epsilon(0.03));
  }
  for (const double x : {0.5, 1.0, 2.0, 6.0}) {
    CAPTURE(x);
    CHECK(share(exponential, x) == doctest::Approx(1 - std::exp(-x / 2)).epsilon(0.03));
    CHECK(share(log_normal, x) ==
          doctest::Approx(0.5 * std::erfc(-(std::log(x) - 0.5) / 0.75 / std::sqrt(2.0))).epsilon(0.04));
    CHECK(share(geometric, x) == doctest::Approx(1 - std::pow(0.7, std::floor(x))).epsilon(0.03));
  }
  CHECK(amin(exponential).item() > 0);
  CHECK(amin(geometric).item() == 1);
  CHECK(all(geometric == floor(geometric)).item() == 1);
  CHECK(mean(geometric).item() == doctest::Approx(1 / 0.3).epsilon(0.02));
  CHECK(mean(exponential).item() == doctest::Approx(2).epsilon(0.03));
}

TEST_CASE("draws in every floating dtype, equal for equal seeds, eagerly and compiled") {
  const auto all_of = [](Generator& rng, const Tensor& like) {
    const Options options{like.dtype(), {}};
    return std::vector{cauchy(like.shape(), 0, 1, rng, options), exponential(like.shape(), 1, rng, options),
                       geometric(like.shape(), 0.25, rng, options), log_normal(like.shape(), 0, 1, rng, options)};
  };
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    CAPTURE(static_cast<int>(dtype));
    const Tensor like = zeros({7, 5}, {dtype});
    Generator a(3);
    const std::vector<Tensor> plain = all_of(a, like);
    for (const Backend backend : {Backend::compiled, Backend::reference}) {
      Generator b(3);
      const std::vector<Tensor> again = compile(all_of, {.backend = backend})(b, like);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        CAPTURE(i);
        CHECK(plain[i].dtype() == dtype);
        CHECK(allclose(plain[i], again[i], {.rtol = 1e-2, .atol = 1e-3}).item() == 1);
      }
    }
  }
}

TEST_CASE("integers between bounds that are tensors") {
  Generator rng(1);
  const Tensor low = from_list<std::int64_t>({{-3}, {10}}), high = from_list<std::int64_t>({0, 1000, 1ll << 30});
  const Tensor draws = randint({500, 2, 3}, low - 5, high + 11, rng);
  CHECK(draws.dtype() == DType::i64);
  CHECK(all((draws >= low - 5) & (draws < high + 11)).item() == 1);
  const Tensor dice = randint({many}, from_list<std::int64_t>({1}), 7, rng);
  for (int face = 1; face <= 6; ++face)
    CHECK(mean(cast(dice == face, DType::f64)).item() == doctest::Approx(1 / 6.0).epsilon(0.05));
  CHECK(mean(cast(randint({many}, cast(zeros({}), DType::i64), std::int64_t{1} << 31, rng), DType::f64)).item() ==
        doctest::Approx(std::ldexp(1.0, 30)).epsilon(0.02));
  const auto draw = [](Generator& rng, const Tensor& low, const Tensor& high) {
    return randint({2, 3}, low, high, rng);
  };
  Generator a(9), b(9);
  CHECK(all(draw(a, low - 5, high + 11) == compile(draw)(b, low - 5, high + 11)).item() == 1);
  Generator c(9);
  auto compiled = compile(draw);
  test::refused([&] { randint({2}, from_list<std::int64_t>({1, 3}), 3, rng); }, "[randint] [low, high) must hold 1");
  test::refused([&] { randint({1}, from_list<std::int64_t>({INT64_MAX}), INT64_MIN, rng); }, "must hold 1 to 2^31");
  test::refused([&] { randint({1}, from_list<std::int64_t>({0}), (1ll << 31) + 1, rng); }, "must hold 1 to 2^31");
  test::refused([&] { randint({1}, zeros({1}), 2, rng); }, "[randint] a bound must be an integer, it is f32[1]");
  CHECK_THROWS_AS(compiled(c, low, low).eval(), Error);
}

TEST_CASE("draws that are refused") {
  test::refused([] { cauchy({3}, 0, 0); }, "[cauchy] sigma must be positive, it is 0");
  test::refused([] { cauchy({3}, INFINITY, 1); }, "[cauchy] the median is inf");
  test::refused([] { exponential({3}, -1); }, "[exponential] the rate must be positive, it is -1");
  test::refused([] { geometric({3}, 1); }, "[geometric] the probability must be between 0 and 1, it is 1");
  test::refused([] { log_normal({3}, 0, 0); }, "[log_normal] the deviation must be positive, it is 0");
  test::refused([] { log_normal({3}, 1, 2, default_generator(), {DType::i32}); },
                "[log_normal] needs a floating dtype, it is i32");
}

}  // namespace
}  // namespace weft
