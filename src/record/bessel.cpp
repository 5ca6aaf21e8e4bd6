// Bessel functions of order 0 and 1, and the modified ones. Below 8 polynomials, from there on what the functions are
// at infinity times polynomials of 1 / x or 1 / x^2 (Abramowitz and Stegun 9.2 and 9.7). Each part is given an argument
// of its own, so that the part that is not taken makes no NaN of a derivative.
#include <array>

#include "record/special.hpp"
#include "record/special_coefficients.hpp"
#include "weft/special.hpp"

namespace weft {
namespace {

using namespace coefficients;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double two_over_pi = 0.63661977236758134, root_of_inverse_pi = 0.56418958354775629;
constexpr double border = 8;  // between the two parts

Tensor with_sign_of(const Tensor& x, const Tensor& value) { return where(x < 0, -value, value); }
// An odd function, from x times a factor for small x and its values for large |x|.
template <class Parts>
Tensor odd(const Tensor& x, const Parts& parts, const Tensor& factor, const Tensor& large) {
  return where(parts.is_small, factor * where(parts.is_small, x, 0), with_sign_of(x, large));
}

// ---- modified: I0 and I1 --------------------------------------------------------------------------------------------

// I_n(x) = (x / 2)^n sum_k (x^2 / 4)^k / (k! (k + n)!): Abramowitz and Stegun 9.6.10. All terms are positive.
template <int order>
constexpr std::array<double, 26> series = [] {
  std::array<double, 26> terms{};
  long double term = 1;
  for (int k = 0; k < 26; ++k) {
    if (k > 0) term /= static_cast<long double>(k) * (k + order);
    terms[static_cast<std::size_t>(k)] = static_cast<double>(term);
  }
  return terms;
}();

// Of |x|: the arguments of both parts, and what is the same for both functions.
struct ModifiedBessel {
  Tensor is_small, small, quarter_square, large, t;
  explicit ModifiedBessel(const Tensor& x) {
    const Tensor size = abs(x);
    is_small = size < border;
    small = where(is_small, size, 0);
    quarter_square = small * small * 0.25;
    large = where(is_small, border, size);
    t = 16 / large - 1;
  }
  Tensor i0() const { return polynomial(quarter_square, series<0>); }
  Tensor i1_by_x() const { return polynomial(quarter_square, series<1>) * 0.5; }
  // exp(-x) I(x).
  Tensor scaled(std::span<const double> of) const { return polynomial(t, of) / sqrt(large); }
  Tensor scaled_slope(std::span<const double> of) const {
    return (polynomial(t, of) * -0.5 - polynomial_slope(t, of) * (16 / large)) / (large * sqrt(large));
  }
  // exp(x) times a value of about 1 / sqrt(x), without overflow where the product has none: x - 8 is exact, as x >= 8.
  Tensor grown(const Tensor& value) const { return exp(large - 8) * (value * 2980.9579870417283); }
  ModifiedBessel finite() const {  // infinite where the function is, and not infinity times 0
    ModifiedBessel held = *this;
    held.large = minimum(large, 2000);
    held.t = 16 / held.large - 1;
    return held;
  }
};

Tensor i0_of(const Tensor& x) {
  const ModifiedBessel m = ModifiedBessel(x).finite();
  return where(m.is_small, m.i0(), m.grown(m.scaled(i0_large)));
}
Tensor i1_of(const Tensor& x) {
  const ModifiedBessel m = ModifiedBessel(x).finite();
  return odd(x, m, m.i1_by_x(), m.grown(m.scaled(i1_large)));
}
Tensor i1_slope(const Tensor& x) {
  const ModifiedBessel m = ModifiedBessel(x).finite();
  return where(m.is_small, m.i0() - m.i1_by_x(), m.grown(m.scaled(i0_large) - m.scaled(i1_large) / m.large));
}
Tensor i0e_of(const Tensor& x) {
  const ModifiedBessel m(x);
  return where(m.is_small, m.i0() * exp(-m.small), m.scaled(i0_large));
}
Tensor i1e_of(const Tensor& x) {
  const ModifiedBessel m(x);
  return odd(x, m, m.i1_by_x() * exp(-m.small), m.scaled(i1_large));
}
// A kink at 0, where PyTorch gives 0.
Tensor i0e_slope(const Tensor& x) {
  const ModifiedBessel m(x);
  return where(m.is_small, (m.i1_by_x() * m.small - m.i0()) * exp(-m.small), m.scaled_slope(i0_large)) * sign(x);
}
Tensor i1e_slope(const Tensor& x) {
  const ModifiedBessel m(x);
  const Tensor i1_by_x = m.i1_by_x();
  return where(m.is_small, (m.i0() - i1_by_x - i1_by_x * m.small) * exp(-m.small), m.scaled_slope(i1_large));
}

// ---- J and Y --------------------------------------------------------------------------------------------------------

// Of |x|: the arguments of both parts.
struct Waves {
  Tensor is_small, small, square, t, large;
  explicit Waves(const Tensor& x) {
    const Tensor size = abs(x);
    is_small = size < border;
    small = where(is_small, size, 0);
    square = small * small;
    t = square / 32 - 1;
    large = where(is_small, border, size);
  }
  Tensor j0() const { return by_zeros(j0_small, j0_roots, 1 - square * 0.25); }
  Tensor j1_by_x() const { return by_zeros(j1_small, j1_roots, 0.5 - square * 0.0625); }

  // Hankel: sqrt(2 / (pi x)) (P cos(u) - Q sin(u)) of J and (P sin(u) + Q cos(u)) of Y, u = x - (n / 2 + 1 / 4) pi.
  // With cos(x - pi / 4) = (cos(x) + sin(x)) / sqrt(2) nothing is taken from a large x.
  Tensor cosine_wave(std::span<const double> p, std::span<const double> q) const { return wave(p, q, true); }
  Tensor sine_wave(std::span<const double> p, std::span<const double> q) const { return wave(p, q, false); }

 private:
  // As a product with the distances of x^2 to the zeros; next to 0 by two terms, which are exact there.
  Tensor by_zeros(std::span<const double> of, const double (&zeros)[4], const Tensor& at_zero) const {
    const Tensor product = (square - zeros[0] - zeros[1]) * (square - zeros[2] - zeros[3]) * polynomial(t, of);
    return where(square < 1e-10, at_zero, product);
  }
  Tensor wave(std::span<const double> p, std::span<const double> q, bool is_cosine) const {
    const Tensor w = 128 / (large * large) - 1, s = sin(large), c = cos(large);
    const Tensor first = polynomial(w, p), second = polynomial(w, q) * (8 / large);
    const Tensor both = is_cosine ? first * (c + s) + second * (c - s) : first * (s - c) + second * (s + c);
    return both * (root_of_inverse_pi / sqrt(large));
  }
};

Tensor j0_of(const Tensor& x) {
  const Waves w(x);
  return where(w.is_small, w.j0(), w.cosine_wave(p0, q0));
}
Tensor j1_of(const Tensor& x) {
  const Waves w(x);
  return odd(x, w, w.j1_by_x(), w.sine_wave(p1, q1));
}
Tensor j0_slope(const Tensor& x) { return -j1_of(x); }
Tensor j1_slope(const Tensor& x) {
  const Waves w(x);
  return where(w.is_small, w.j0() - w.j1_by_x(), w.cosine_wave(p0, q0) - w.sine_wave(p1, q1) / w.large);
}

// -inf at 0, NaN below: what `value` is of positive numbers.
Tensor for_positive(const Tensor& x, const Tensor& value) {
  return where(x > 0, value, where(x == 0, -infinity, std::numeric_limits<double>::quiet_NaN()));
}
// Positive, also where the small part is not taken.
Tensor positive_part(const Waves& w) { return where(w.is_small & (w.small > 0), w.small, 1); }
Tensor y0_of(const Tensor& x) {
  const Waves w(x);
  const Tensor near = polynomial(w.t, y0_small) + log(positive_part(w)) * two_over_pi * w.j0();
  return for_positive(x, where(w.is_small, near, w.sine_wave(p0, q0)));
}
Tensor y1_of(const Tensor& x) {
  const Waves w(x);
  const Tensor a = positive_part(w);
  const Tensor near = w.small * polynomial(w.t, y1_small) + (log(a) * w.j1_by_x() * w.small - 1 / a) * two_over_pi;
  return for_positive(x, where(w.is_small, near, -w.cosine_wave(p1, q1)));
}
Tensor y0_slope(const Tensor& x) { return -y1_of(x); }
Tensor y1_slope(const Tensor& x) {
  const Tensor is_zero = x == 0;
  return where(is_zero, infinity, y0_of(x) - y1_of(x) / where(is_zero, 1, x));
}

}  // namespace

Tensor i0(At x) { return special_of_one("i0", x, i0_of, differentiate_by<i1_of>); }
Tensor i0e(At x) { return special_of_one("i0e", x, i0e_of, differentiate_by<i0e_slope>); }
Tensor i1(At x) { return special_of_one("i1", x, i1_of, differentiate_by<i1_slope>); }
Tensor i1e(At x) { return special_of_one("i1e", x, i1e_of, differentiate_by<i1e_slope>); }
Tensor bessel_j0(At x) { return special_of_one("bessel_j0", x, j0_of, differentiate_by<j0_slope>); }
Tensor bessel_j1(At x) { return special_of_one("bessel_j1", x, j1_of, differentiate_by<j1_slope>); }
Tensor bessel_y0(At x) { return special_of_one("bessel_y0", x, y0_of, differentiate_by<y0_slope>); }
Tensor bessel_y1(At x) { return special_of_one("bessel_y1", x, y1_of, differentiate_by<y1_slope>); }

}  // namespace weft
