// Derivatives at symmetric matrices, held against central differences along changes that keep the matrix symmetric. A
// function that reads one triangle is a function of symmetric matrices alone, so its gradient is symmetric, and element
// (i, j) beside the diagonal is half of the derivative by the free element, which is in two places. Other functions
// read both places, and the sum of both elements is that derivative.
#include <functional>
#include <string>

#include "tests/linalg/support.hpp"
#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/random.hpp"
#include "weft/transforms.hpp"

using namespace weft;
using namespace weft::linalg;
using namespace weft::test;

namespace {

using Function = std::function<Tensor(const Tensor&)>;
struct Case {
  const char* name;
  bool reads_one_triangle;
  Function f;
};

// Every element counts differently.
Tensor weighted(const Tensor& x) { return sum(flatten(x) * cos(arange(x.element_count(), {DType::f64}) * 1.7 + 0.3)); }

std::vector<Case> cases() {
  const Tensor right = reshape(arange(8, {DType::f64}) - 3.5, {4, 2});
  return {
      {"eigenvectors", true, [](const Tensor& a) { return square(eigh(a).eigenvectors); }},
      {"eigenvectors by the upper triangle", true, [](const Tensor& a) { return square(eigh(a, true).eigenvectors); }},
      {"values and vectors", true,
       [](const Tensor& a) {
         const auto [values, vectors] = eigh(a);
         return square(vectors) * exp(values / 4);
       }},
      {"eigenvalues", true, [](const Tensor& a) { return eigh(a).eigenvalues; }},
      {"eigenvalues alone", true, [](const Tensor& a) { return eigvalsh(a); }},
      {"eigenvalues by the upper triangle", true, [](const Tensor& a) { return eigvalsh(a, true); }},
      {"cholesky", true, [](const Tensor& a) { return cholesky(a); }},
      {"cholesky, upper", true, [](const Tensor& a) { return cholesky(a, true); }},
      {"cholesky_solve", true, [right](const Tensor& a) { return cholesky_solve(right, cholesky(a)); }},
      {"ldl_solve", true,
       [right](const Tensor& a) {
         const auto [ld, pivots] = ldl_factor(a);
         return ldl_solve(ld, pivots, right) + sum(ld);
       }},
      {"left singular vectors", false, [](const Tensor& a) { return square(svd(a).u); }},
      {"right singular vectors", false, [](const Tensor& a) { return square(svd(a, false).vh); }},
      {"singular values", false, [](const Tensor& a) { return svdvals(a); }},
      {"solve", false, [right](const Tensor& a) { return solve(a, right); }},
      {"solve from the right", false, [right](const Tensor& a) { return solve(a, transpose(right), false); }},
      {"inv", false, [](const Tensor& a) { return inv(a); }},
      {"pinv", false, [](const Tensor& a) { return pinv(a); }},
      {"lstsq", false, [right](const Tensor& a) { return lstsq(a, right); }},
      {"det", false, [](const Tensor& a) { return det(a) / 100; }},
      {"slogdet", false, [](const Tensor& a) { return slogdet(a).logabsdet; }},
      {"logdet", false, [](const Tensor& a) { return logdet(a); }},
      {"qr", false, [](const Tensor& a) { return qr(a).q + qr(a).r; }},
      {"lu", false, [](const Tensor& a) { return lu(a).l + lu(a).u; }},
      {"matrix_power", false, [](const Tensor& a) { return matrix_power(a, 3) / 100; }},
      {"nuclear norm", false, [](const Tensor& a) { return matrix_norm(a, "nuc"); }},
      {"spectral norm", false, [](const Tensor& a) { return matrix_norm(a, 2); }},
  };
}

// Symmetric, positive definite, with eigenvalues that are apart.
Tensor symmetric_matrix() {
  Generator generator(3);
  const Tensor x = normal({4, 4}, 0, 1, generator, {DType::f64});
  return (x + transpose(x)) * 0.3 + diag(from_list({3.0, 5.0, 8.0, 12.0}));
}

void check_derivatives(const Case& each, const Function& loss, const Tensor& at, double bound) {
  constexpr std::int64_t n = 4;
  constexpr double step = 1e-5;
  const Numbers found = numbers_of(grad(loss, at));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      Numbers change(n * n);
      change[static_cast<std::size_t>(i * n + j)] = change[static_cast<std::size_t>(j * n + i)] = step;
      const Tensor by = from_span(std::span<const double>(change), {n, n});
      const double slope = (loss(at + by).item() - loss(at - by).item()) / (2 * step);
      const double below = found[static_cast<std::size_t>(i * n + j)],
                   above = found[static_cast<std::size_t>(j * n + i)];
      const double wanted = i == j ? slope : slope / 2;
      if (each.reads_one_triangle) {
        check_near(Numbers{below, above}, Numbers{wanted, wanted}, bound);
      } else {
        check_near(Numbers{(below + above) / 2}, Numbers{wanted}, bound);
      }
    }
}

TEST_CASE("derivatives at symmetric matrices are those by a free element") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    const Function loss = [&](const Tensor& a) { return weighted(each.f(a)); };
    check_derivatives(each, loss, symmetric_matrix(), 1e-7);
  }
}

TEST_CASE("second derivatives at symmetric matrices are those by a free element") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    const Function slope = [&](const Tensor& a) {
      return weighted(grad([&](const Tensor& b) { return weighted(each.f(b)); }, a));
    };
    check_derivatives(each, slope, symmetric_matrix(), 1e-6);
  }
}

// f of a symmetric matrix, by its eigenvalues.
template <class F>
Tensor by_eigenvalues(const Tensor& a, F f) {
  const auto [values, vectors] = eigh(a);
  return matmul(vectors * unsqueeze(f(values), -2), transpose(vectors));
}
// x^(1/2) of a matrix by its singular values, and the matrix of its directions, U V^T.
Tensor root_by_singular_values(const Tensor& a) {
  const auto [u, s, vh] = svd(a, false);
  return matmul(u * unsqueeze(sqrt(s), -2), vh);
}

TEST_CASE("derivatives at equal eigenvalues and singular values of what does not turn with their vectors") {
  const Tensor equal = diag(from_list({3.0, 3.0, 3.0, 3.0})), pairs = diag(from_list({2.0, 2.0, 5.0, 5.0}));
  const Case cases[] = {
      {"sum of the eigenvalues", true,
       [](const Tensor& a) { return sum(eigh(a).eigenvalues) + 0 * sum(eigh(a).eigenvectors); }},
      {"a function of the eigenvalues", true, [](const Tensor& a) { return sum(exp(eigvalsh(a) / 4)); }},
      {"norm of a root", true,
       [](const Tensor& a) { return sum(square(by_eigenvalues(a, [](const Tensor& x) { return sqrt(x); }))); }},
      {"trace of a logarithm", true,
       [](const Tensor& a) { return trace(by_eigenvalues(a, [](const Tensor& x) { return log(x); })); }},
      {"projection on the eigenspace", true,
       [](const Tensor& a) {
         return weighted(by_eigenvalues(a, [](const Tensor& x) { return cast(x > 4, DType::f64); }));
       }},
      {"nuclear norm", false, [](const Tensor& a) { return sum(svd(a).s) + 0 * sum(svd(a).u); }},
      {"norm of a root by singular values", false,
       [](const Tensor& a) { return sum(square(root_by_singular_values(a))); }},
  };
  for (const Tensor& at : {equal, pairs})
    for (const Case& each : cases) {
      CAPTURE(each.name);
      check_derivatives(each, each.f, at, 1e-7);
      if (!each.reads_one_triangle) continue;
      // Forward: along a change of the diagonal, which turns no vectors among themselves.
      const Tensor along = diag(from_list({1.0, -2.0, 0.5, 3.0}));
      check_near(jvp(each.f, at, along).tangent, sum(grad(each.f, at) * along), 1e-12);
    }
}

TEST_CASE("derivatives at equal eigenvalues and singular values, compiled") {
  const auto slopes = [](const Tensor& a) {
    const auto root = [](const Tensor& a) { return by_eigenvalues(a, [](const Tensor& x) { return sqrt(x); }); };
    return grad([&](const Tensor& a) { return sum(square(root(a))) + sum(square(root_by_singular_values(a))); }, a);
  };
  const Tensor equal = diag(from_list({3.0, 3.0, 3.0, 3.0}));
  check_near(slopes(equal), identity(4) * 2, 1e-12);
  check_near(compile(slopes)(equal), identity(4) * 2, 1e-12);
}

TEST_CASE("U V^T at equal singular values has the derivative of the polar factor") {
  const auto polar = [](const Tensor& a) {
    const auto [u, s, vh] = svd(a, false);
    return weighted(matmul(u, vh));
  };
  const Tensor at = diag(from_list({2.0, 2.0, 2.0, 5.0})), found = grad(polar, at);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      Numbers change(16);
      change[static_cast<std::size_t>(i * 4 + j)] = 1e-5;
      const Tensor by = from_span(std::span<const double>(change), {4, 4});
      check_near(numbers_of(found[i][j]), {(polar(at + by).item() - polar(at - by).item()) / 2e-5}, 1e-7);
    }
}

TEST_CASE("a loss that turns with the vectors of equal eigenvalues has an infinite derivative") {
  const Tensor found = grad([](const Tensor& x) { return weighted(eigh(x).eigenvectors); }, identity(3));
  CHECK(!all(isfinite(found)).item<bool>());
}

TEST_CASE("jvp of eigh is the transpose of its vjp, and that of differences") {
  const Tensor at = symmetric_matrix();
  Generator generator(9);
  const Tensor along = normal({4, 4}, 0, 1, generator, {DType::f64});
  for (const Case& each : cases()) {
    if (!each.reads_one_triangle) continue;
    CAPTURE(each.name);
    const auto f = [&](const Tensor& a) { return weighted(each.f(a)); };
    check_near(jvp(f, at, along).tangent, sum(grad(f, at) * along), 1e-11);
  }
}

TEST_CASE("the gradient of an eigenvector by hand") {
  const Tensor a = from_list({{2.0, 1.0}, {1.0, 3.0}});
  const Tensor found = grad([](const Tensor& x) { return square(eigh(x).eigenvectors)[0][0]; }, a);
  // At {{a, b}, {b, c}} the element is (1 - (a - c) / r) / 2 with r^2 = (a - c)^2 + 4 b^2: by a it changes with
  // -2 b^2 / r^3, by c with the opposite, and by b with 2 b (a - c) / r^3, half of it at each of the two places.
  const double side = 1 / std::sqrt(125.0);
  check_near(numbers_of(found), {-2 * side, -side, -side, 2 * side}, 1e-12);
}

}  // namespace
