// What golden values do not show of Fourier transforms: lengths of every kind against the sum that defines them, both
// dtypes, that they are inverted, eager and compiled bits, symbolic lengths, and what is refused.
#include <numbers>
#include <string>

#include "tests/linalg/support.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/fft.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace weft::test;
using fft::Complex;

namespace {

Tensor random(Sizes sizes, DType dtype, std::uint64_t seed = 1) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator, {dtype});
}
double spacing(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

// By the definition, in f64.
Complex by_sums(const Complex& x, std::int64_t n) {
  const Tensor k = arange(n), turns = (unsqueeze(k, 0) * unsqueeze(k, 1)) % n;
  const Tensor angle = cast(turns, DType::f64) * (-2 * std::numbers::pi / static_cast<double>(n));
  const Tensor c = cos(angle), s = sin(angle), a = cast(x.real, DType::f64), b = cast(x.imag, DType::f64);
  return {matmul(a, c) - matmul(b, s), matmul(a, s) + matmul(b, c)};
}

TEST_CASE("lengths of every kind: the sum that defines it, and back") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 30, 31, 37, 64, 97, 100, 128, 202, 243, 509, 510, 1024}) {
      CAPTURE(info(dtype).name);
      CAPTURE(n);
      const double bound =
          4 * spacing(dtype) * std::sqrt(static_cast<double>(n)) * (10 + std::log2(static_cast<double>(n)));
      const Complex x{random({3, n}, dtype), random({3, n}, dtype, 2)};
      const Complex y = fft::fft(x), expected = by_sums(x, n), back = fft::ifft(y);
      CHECK(y.real.dtype() == dtype);
      check_near(y.real, expected.real, bound);
      check_near(y.imag, expected.imag, bound);
      check_near(back.real, x.real, bound);
      check_near(back.imag, x.imag, bound);
      const Complex half = fft::rfft(x.real), whole = fft::fft(x.real);
      CHECK(half.real.size(1) == Dim(n / 2 + 1));
      check_near(half.real, slice(whole.real, 1, 0, n / 2 + 1), bound);
      check_near(half.imag, slice(whole.imag, 1, 0, n / 2 + 1), bound);
      check_near(fft::irfft(half, {.n = n}), x.real, bound);
    }
}

// Long rows are cut into matrices, and real ones are half as long: some numbers of them by the definition, and back.
TEST_CASE("long rows: numbers of the transform, and back, of complex and of real points") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : {32767, 32768, 40000, 65536, 65537, 65538, 83521, 131072, 196608, 1 << 20}) {
      if (dtype == DType::f64 && n > 131072) continue;
      CAPTURE(info(dtype).name);
      CAPTURE(n);
      const double bound = spacing(dtype) * std::sqrt(static_cast<double>(n)) * 40;
      const Complex x{random({2, n}, dtype), random({2, n}, dtype, 2)}, y = fft::fft(x), back = fft::ifft(y);
      check_near(back.real, x.real, bound);
      check_near(back.imag, x.imag, bound);
      const Complex half = fft::rfft(x.real);
      CHECK(half.real.shape() == Shape::of(2, n / 2 + 1));
      check_near(fft::irfft(half, {.n = n}), x.real, bound);
      for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 4 + 3, n / 2, n - 1}) {
        const Tensor turns = cast(arange(n) * k % n, DType::f64) * (-2 * std::numbers::pi / static_cast<double>(n));
        const Tensor c = cos(turns), s = sin(turns), a = cast(x.real, DType::f64), b = cast(x.imag, DType::f64);
        check_near(slice(y.real, 1, k, k + 1), sum(a * c - b * s, 1, true), bound);
        check_near(slice(y.imag, 1, k, k + 1), sum(a * s + b * c, 1, true), bound);
        if (k > n / 2) continue;
        check_near(slice(half.real, 1, k, k + 1), sum(a * c, 1, true), bound);
        check_near(slice(half.imag, 1, k, k + 1), sum(a * s, 1, true), bound);
      }
    }
}

TEST_CASE("a row alone has the bits of the same row in a batch, and of one thread") {
  for (const std::int64_t n : {4096, 100000, 131072}) {
    const Tensor x = random({3, n}, DType::f32);
    const Complex all = fft::rfft(x), one = fft::rfft(slice(x, 0, 1, 2));
    CHECK(numbers_of(slice(all.imag, 0, 1, 2)) == numbers_of(one.imag));
    CHECK(numbers_of(slice(fft::irfft(all), 0, 1, 2)) == numbers_of(fft::irfft(one)));
    const Complex many = fft::fft(x);
    CHECK(numbers_of(slice(many.imag, 0, 2, 3)) == numbers_of(fft::fft(slice(x, 0, 2, 3)).imag));
  }
}

TEST_CASE("imaginary parts at both ends of a half do not count") {
  for (const std::int64_t n : {6, 7, 64}) {
    const Complex half = fft::rfft(random({n}, DType::f64));
    const Tensor k = arange(n / 2 + 1);
    const Tensor ends = cast((k == 0) | (k * 2 == n), DType::f64);
    CHECK(numbers_of(fft::irfft({half.real, half.imag + ends}, {.n = n})) == numbers_of(fft::irfft(half, {.n = n})));
  }
}

Tensor filtered(const Tensor& x) {
  const Complex y = fft::rfft(x, {.axis = 0}), z = fft::fft2({x, square(x)});
  const Tensor low = fft::irfft({y.real * 0.5, y.imag}, {.n = x.size(0), .axis = 0, .norm = fft::Norm::ortho});
  return low + fft::ifftn({square(z.real), fft::fftshift(z.imag)}).imag;
}
Tensor slope(const Tensor& x) {
  return grad([](const Tensor& v) { return sum(square(filtered(v))); }, x);
}

TEST_CASE("eager and compiled give the same bits, and sizes are symbols") {
  const Tensor x = random({3, 10}, DType::f64);
  CHECK(numbers_of(compile(filtered, {.on_compile_error = OnFailure::raise})(x)) == numbers_of(filtered(x)));
  auto compiled = compile(slope, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const auto& [m, n] : {std::pair{6, 4}, {9, 7}, {12, 37}}) {
    const Tensor each = random({m, n}, DType::f64, 7);
    if (m > 9) CHECK(is_compiled(compiled, each));
    check_near(compiled(each), slope(each), 1e-9);
  }
  const auto and_back = [](const Tensor& x) {
    const fft::Complex half = fft::rfft(x);
    return fft::irfft({half.real * 2, half.imag}, {.n = x.shape()[1]});
  };
  for (const Backend backend : {Backend::eager, Backend::reference}) {
    auto by_operation = compile(and_back, {.dynamic = true, .backend = backend});
    for (const int n : {4, 7}) {
      const Tensor each = random({3, n}, DType::f64, 7);
      check_near(by_operation(each), and_back(each), 1e-9);
    }
  }
}

TEST_CASE("integers become f32, and no rows are no rows") {
  CHECK(fft::fft(arange(4)).real.dtype() == DType::f32);
  CHECK(numbers_of(fft::fft(arange(4)).imag) == Numbers{0, 2, 0, -2});
  CHECK(fft::rfft(zeros({0, 6})).real.shape() == Shape::of(0, 4));
  CHECK(numbers_of(fft::fftfreq(5)) == numbers_of(from_list<float>({0, 0.2f, 0.4f, -0.4f, -0.2f})));
  CHECK(fft::fftfreq(4, 2, {DType::f64}).dtype() == DType::f64);
}

TEST_CASE("what does not fit is refused") {
  const Tensor x = ones({2, 3});
  refused([&] { fft::fft(cast(x, DType::bf16)); }, "[fft] needs f32 or f64, it is given bf16[2,3]: cast it first");
  refused([&] { fft::fft({x, ones({3})}); }, "[fft] the real and the imaginary part differ: f32[2,3] and f32[3]");
  refused([&] { fft::ifft({x, cast(x, DType::f64)}); }, "[ifft] the real and the imaginary part differ");
  refused([&] { fft::fft(x, {.axis = 2}); }, "[fft] axis 2 is out of range for 2 axes");
  refused([&] { fft::fft(ones({2, 0})); }, "[fft] needs at least 1 point, of f32[2,0] along axis 1");
  refused([&] { fft::rfft(x, {.n = -2}); }, "[rfft] needs at least 1 point");
  refused([&] { fft::irfft({ones({1}), ones({1})}); }, "[irfft] needs at least 1 point");
  refused([&] { fft::fft(ones({})); }, "[fft] axis -1 is out of range");
  refused([&] { fft::rfftn(ones({})); }, "[rfftn] a tensor of no axes has no points");
  refused([&] { fft::fftn(x, {.axes = {1, -1}}); }, "[fftn] axis 1 is named twice");
  refused([&] { fft::fftn(x, {.axes = {0, 1, 0}}); }, "[fftn] more axes than f32[2,3] has");
  refused([&] { fft::rfft(x, {.n = (std::int64_t{1} << 28) + 1}); }, "[rfft] more than 2^28 points: 268435457");
  refused([&] { fft::irfft({x, x}, {.n = std::int64_t{1} << 50}); }, "[irfft] more than 2^28 points");
  refused([&] { fft::fftfreq(0); }, "[fftfreq] needs at least 1 point");
}

}  // namespace
