// Functions of matrices and signals, what golden values do not show: other dtypes, symbolic sizes, equal bits eagerly
// and compiled, values that are none, and what is refused.
#include <cmath>
#include <limits>

#include "tests/linalg/support.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/random.hpp"
#include "weft/signal.hpp"

using namespace weft;
using namespace weft::linalg;
using namespace weft::test;
namespace windows = weft::signal::windows;

namespace {

Tensor random(Sizes sizes, DType dtype = DType::f64, std::uint64_t seed = 1) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator, {dtype});
}

}  // namespace

TEST_CASE("matrix_exp: rotations, batches of different norms, both dtypes, what is not finite, and nothing") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double bound = dtype == DType::f64 ? 1e-11 : 2e-3;
    for (const double angle : {0.01, 1.0, 30.0, 1000.0}) {
      CAPTURE(angle);
      const Tensor turn = cast(from_list({{0.0, -angle}, {angle, 0.0}}), dtype);
      const double c = std::cos(angle), s = std::sin(angle);
      check_near(numbers_of(matrix_exp(turn)), {c, -s, s, c}, bound);
    }
    // Each matrix of a batch has its own number of squarings.
    const Tensor a = random({3, 4, 4}, dtype), scales = reshape(cast(from_list({0.01, 1.0, 20.0}), dtype), {3, 1, 1});
    const Tensor together = matrix_exp(a * scales);
    for (int i = 0; i < 3; ++i) check_near(numbers_of(matrix_exp(a[i] * scales[i])), numbers_of(together[i]), 0);
    CHECK(numbers_of(compile([](const Tensor& x) { return matrix_exp(x); })(a)) == numbers_of(matrix_exp(a)));
    CHECK(matrix_exp(zeros({0, 3, 3}, {dtype})).shape() == Shape::of(0, 3, 3));
    CHECK(matrix_exp(zeros({2, 0, 0}, {dtype})).shape() == Shape::of(2, 0, 0));
  }
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK(std::isnan(numbers_of(matrix_exp(from_list({{0.0, value}, {1.0, 0.0}})))[0]));
  refused([] { matrix_exp(zeros({2, 3})); }, "[matrix_exp] needs a square matrix");
  refused([] { matrix_exp(zeros({2, 2}, {DType::f16})); }, "needs f32 or f64");
}

TEST_CASE("gradients of matrix_exp, the second one too, are those of differences") {
  const auto f = [](const Tensor& a) { return sum(sin(matrix_exp(a))); };
  const auto slope = [](const Tensor& a) { return grad([](const Tensor& a) { return sum(sin(matrix_exp(a))); }, a); };
  for (const double scale : {0.1, 1.0, 2.0}) {
    const Tensor a = random({3, 3}) * scale, along = random({3, 3}, DType::f64, 5);
    const double by_differences = (f(a + along * 1e-6) - f(a - along * 1e-6)).item() / 2e-6;
    for (int i = 0; i < 2; ++i) {  // the second time all bodies are known
      const double found = sum(slope(a) * along).item();
      CHECK(std::abs(found - by_differences) < 1e-5 * (1 + std::abs(found)));
      check_near(compile(slope)(a), slope(a), 1e-10);
    }
  }
  const Tensor a = random({2, 2}), along = random({2, 2}, DType::f64, 6);
  const auto second = [&](const Tensor& a) { return grad([&](const Tensor& a) { return sum(square(slope(a))); }, a); };
  const auto squares = [&](const Tensor& a) { return sum(square(slope(a))); };
  const double by_differences = (squares(a + along * 1e-6) - squares(a - along * 1e-6)).item() / 2e-6;
  const double found = sum(second(a) * along).item();
  CHECK(std::abs(found - by_differences) < 1e-5 * (1 + std::abs(found)));
}

TEST_CASE("functions of matrices over symbolic sizes are compiled once") {
  const auto f = [](const Tensor& a, const Tensor& b) {
    const auto [lu, pivots] = lu_factor(a);
    const Tensor reflected = householder_product(a, b[0]);
    const auto [ld, blocks] = ldl_factor(a);
    return std::vector{matrix_exp(a),
                       cond(a),
                       cond(a, 1),
                       lu_solve(lu, pivots, transpose(b)),
                       ldl_solve(ld, blocks, transpose(b)),
                       vander(b),
                       reflected,
                       grad([](const Tensor& a) { return sum(matrix_exp(a)) + cond(a, "fro"); }, a)};
  };
  auto compiled = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t n : {3, 4, 6}) {
    CAPTURE(n);
    const Tensor a = random({n, n}) + identity(n) * 2, b = random({2, n}, DType::f64, 2);
    const std::vector<Tensor> expected = f(a, b), found = compiled(a, b);
    for (std::size_t i = 0; i < expected.size(); ++i) check_near(found[i], expected[i], 1e-11);
  }
  CHECK(explain(compiled, random({5, 5}) + identity(5) * 2, random({2, 5})).specializations == 1);
}

TEST_CASE("ldl_factor: blocks of two where the diagonal is 0, what it solves, and what is refused") {
  const auto as_solve = [](const Tensor& a, const Tensor& b) {
    const auto [ld, pivots] = ldl_factor(a);
    return ldl_solve(ld, pivots, b);
  };
  // The numbers of LAPACK's sytrf, by hand: 0 on the diagonal asks for blocks of two, [0 1; 1 0] twice.
  const Tensor swaps =
      from_list({{0.0, 0.0, 0.0, 1.0}, {0.0, 0.0, 2.0, 0.0}, {0.0, 2.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0}});
  const auto [ld, pivots] = ldl_factor(swaps);
  CHECK(numbers_of(pivots) == Numbers{-1, 3, -3, 1});
  CHECK(numbers_of(diagonal(ld, -1)) == Numbers{1, 0, 2});
  const Tensor half = from_list({{4.0, 9.0, 9.0}, {2.0, 5.0, 9.0}, {-2.0, 1.0, 1.0}});  // the lower triangle is read
  const auto [positive, order] = ldl_factor(half);
  check_near(numbers_of(positive), {4, 0, 0, 0.5, 4, 0, -0.5, 0.5, -1}, 1e-15);
  CHECK(numbers_of(order) == Numbers{0, 1, 2});

  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : {1, 2, 3, 5, 8, 33}) {
      const double bound = dtype == DType::f64 ? 1e-8 : 5e-2;
      Tensor a = random({3, n, n}, dtype, 4);
      a = tril(a, -1) + transpose(tril(a, -1)) + (n == 1 ? 1.0 : 1e-3) * identity(n, dtype);
      const Tensor b = random({3, n, 2}, dtype, 5);
      check_near(as_solve(a, b), solve(a, b), bound);
      check_near(compile(as_solve)(a, b), as_solve(a, b), 1e-3 * bound);
      check_near(as_solve(a, b[0]), solve(a, b[0]), bound);  // batches broadcast
      check_near(as_solve(a[0], b), solve(a[0], b), bound);
    }
  CHECK(as_solve(zeros({2, 0, 0}), zeros({2, 0, 3})).shape() == Shape::of(2, 0, 3));

  const Tensor singular = from_list({{1.0, 2.0}, {2.0, 4.0}}), short_side = zeros({3, 1}, {DType::f64});
  const Tensor factors = ld, places = pivots;  // what a lambda may capture
  refused([&] { ldl_factor(singular).ld.eval(); }, "[ldl_factor] the matrix is singular: f64[2,2]");
  refused([] { ldl_factor(zeros({2, 3})); }, "[ldl_factor] needs a square matrix");
  refused([] { ldl_factor(zeros({2, 2}, {DType::f16})); }, "needs f32 or f64");
  refused([&] { ldl_solve(factors, places, short_side); }, "the right side does not fit: f64[4,4] and f64[3,1]");
  refused([&] { ldl_solve(factors, ones({4}), factors); }, "needs pivots [...,n] of integers");
  refused([&] { ldl_solve(factors, places + 1, factors).eval(); }, "[ldl_solve]");
}

TEST_CASE("lu_solve, cond, tensorinv, vander: what has no answer, and what is refused") {
  const Tensor singular = from_list({{1.0, 2.0}, {2.0, 4.0}}), regular = from_list({{1.0, 2.0}, {3.0, 4.0}});
  refused([&] { lu_factor(singular).lu.eval(); }, "[lu_factor] the matrix is singular: f64[2,2]");
  const auto [lu, pivots] = lu_factor(regular);
  CHECK(numbers_of(pivots) == Numbers{1, 0});
  refused([&] { lu_solve(lu, pivots, zeros({3, 1}, {DType::f64})); }, "f64[2,2] and f64[3,1]");
  refused([&] { lu_solve(lu, cast(pivots, DType::f64), regular); }, "needs pivots [...,n] of integers");
  refused([&] { lu_solve(lu, pivots + 1, regular).eval(); }, "[lu_solve]");
  for (const double order : {2.0, 1.0, -1.0, std::numeric_limits<double>::infinity()}) {
    const double found = cond(singular, order).item();
    CHECK((found > 1e15 || (order == -1 && std::isinf(found))));
  }
  const Numbers both = numbers_of(cond(stack({singular, regular}), 1));
  CHECK(std::isinf(both[0]));
  check_near({both[1]}, {21}, 1e-12);
  // The gradient of a batch in which one has no inverse is finite for the others.
  const Tensor slope = grad([](const Tensor& a) { return cond(a, 1)[1]; }, stack({singular, regular}));
  CHECK(std::isfinite(sum(slope[1]).item()));
  refused([&] { cond(zeros({2, 3}), 1); }, "[cond] needs a square matrix");
  refused([&] { cond(regular, 3); }, "the order is 1, 2 or infinity");
  refused([&] { cond(regular, "max"); }, "the order is \"fro\", \"nuc\" or a number");
  refused([&] { tensorinv(zeros({2, 3, 5})); }, "[tensorinv] needs as many elements before axis 2 as from it on");
  refused([&] { tensorinv(zeros({4, 2, 2}), 3); }, "ind is between the axes of f32[4,2,2], it is 3");
  refused([&] { tensorinv(reshape(singular, {2, 2}), 1).eval(); }, "[tensorinv] the matrix is singular");
  refused([&] { tensorsolve(zeros({2, 3}), zeros({2})); }, "as many unknowns");
  refused([&] { tensorsolve(zeros({2, 2}), zeros({2}), {0, 0}); }, "an axis is named twice");
  CHECK(numbers_of(vander(from_list<std::int64_t>({2, -3}), 4)) == Numbers{1, 2, 4, 8, 1, -3, 9, -27});
  CHECK(vander(from_list<std::int64_t>({2, -3})).dtype() == DType::i64);
  CHECK(vander(zeros({3}), 0).shape() == Shape::of(3, 0));
  refused([] { vander(zeros({})); }, "[vander] takes numbers [..., n]");
  CHECK(numbers_of(householder_product(zeros({3, 2}), zeros({0}))) == Numbers{1, 0, 0, 1, 0, 0});
  refused([] { householder_product(zeros({2, 3}), zeros({2})); }, "k <= n <= m: f32[2,3] and f32[2]");
}

TEST_CASE("svd_lowrank finds the singular values of a matrix of low rank") {
  for (const auto& [m, n] : {std::pair{40, 12}, {12, 40}}) {
    const Tensor a = matmul(random({2, m, 3}), random({2, 3, n}, DType::f64, 2));
    Generator generator(7);
    const auto [u, s, v] = svd_lowrank(a, 5, 2, generator);
    CHECK(u.shape() == Shape::of(2, m, 5));
    CHECK(v.shape() == Shape::of(2, n, 5));
    check_near(matmul(u * unsqueeze(s, -2), transpose(v)), a, 1e-10);
    check_near(matmul(transpose(u), u), expand(identity(5), {2, 5, 5}), 1e-10);
    check_near(slice(s, -1, 0, 3), slice(svdvals(a), -1, 0, 3), 1e-10);
  }
  refused([] { svd_lowrank(zeros({4, 3})); }, "[svd_lowrank] q is between 1 and the lesser size of f32[4,3], it is 6");
}

TEST_CASE("istft gives back what stft has taken apart, of any length") {
  const auto f = [](const Tensor& x) {
    const Tensor window = windows::hann(16, false, {x.dtype()});
    const fft::Complex y = stft(x, 16, {.window = window});
    return istft(y, 16, {.window = window, .length = x.size(-1)});
  };
  auto compiled = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t length : {64, 65, 67, 130}) {
    CAPTURE(length);
    const Tensor x = random({3, length});
    check_near(f(x), x, 1e-12);
    check_near(compiled(x), x, 1e-12);
    check_near(f(cast(x, DType::f32)), x, 1e-5);
  }
  const Tensor x = random({100}, DType::f32);
  CHECK(stft(x, 16).real.shape() == Shape::of(9, 26));
  CHECK(stft(x, 16, {.center = false, .onesided = false}).imag.shape() == Shape::of(16, 22));
  refused([&] { stft(x, 0); }, "[stft] n_fft and hop_length must be positive");
  refused([&] { stft(x, 3); }, "they are 3 and 0");
  refused([&] { stft(x, 16, {.win_length = 17}); }, "win_length must be positive and at most n_fft, 16: it is 17");
  refused([&] { stft(x, 16, {.window = ones({8})}); }, "needs a floating window of 16 points, it is f32[8]");
  refused([&] { stft(x, 128, {.center = false}); }, "the signal is shorter than a frame of 128 points: f32[100]");
  refused([&] { stft(cast(x, DType::i32), 16); }, "takes a signal [L] or [B, L] of f32 or f64: i32[100]");
  const fft::Complex y = stft(x, 16);
  refused([&] { istft(y, 18); }, "of 10 frequencies: f32[9,26]");
  refused([&] { istft(y, 16, {.length = -1}); }, "the length is negative: -1");
  refused([&] { istft(y, 16, {.window = zeros({16})}).eval(); }, "[istft] the windows leave points without weight");
  refused([&] { fft::polar(x, cast(x, DType::bf16)); }, "needs f32 or f64");
}

TEST_CASE("windows: one point, none, symbolic sizes, other dtypes") {
  using Window = Tensor (*)(Dim, bool, Options);
  const Window all[] = {[](Dim n, bool sym, Options o) { return windows::hann(n, sym, o); },
                        [](Dim n, bool sym, Options o) { return windows::bartlett(n, sym, o); },
                        [](Dim n, bool sym, Options o) { return windows::cosine(n, sym, o); },
                        [](Dim n, bool sym, Options o) { return windows::gaussian(n, 2, sym, o); },
                        [](Dim n, bool sym, Options o) { return windows::exponential(n, 2, sym, o); },
                        [](Dim n, bool sym, Options o) { return windows::kaiser(n, 5, sym, o); }};
  for (const Window window : all)
    for (const bool sym : {false, true}) {
      CHECK(window(0, sym, {}).shape() == Shape::of(0));
      CHECK(numbers_of(window(1, sym, {})) == Numbers{1});
      const Tensor nine = window(9, sym, {DType::f64});
      check_near(window(9, sym, {DType::f16}), nine, 1e-3);
      CHECK(window(9, sym, {DType::bf16}).dtype() == DType::bf16);
      if (sym) check_near(flip(nine, 0), nine, 1e-14);
    }
  auto like = compile(
      [](const Tensor& x) {
        return x * windows::kaiser(x.size(0), 9, true, {DType::f64}) + windows::hamming(x.size(0), false, {DType::f64});
      },
      {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t n : {5, 8, 31})
    check_near(like(ones({n}, {DType::f64})),
               windows::kaiser(n, 9, true, {DType::f64}) + windows::hamming(n, false, {DType::f64}), 1e-13);
  refused([] { windows::hann(-1); }, "[hann] the count of points is negative: -1");
  refused([] { windows::hann(3, true, {DType::i32}); }, "[hann] needs a floating dtype, not i32");
  refused([] { windows::kaiser(3, -1); }, "[kaiser] beta is between 0 and 10000, it is -1");
  refused([] { windows::gaussian(3, 0); }, "[gaussian]");
  refused([] { windows::general_cosine(3, {}); }, "[general_cosine] needs one number at least");
}
