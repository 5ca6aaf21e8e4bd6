// What golden values do not show: factors multiply back, in both dtypes, of every shape, also of none; eager and
// compiled give the same bits; sizes may be symbols; what is refused, and how.
#include <limits>
#include <string>
#include <tuple>

#include "ir/parse.hpp"
#include "tests/autograd/support.hpp"
#include "tests/linalg/support.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace weft::linalg;
using namespace weft::test;

namespace {

Tensor random(Sizes sizes, DType dtype, std::uint64_t seed = 1) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator, {dtype});
}
double spacing(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }
Tensor gram(const Tensor& x) { return matmul(x, transpose(x)) + identity(x.size(-2), x.dtype()); }

Tensor identity_below(Dim n, DType dtype) { return cast(unsqueeze(arange(n), 1) == arange(n) + 1, dtype); }

void check_orthonormal(const Tensor& columns, double bound) {
  const Tensor product = matmul(transpose(columns), columns);
  check_near(product, expand(identity(columns.size(-1)), product.shape()), bound);
}

// P^T L D L^T P is the matrix; D is symmetric, with blocks of at most two; ldl_solve solves, and reads no other
// triangle.
void check_ldl(const Tensor& a, double bound) {
  const auto [ld, pivots] = ldl_factor(tril(a));
  const Dim n = a.size(-1);
  const Tensor first = cast(pivots < 0, a.dtype()), rows = where(pivots < 0, -1 - pivots, pivots);
  const Tensor below = tril(ld, -1) * identity_below(n, a.dtype()) * unsqueeze(first, -2);
  const Tensor l = tril(ld, -1) - below + identity(n, a.dtype());
  const Tensor d = ld * identity(n, a.dtype()) + below + transpose(below);
  const Tensor permutation = cast(unsqueeze(rows, -1) == arange(n), a.dtype());
  const Tensor product = matmul(matmul(l, d), transpose(l));
  check_near(matmul(transpose(permutation), matmul(product, permutation)), a, bound);
  check_near(triu(ld, 1), ld * 0, 0);
  const Tensor b = matmul(a, random({n, 3}, a.dtype(), 9));
  check_near(matmul(a, ldl_solve(ld, pivots, b)), b, 10 * bound);
}

TEST_CASE("factors multiply back") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto& [m, n] : {std::pair{1, 1}, {2, 2}, {3, 7}, {7, 3}, {40, 40}, {65, 20}, {20, 65}}) {
      CAPTURE(info(dtype).name);
      CAPTURE(m);
      CAPTURE(n);
      const double bound = 200 * std::max(m, n) * spacing(dtype);
      const Tensor a = random({2, m, n}, dtype), spd = gram(a), general = random({2, m, m}, dtype, 2);
      const Tensor lower = cholesky(spd);
      check_near(matmul(lower, transpose(lower)), spd, bound);
      CHECK(numbers_of(triu(lower, 1)) == Numbers(static_cast<std::size_t>(2 * m * m)));
      check_near(cholesky(tril(spd), true), transpose(lower), 0);

      const auto [q, r] = qr(a);
      check_near(matmul(q, r), a, bound);
      check_orthonormal(q, bound);
      check_near(tril(r, -1), r * 0, 0);

      const auto [p, l, u] = lu(general);
      check_near(matmul(p, matmul(l, u)), general, bound);
      check_near(tril(u, -1) + triu(l, 1), u * 0, 0);
      CHECK(amax(abs(l)).item<double>() == 1);

      const Tensor symmetric = general + transpose(general);
      check_ldl(symmetric, bound);
      check_ldl(spd, bound);

      const auto [values, vectors] = eigh(symmetric);
      check_near(matmul(symmetric, vectors), vectors * unsqueeze(values, -2), bound);
      check_orthonormal(vectors, bound);
      check_near(sort(values).values, values, 0);
      check_near(eigvalsh(tril(general) + transpose(tril(general, -1))), eigh(general).eigenvalues, bound);
      check_near(eigvalsh(general, true), eigvalsh(transpose(general)), bound);

      const auto [left, s, right] = svd(a, false);
      check_near(matmul(left * unsqueeze(s, -2), right), a, bound);
      check_orthonormal(left, bound);
      check_orthonormal(transpose(right), bound);
      check_near(sort(s, -1, true).values, s, 0);
      CHECK(amin(s).item<double>() >= 0);
      check_near(svdvals(a), s, bound);
      const SVD full = svd(a);
      CHECK(full.u.shape() == Shape::of(2, m, m));
      CHECK(full.vh.shape() == Shape::of(2, n, n));
      check_orthonormal(full.u, bound);
      check_orthonormal(full.vh, bound);
      const Dim k = std::min(m, n);
      check_near(matmul(slice(full.u, -1, 0, k) * unsqueeze(full.s, -2), slice(full.vh, -2, 0, k)), a, bound);

      check_near(matmul(matmul(a, pinv(a)), a), a, bound);
      check_near(matmul(inv(spd), spd), expand(identity(m), spd.shape()), bound * 100);
      check_near(matmul(spd, solve(spd, a)), a, bound * 100);
      check_near(exp(slogdet(spd).logabsdet / m), pow(det(spd), 1.0 / m), bound * 10);
      CHECK(numbers_of(matrix_rank(a)) == Numbers(2, std::min(m, n)));
    }
}

TEST_CASE("triangles: every option solves its system") {
  const Tensor a = random({3, 5, 5}, DType::f64) + identity(5) * 4, b = random({3, 5, 2}, DType::f64, 3);
  for (const bool upper : {false, true})
    for (const bool unit : {false, true}) {
      Tensor triangle = upper ? triu(a) : tril(a);
      if (unit) triangle = triangle - diag(ones({5}, {DType::f64})) * triangle + identity(5);
      const Tensor x = solve_triangular(a, b, {.upper = upper, .unitriangular = unit});
      check_near(matmul(triangle, x), b, 1e-10);
      const Tensor y = solve_triangular(a, transpose(b), {.upper = upper, .left = false, .unitriangular = unit});
      check_near(matmul(y, triangle), transpose(b), 1e-10);
    }
  check_near(solve_triangular(a[0], b), solve_triangular(expand(a[0], {3, 5, 5}), b), 0);  // batches broadcast
}

// Everything that has one answer.
std::vector<Tensor> answers(const Tensor& a, const Tensor& b) {
  const Tensor spd = gram(a), x = solve(spd, b);
  const auto [q, r] = qr(a);
  const auto [values, vectors] = eigh(spd);
  const auto [u, s, vh] = svd(a, false);
  const auto [sign, size] = slogdet(spd);
  return {cholesky(spd),
          solve_triangular(spd, b),
          x,
          inv(spd),
          det(spd / 30),
          sign,
          size,
          q,
          r,
          values,
          vectors,
          u,
          s,
          vh,
          pinv(a),
          lstsq(a, b)};
}

TEST_CASE("eager and compiled give the same bits") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : {1, 4, 33}) {
      const Tensor a = random({3, n + 2, n}, dtype), b = random({3, n + 2, 2}, dtype, 5);
      const std::vector<Tensor> eager = answers(a, b),
                                compiled = compile(answers, {.on_compile_error = OnFailure::raise})(a, b);
      REQUIRE(eager.size() == compiled.size());
      for (std::size_t i = 0; i < eager.size(); ++i) {
        CAPTURE(i);
        if (i != 14) CHECK(numbers_of(eager[i]) == numbers_of(compiled[i]));
        check_near(eager[i], compiled[i],
                   1000 * spacing(dtype));  // products of a pseudoinverse may be summed otherwise
      }
    }
}

Tensor loss(const Tensor& a, const Tensor& b) {
  const Tensor spd = gram(a);
  return sum(solve(spd, b)) + sum(cholesky(spd)) + sum(slogdet(spd).logabsdet) + sum(square(svdvals(a))) +
         sum(square(qr(a).r)) + sum(eigvalsh(spd)) + sum(det(spd) * 1e-3) + sum(inv(spd));
}
Tensor slope(const Tensor& a, const Tensor& b) {
  return grad([&](const Tensor& x) { return loss(x, b); }, a);
}

TEST_CASE("sizes are symbols") {
  auto compiled = compile(slope, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const auto& [batch, m, n] : {std::tuple{3, 5, 4}, {5, 6, 3}, {7, 8, 6}}) {
    const Tensor a = random({batch, m, n}, DType::f64, 7), b = random({batch, m, 2}, DType::f64, 8);
    if (m > 5) CHECK(is_compiled(compiled, a, b));
    check_near(compiled(a, b), slope(a, b), 1e-9);
  }
}

TEST_CASE("of no matrices, and matrices of no elements") {
  const Tensor none = zeros({0, 3, 3}), empty = zeros({2, 0, 0}, {DType::f64});
  CHECK(cholesky(none).shape() == Shape::of(0, 3, 3));
  CHECK(solve(none, zeros({0, 3, 2})).shape() == Shape::of(0, 3, 2));
  CHECK(svd(none).s.shape() == Shape::of(0, 3));
  CHECK(eigh(none).eigenvectors.shape() == Shape::of(0, 3, 3));
  CHECK(numbers_of(det(empty)) == Numbers{1, 1});
  CHECK(numbers_of(slogdet(empty).logabsdet) == Numbers{0, 0});
  CHECK(inv(empty).shape() == Shape::of(2, 0, 0));
  CHECK(qr(zeros({4, 0})).q.shape() == Shape::of(4, 0));
  check_near(svd(zeros({2, 0}, {DType::f64})).u, identity(2), 0);
  CHECK(svdvals(zeros({3, 0})).shape() == Shape::of(0));
  CHECK(solve(identity(3, DType::f32), zeros({3, 0})).shape() == Shape::of(3, 0));
  auto compiled = compile([](const Tensor& x) { return std::vector{cholesky(x), eigvalsh(x), inv(x), qr(x).r}; });
  for (const Tensor& each : compiled(none)) CHECK(each.size(0) == Dim(0));
}

TEST_CASE("singular matrices") {
  const Tensor singular = from_list({{1.0, 2.0}, {2.0, 4.0}}), zero = zeros({2, 2}, {DType::f64});
  CHECK(det(singular).item<double>() == 0);
  CHECK(slogdet(singular).sign.item<double>() == 0);
  CHECK(slogdet(zero).logabsdet.item<double>() == -std::numeric_limits<double>::infinity());
  CHECK(matrix_rank(singular).item<std::int64_t>() == 1);
  CHECK(matrix_rank(zero).item<std::int64_t>() == 0);
  check_near(pinv(singular), singular / 25, 1e-12);
  check_near(numbers_of(pinv(zero)), Numbers(4), 0);
  check_near(numbers_of(matrix_rank(from_list({{1.0, 0.0}, {0.0, 1e-3}}), 1e-2)), {1}, 0);
  check_near(numbers_of(qr(singular).r), numbers_of(matmul(transpose(qr(singular).q), singular)), 1e-12);
}

// The gradient's product with a direction is the difference of the function along it.
template <class F>
void check_by_differences(F f, const Tensor& a, const Tensor& along) {
  const double expected = (f(a + along * 1e-6) - f(a - along * 1e-6)).item() / 2e-6;
  const auto slope = [](const Tensor& x) { return grad(F(), x); };
  for (const Backend backend : {Backend::compiled, Backend::eager})
    CHECK(sum(compile(slope, {.backend = backend})(a) * along).item() == doctest::Approx(expected).epsilon(1e-6));
}
TEST_CASE("the derivative of det is that of the cofactors, at singular matrices too; second derivatives of a batch") {
  const auto f = [](const Tensor& a) { return sum(det(a)); };
  const auto slope = [](const Tensor& x) { return grad([](const Tensor& a) { return sum(det(a)); }, x); };
  const Tensor along = from_list({{0.3, -0.2, 0.5}, {0.1, 0.7, -0.4}, {-0.6, 0.2, 0.9}});
  const Tensor rank_two = from_list({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 1.0}});
  const Tensor rank_one = from_list({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {0.0, 0.0, 0.0}});
  const Tensor regular_three = from_list({{2.0, 1.0, 0.0}, {1.0, 3.0, 1.0}, {0.0, 1.0, 2.0}});
  for (const Tensor& a : {rank_two, regular_three}) check_by_differences(f, a, along);
  check_near(numbers_of(slope(rank_one)), Numbers(9), 1e-12);
  check_near(numbers_of(slope(zeros({3, 3}, {DType::f64}))), Numbers(9), 0);
  check_by_differences(f, stack({rank_two, regular_three}), stack({along, along}));
  const Numbers found =
      numbers_of(slope(concat({reshape(from_list({2.0, 1.0, 1.0, 3.0}), {1, 2, 2}), zeros({1, 2, 2}, {DType::f64})})));
  check_near(found, {3, -1, -1, 2, 0, 0, 0, 0}, 1e-12);
  const auto second = [&](const Tensor& x) { return grad([&](const Tensor& y) { return sum(square(slope(y))); }, x); };
  const Tensor regular = from_list({{2.0, 1.0}, {1.0, 3.0}});
  check_near(numbers_of(second(stack({regular, regular}))), {4, 2, 2, 6, 4, 2, 2, 6}, 1e-12);
}
TEST_CASE("the derivative of pinv in f32 is near that in f64 where all singular values count") {
  const auto slope = [](const Tensor& a) { return grad([](const Tensor& a) { return sum(sin(pinv(a))); }, a); };
  const Tensor a = random({5, 5}, DType::f32, 4), expected = slope(cast(a, DType::f64));  // the least is 0.027
  const Tensor found = cast(slope(a), DType::f64);
  CHECK(amax(abs(found - expected) / (1 + abs(expected))).item() < 2e-4);  // 1.6e-3 with the terms that are 0
}
TEST_CASE("the derivative of pinv is finite at every rank, and at equal singular values") {
  const auto f = [](const Tensor& a) { return sum(sin(pinv(a))); };
  const Tensor along = from_list({{0.3, -0.2, 0.5}, {0.1, 0.7, -0.4}, {-0.6, 0.2, 0.9}});
  check_by_differences(f, cast(eye(3), DType::f64), along);
  // Directions that keep the rank: b a + a c.
  const Tensor rank_one = from_list({{1.0, 2.0, 0.0}, {2.0, 4.0, 0.0}, {0.0, 0.0, 0.0}});
  const Tensor b = along, c = transpose(along) * 0.5;
  const auto moved = [&](const Tensor& t) {
    const Tensor identity = cast(eye(3), DType::f64);
    return matmul(matmul(identity + b * t, rank_one), identity + c * t);
  };
  const auto through = [&](const Tensor& t) { return f(moved(t)); };
  const double slope = grad(through, zeros({}, {DType::f64})).item();
  const Tensor step = full({}, 1e-6, {DType::f64});
  CHECK(slope == doctest::Approx((through(step) - through(-step)).item() / 2e-6).epsilon(1e-6));
  const auto second = [](const Tensor& a) {
    return sum(square(grad([](const Tensor& a) { return sum(sin(pinv(a))); }, a)));
  };
  const Tensor wide = from_list({{1.0, 2.0, 0.5}, {-1.0, 0.3, 2.0}});
  check_by_differences(f, wide, slice(along, 0, 0, 2));
  check_by_differences(second, wide, slice(along, 0, 0, 2));
}

TEST_CASE("derivatives of vector_norm are PyTorch's where elements are 0") {
  const auto slope = [](const Tensor& x, double p) {
    return numbers_of(grad([p](const Tensor& v) { return vector_norm(v, p); }, x));
  };
  const Tensor x = from_list({1.0, 0.0, 2.0});
  for (const double p : {-1.0, -2.0, -0.5, -std::numeric_limits<double>::infinity()}) {
    CAPTURE(p);
    CHECK(slope(x, p) == Numbers(3));
    CHECK(slope(x * 0, p) == Numbers(3));
    CHECK(vector_norm(x, p).item<double>() == 0);
  }
  for (const double p : {0.5, 1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
    CHECK(slope(x * 0, p) == Numbers(3));
  check_near(slope(x, 3), {0.2311204247835449, 0, 0.9244816991341795}, 1e-12);
  check_near(slope(from_list({1.0, 4.0, 2.0}), -1), {16.0 / 49, 1.0 / 49, 4.0 / 49}, 1e-12);
}

TEST_CASE("what is not finite gives NaN, in its matrix alone") {
  const Tensor finite = random({3, 4, 4}, DType::f64);
  for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const std::int64_t place : {16, 20, 28}) {  // the corner of the second matrix, and below its diagonal
      CAPTURE(place);
      const Tensor a = where(reshape(arange(48), {3, 4, 4}) == place, wrong, finite);
      const auto [u, s, vh] = svd(a);
      const auto [values, vectors] = eigh(a);
      for (const Tensor& each : {s, svdvals(a), values, eigvalsh(a)})
        CHECK(numbers_of(all(isnan(each), -1)) == Numbers{0, 1, 0});
      for (const Tensor& each : {u, vh, vectors}) CHECK(numbers_of(all(isnan(each), {1, 2})) == Numbers{0, 1, 0});
    }
}

TEST_CASE("a matrix that is not what a function needs is the user's error") {
  const Tensor singular = from_list({{1.0, 2.0}, {2.0, 4.0}}), negative = from_list({{1.0, 2.0}, {2.0, 1.0}});
  refused([&] { cholesky(negative); }, "[cholesky] the matrix is not positive definite: f64[2,2]");
  refused([&] { inv(singular); }, "[inv] the matrix is singular: f64[2,2]");
  refused([&] { solve(singular, negative); }, "[solve] the matrix is singular: f64[2,2]");
  refused([&] { matrix_power(singular, -1); }, "[matrix_power] the matrix is singular");
  const Tensor positive = from_list({{2.0, 1.0}, {1.0, 2.0}}), batch = stack({positive, negative, singular, positive});
  refused([&] { cholesky(batch); }, "[cholesky] matrix 1 of the batch is not positive definite: f64[4,2,2]");
  refused([&] { inv(reshape(batch, {2, 2, 2, 2})); }, "[inv] matrix [1,0] of the batch is singular: f64[2,2,2,2]");
  CHECK(cholesky(stack({positive, positive})).shape().same(Shape::of(2, 2, 2)));
  auto factors = compile([](const Tensor& x) { return cholesky(x) * 2; }, {.on_compile_error = OnFailure::raise});
  CHECK_THROWS_WITH_AS(
      factors(batch).eval(),
      doctest::Contains("[cholesky] a matrix of the batch is not positive definite: f64[4,2,2], at linalg_test.cpp:"),
      Error);
  auto compiled = compile([](const Tensor& x) { return sum(inv(x)) + 1; }, {.on_compile_error = OnFailure::raise});
  CHECK(compiled(negative).item<double>() == doctest::Approx(5.0 / 3));
  CHECK_THROWS_WITH_AS(compiled(singular).item<double>(),
                       doctest::Contains("[inv] the matrix is singular: f64[2,2], at linalg_test.cpp:"), Error);
  CHECK(compiled(negative).item<double>() == doctest::Approx(5.0 / 3));
}

TEST_CASE("what does not fit is refused") {
  const Tensor a = ones({3, 3}), wide = ones({2, 3}), b = ones({2, 2});
  refused([&] { cholesky(wide); }, "[cholesky] needs a square matrix, or a batch of them, it is given f32[2,3]");
  refused([&] { inv(ones({3})); }, "[inv] needs a matrix, or a batch of them, it is given f32[3]");
  refused([&] { det(cast(a, DType::bf16)); }, "[det] needs f32 or f64, it is given bf16[3,3]: cast it first");
  refused([&] { qr(cast(a, DType::i64)); }, "[qr] needs f32 or f64, it is given i64[3,3]");
  refused([&] { solve(a, b); }, "[solve] the right side does not fit: f32[3,3] and f32[2,2]");
  refused([&] { solve(a, cast(a, DType::f64)); }, "[solve] dtypes differ: f32[3,3] and f64[3,3]");
  refused([&] { solve(a, cast(ones({3}), DType::f64)); }, "[solve] dtypes differ: f32[3,3] and f64[3], at");
  refused([&] { solve(a, ones({2})); }, "[solve] the right side does not fit: f32[3,3] and f32[2]");
  refused([&] { solve(ones({2, 3, 3}), ones({4, 3, 3})); }, "[solve] batch sizes differ");
  refused([&] { solve(a, ones({3}), false); }, "[solve] a vector must be on the right of the matrix");
  refused([&] { solve_triangular(a, b); }, "[solve_triangular] the right side does not fit");
  refused([&] { lstsq(a, b); }, "[lstsq] the right side does not fit");
  refused([&] { matrix_norm(a, "max"); }, "[matrix_norm] the order is \"fro\", \"nuc\" or a number, not \"max\"");
  refused([&] { matrix_norm(a, 3); }, "[matrix_norm] the order is 1, 2 or infinity");
  refused([&] { vector_norm(arange(3), 3); }, "[vector_norm] needs a floating dtype, it is given i64[3]");
  refused([&] { grad([](const Tensor& x) { return sum(svd(x).u); }, wide); }, "full_matrices = false");
  CHECK(grad([](const Tensor& x) { return sum(svd(x).s); }, wide).shape() == Shape::of(2, 3));
}

TEST_CASE("the text of a graph of several results reads back") {
  const Literal a = numbers(Shape::of(2, 4, 3), -2, 2, 1);
  const std::string text = to_text(trace(
      [](const std::vector<Tensor>& x) {
        const auto [u, s, vh] = svd(x[0], false);
        const Tensor upper = qr(x[0]).r;
        const auto [values, vectors] = eigh(gram(x[0]), true);
        return std::vector{u, s, vh, solve_triangular(upper, vh, {.upper = true}), values, vectors};
      },
      std::span(&a, 1)));
  CHECK(text.find("f64[2,3], f64[2,4,3], f64[2,3,3] = svd(") != std::string::npos);
  CHECK(text.find("; upper") != std::string::npos);
  CHECK(to_text(parse_graph(text)) == text);
}

TEST_CASE("cross: other axes broadcast, and sizes may be symbols") {
  const auto f = [](const Tensor& a, const Tensor& b) {
    return std::vector{cross(a, b), cross(transpose(a), transpose(b), 0)};
  };
  auto dynamic = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const int rows : {4, 2, 5}) {
    CAPTURE(rows);
    const Tensor a = random({rows, 3}, DType::f64), b = random({1, 3}, DType::f64, 2);
    const std::vector<Tensor> found = dynamic(a, b);
    check_near(found[0], cross(a, expand(b, {rows, 3})), 0);
    check_near(found[1], transpose(found[0]), 0);
    check_near(sum(found[0] * a, -1), zeros({rows}, {DType::f64}), 1e-14);
  }
  CHECK(last_recompile_reason(dynamic).empty());
  CHECK_THROWS_WITH_AS(dynamic(ones({4, 2}), ones({1, 3})),
                       doctest::Contains("[cross] needs 3 elements along axis -1: "), Error);
}

TEST_CASE("in the body of a loop") {
  const auto f = [](const Tensor& a) {
    return fori(
        0, 3, [](Index, const Tensor& x) { return inv(x + identity(2)); }, a);
  };
  const Tensor a = from_list({{1.0, 0.5}, {0.25, 2.0}});
  Tensor expected = a;
  for (int i = 0; i < 3; ++i) expected = inv(expected + identity(2));
  check_near(f(a), expected, 1e-14);
  check_near(compile(f, {.on_compile_error = OnFailure::raise})(a), expected, 1e-14);
}

}  // namespace

TEST_CASE("cross, cdist, kron, logdet and cholesky_solve: what does not fit, and what has no logarithm") {
  refused([] { cross(ones({2, 4}), ones({2, 4})); }, "[cross] needs 3 elements along axis -1: f32[2,4] x f32[2,4]");
  refused([] { cross(ones({2, 1}), ones({2, 3})); }, "[cross] needs 3 elements along axis -1: f32[2,1] x f32[2,3]");
  refused([] { cross(ones({3, 2}), ones({1, 2}), 0); }, "[cross] needs 3 elements along axis 0: f32[3,2] x f32[1,2]");
  refused([] { cross(ones({3}), ones({2, 3})); }, "[cross] needs operands of as many axes: f32[3] x f32[2,3]");
  refused([] { cdist(ones({2, 4}), ones({2, 3})); }, "[cdist] needs rows of one length");
  refused([] { cdist(ones({2, 4}), ones({2, 4}), -1); }, "p must not be negative");
  refused([] { kron(ones({1, 1, 1, 1, 1}), ones({2})); }, "[kron] takes at most 4 axes, there are 5");
  refused([] { cholesky_solve(ones({2, 2}), ones({2})); }, "[cholesky_solve] needs a triangle");
  refused([] { cholesky_solve(ones({3, 2}), ones({2, 2})); }, "[cholesky_solve] the right side does not fit");
  CHECK(std::isnan(logdet(from_list({{0.0, 1.0}, {1.0, 0.0}})).item()));
  CHECK(logdet(zeros({2, 2})).item() == -std::numeric_limits<double>::infinity());
}
