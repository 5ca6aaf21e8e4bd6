// Eigenvalues and eigenvectors of matrices that need not be symmetric.
#include <cmath>
#include <limits>
#include <utility>

#include "tests/linalg/support.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace weft::linalg;
using namespace weft::test;

namespace {

Tensor random(const Sizes& sizes, DType dtype = DType::f64, std::uint64_t seed = 1) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator, {dtype});
}
double greatest(const Tensor& x) { return amax(abs(x)).item<double>(); }

// a V = V diag(L) with columns of length 1, and eigvals gives the same values.
void check_spectrum(const Tensor& a, double bound) {
  const auto [values, vectors] = eig(a);
  const Tensor re = unsqueeze(values.real, -2), im = unsqueeze(values.imag, -2);
  const Tensor scale = 1 + amax(abs(a));
  CHECK(greatest((matmul(a, vectors.real) - vectors.real * re + vectors.imag * im) / scale) <= bound);
  CHECK(greatest((matmul(a, vectors.imag) - vectors.real * im - vectors.imag * re) / scale) <= bound);
  CHECK(greatest(sum(square(vectors.real) + square(vectors.imag), -2) - 1) <= bound);
  CHECK(greatest(sum(values.imag, -1)) <= bound * scale.item<double>());
  CHECK(greatest((sum(values.real, -1) - sum(diagonal(a, 0, -2, -1), -1)) / scale) <= bound);
  check_near(eigvals(a).real, values.real, 0);
  check_near(eigvals(a).imag, values.imag, 0);
}

TEST_CASE("eigenvectors times eigenvalues are the matrix times eigenvectors") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : {1, 2, 3, 4, 7, 20}) {
      CAPTURE(n);
      const Tensor a = random({3, n, n}, dtype, static_cast<std::uint64_t>(n));
      check_spectrum(a, dtype == DType::f64 ? 1e-12 : 1e-4);
      const fft::Complex vectors = eig(a).vectors;
      const Tensor size = square(vectors.real) + square(vectors.imag);
      CHECK(greatest(where(size == amax(size, -2, true), vectors.imag, 0)) == 0);
      CHECK(vectors.imag.dtype() == dtype);
    }
  check_spectrum(reshape(random({2, 3, 4, 4}), {2, 3, 4, 4}), 1e-12);
  check_spectrum(transpose(random({4, 4})), 1e-12);
}

TEST_CASE("matrices whose eigenvalues are known") {
  const double c = std::cos(0.4), s = std::sin(0.4);
  const auto turned = eig(from_list({{c, -s}, {s, c}}));
  check_near(turned.values.real, from_list({c, c}), 1e-14);
  check_near(turned.values.imag, from_list({s, -s}), 1e-14);
  check_near(square(turned.vectors.real) + square(turned.vectors.imag), full({2, 2}, 0.5, {DType::f64}), 1e-14);

  const Tensor cycle = from_list({{0.0, 0.0, 1.0}, {1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}});  // the roots of x^3 = 1
  check_spectrum(cycle, 1e-14);
  check_near(sum(square(eigvals(cycle).real) + square(eigvals(cycle).imag)), full({}, 3, {DType::f64}), 1e-14);
  CHECK(amax(eigvals(cycle).imag).item<double>() == doctest::Approx(std::sqrt(0.75)));
  CHECK(amax(eigvals(cycle).real).item<double>() == doctest::Approx(1));

  const Tensor defective = from_list({{2.0, 1.0}, {0.0, 2.0}});
  check_spectrum(defective, 1e-14);
  check_near(eigvals(defective).real, from_list({2.0, 2.0}), 0);
  check_near(eigvals(defective).imag, from_list({0.0, 0.0}), 0);
  const Tensor vectors = eig(defective).vectors.real;
  check_near(abs(sum(prod(vectors, -1))), full({}, 1, {DType::f64}), 1e-12);  // they are parallel

  const auto of_zeros = eig(zeros({2, 3, 3}, {DType::f64}));
  check_near(of_zeros.values.real, zeros({2, 3}, {DType::f64}), 0);
  check_near(abs(of_zeros.vectors.real), expand(identity(3), {2, 3, 3}), 0);
}

TEST_CASE("of a symmetric matrix the eigenvalues are those of eigh") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = random({4, 6, 6}, dtype, 5), a = x + transpose(x);
    const double bound = dtype == DType::f64 ? 1e-12 : 1e-4;
    const fft::Complex values = eigvals(a);
    check_near(values.imag, zeros_like(values.imag), 0);
    check_near(sort(values.real).values, eigvalsh(a), bound);
    check_spectrum(a, bound);
  }
}

TEST_CASE("great and small matrices: eigenvalues by a power of two, and the same eigenvectors") {
  for (const auto& [dtype, power] :
       {std::pair{DType::f64, 1000}, {DType::f64, -1000}, {DType::f32, 100}, {DType::f32, -100}}) {
    CAPTURE(power);
    const Tensor a = random({2, 5, 5}, dtype, 3);
    const double factor = std::ldexp(1.0, power);
    const auto plain = eig(a), scaled = eig(a * factor);
    check_near(scaled.values.real / factor, plain.values.real, 0);
    check_near(scaled.values.imag / factor, plain.values.imag, 0);
    check_near(scaled.vectors.real, plain.vectors.real, 0);
    check_near(scaled.vectors.imag, plain.vectors.imag, 0);
  }
}

TEST_CASE("what is not finite gives NaN, in its matrix alone") {
  const Tensor finite = random({3, 4, 4});
  for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const std::int64_t place : {16, 19, 28}) {  // in the second matrix, on the diagonal and on both sides of it
      CAPTURE(place);
      const Tensor a = where(reshape(arange(48), {3, 4, 4}) == place, wrong, finite);
      const auto [values, vectors] = eig(a);
      const fft::Complex alone = eigvals(a);
      for (const Tensor& each : {values.real, values.imag, alone.real, alone.imag})
        CHECK(numbers_of(all(isnan(each), -1)) == Numbers{0, 1, 0});
      for (const Tensor& each : {vectors.real, vectors.imag})
        CHECK(numbers_of(all(isnan(each), {1, 2})) == Numbers{0, 1, 0});
      CHECK(numbers_of(any(isnan(vectors.real), {1, 2})) == Numbers{0, 1, 0});
    }
}

TEST_CASE("of no matrices, and matrices of no elements and of one") {
  CHECK(eig(zeros({0, 3, 3})).vectors.imag.shape() == Shape::of(0, 3, 3));
  CHECK(eigvals(zeros({0, 3, 3})).real.shape() == Shape::of(0, 3));
  CHECK(eig(zeros({2, 0, 0})).vectors.real.shape() == Shape::of(2, 0, 0));
  CHECK(eigvals(zeros({0, 0})).imag.shape() == Shape::of(0));
  const auto [values, vectors] = eig(from_list({{-3.0}}));
  CHECK(numbers_of(values.real) == Numbers{-3});
  CHECK(numbers_of(values.imag) == Numbers{0});
  CHECK(numbers_of(abs(vectors.real)) == Numbers{1});
}

TEST_CASE("compiled, also with sizes that are symbols") {
  const auto f = [](const Tensor& a) {
    const auto [values, vectors] = eig(a);
    return std::vector{values.real, values.imag, vectors.real, vectors.imag, eigvals(a).imag};
  };
  auto compiled = compile(f, {.on_compile_error = OnFailure::raise});
  auto dynamic = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const auto& [batch, n] : {std::pair{3, 5}, {4, 6}, {2, 9}}) {
    const Tensor a = random({batch, n, n}, DType::f64, 7);
    const std::vector<Tensor> wanted = f(a), fixed = compiled(a), symbolic = dynamic(a);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      check_near(fixed[i], wanted[i], 0);
      check_near(symbolic[i], wanted[i], 0);
    }
  }
  CHECK(last_recompile_reason(dynamic).empty());
  CHECK(compiled(zeros({0, 3, 3}))[2].shape() == Shape::of(0, 3, 3));
}

// Every element counts differently.
Tensor weighted(const Tensor& x) { return sum(flatten(x) * cos(arange(x.element_count(), {DType::f64}) * 1.7 + 0.3)); }

// Does not depend on phases.
Tensor loss_of_vectors(const Tensor& a) {
  const auto [values, vectors] = eig(a);
  const Tensor below = roll(vectors.real, 1, -2), imag_below = roll(vectors.imag, 1, -2);
  const Tensor sizes = square(vectors.real) + square(vectors.imag);
  const Tensor products = vectors.real * below + vectors.imag * imag_below;
  const Tensor turns = vectors.real * imag_below - vectors.imag * below;
  return weighted(sizes * unsqueeze(exp(values.real / 4), -2)) + weighted(products) +
         weighted(turns * unsqueeze(sin(values.imag), -2));
}
Tensor loss_of_values(const Tensor& a) {
  const fft::Complex values = eigvals(a);
  return weighted(sin(values.real)) + weighted(values.imag * values.real);
}

// Eigenvalues near 3, 6 and -2 + 2i, -2 - 2i.
Tensor apart(std::uint64_t seed) {
  const Tensor base =
      from_list({{3.0, 0.0, 0.0, 0.0}, {0.0, 6.0, 0.0, 0.0}, {0.0, 0.0, -2.0, 2.0}, {0.0, 0.0, -2.0, -2.0}});
  return base + random({4, 4}, DType::f64, seed) * 0.3;
}

template <class F>
void check_slopes(F f, const Tensor& at, double bound) {
  constexpr double step = 1e-5;
  const std::int64_t n = 4;
  const Tensor found = grad(f, at);
  Numbers wanted;
  for (std::int64_t i = 0; i < n * n; ++i) {
    const Tensor by = reshape(cast(arange(n * n) == i, DType::f64), {n, n}) * step;
    wanted.push_back((f(at + by).item() - f(at - by).item()) / (2 * step));
  }
  check_near(numbers_of(found), wanted, bound);
}

TEST_CASE("derivatives of eigenvalues and eigenvectors are slopes") {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    const Tensor a = apart(seed);
    check_slopes(loss_of_values, a, 1e-7);
    check_slopes(loss_of_vectors, a, 1e-7);
    check_slopes([](const Tensor& x) { return weighted(grad(loss_of_values, x)); }, a, 1e-6);
    check_slopes([](const Tensor& x) { return weighted(grad(loss_of_vectors, x)); }, a, 1e-6);
  }
  const Tensor batch = random({3, 4, 4});
  check_near(grad([](const Tensor& x) { return sum(eigvals(x).real); }, batch), expand(identity(4), {3, 4, 4}), 1e-12);
  check_near(grad([](const Tensor& x) { return sum(square(eig(x).values.imag)); }, batch),
             grad([](const Tensor& x) { return sum(square(eigvals(x).imag)); }, batch), 1e-12);
  auto dynamic = compile([](const Tensor& x) { return grad(loss_of_vectors, x); },
                         {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t n : {3, 5, 4}) {
    const Tensor a = diag(arange(n, {DType::f64}) * 3) + random({n, n}, DType::f64, 6) * 0.3;
    check_near(dynamic(a), grad(loss_of_vectors, a), 1e-9);
  }
}

TEST_CASE("what does not fit is refused") {
  refused([] { eig(ones({2, 3})); }, "[eig] needs a square matrix, or a batch of them, it is given f32[2,3]");
  refused([] { eigvals(ones({2, 3})); }, "[eigvals] needs a square matrix, or a batch of them, it is given f32[2,3]");
  refused([] { eig(ones({3})); }, "[eig] needs a matrix, or a batch of them, it is given f32[3]");
  refused([] { eig(ones({3, 3}, {DType::bf16})); }, "[eig] needs f32 or f64, it is given bf16[3,3]: cast it first");
  refused([] { eigvals(ones({3, 3}, {DType::f16})); }, "[eigvals] needs f32 or f64, it is given f16[3,3]");
  refused([] { eigvals(ones({3, 3}, {DType::i64})); }, "[eigvals] needs f32 or f64, it is given i64[3,3]");
}

}  // namespace
