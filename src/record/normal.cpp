// The normal distribution's functions, the scaled complement of erf, and elementary functions with removable
// singularities. Each part is given an argument of its own, so that the part that is not taken makes no NaN of a
// derivative.
#include <array>

#include "record/special.hpp"
#include "record/special_coefficients.hpp"
#include "weft/special.hpp"

namespace weft {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double root_of_half = 0.70710678118654752, root_of_two_pi = 2.5066282746310005,
                 two_over_root_of_pi = 1.1283791670955126;

// ---- erfcx ----------------------------------------------------------------------------------------------------------

// Of x >= 1/2.
Tensor erfcx_of_large(const Tensor& x) { return polynomial(1 - 9 / (x + 4), coefficients::erfcx_large) / (x * 2 + 1); }

Tensor erfcx_of(const Tensor& x) {
  const Tensor is_large = x >= 0.5, large = where(is_large, x, 1), small = where(is_large, 0, maximum(x, -30));
  const Square square = square_in_two(small);
  const Tensor near = exp(square.high) * erfc(small) * (square.low + 1);
  return where(is_large, erfcx_of_large(large), near);
}
// 2 x erfcx(x) - 2 / sqrt(pi), whose terms cancel for large x.
void differentiate_erfcx(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor x = in_f64(call.operands[0]), is_large = x >= 0.5, large = where(is_large, x, 1);
  const Tensor root = large * 2 + 1;
  const Tensor far = -polynomial(1 - 9 / (large + 4), coefficients::erfcx_slope) / root / root;
  const Tensor y = in_f64(call.results[0]),
               near = where(is_large, 0, x) * where(is_large, 0, y) * 2 - two_over_root_of_pi;
  put_gradient(call, gradients, 0, where(is_large, far, near));
}

// ---- the normal distribution ----------------------------------------------------------------------------------------

// Below -1 by erfcx: what is rounded in x / sqrt(2) would be multiplied with x^2 in exp(-x^2 / 2).
struct NormalParts {
  Tensor is_low, low, rest;  // -x where it is low, else 1; x elsewhere
  explicit NormalParts(const Tensor& x) : is_low(x < -1), low(where(is_low, -x, 1)), rest(where(is_low, 0, x)) {}
  Tensor low_scaled() const { return erfcx_of_large(low * root_of_half) * 0.5; }  // exp(x^2 / 2) ndtr(x)
  Tensor rest_value() const { return erfc(rest * -root_of_half) * 0.5; }
};

Tensor ndtr_of(const Tensor& x) {
  NormalParts parts(x);
  parts.low = minimum(parts.low, 60);
  const Square square = square_in_two(parts.low);
  const Tensor low = parts.low_scaled() * exp(square.high * -0.5) * (1 - square.low * 0.5);
  return where(parts.is_low, low, parts.rest_value());
}
Tensor ndtr_slope(const Tensor& x) { return exp(x * x * -0.5) * (1 / root_of_two_pi); }

Tensor log_ndtr_of(const Tensor& x) {
  const NormalParts parts(x);
  const Tensor low = log(parts.low_scaled()) - parts.low * parts.low * 0.5;
  return where(parts.is_low, low, log1p(-ndtr_of(-parts.rest)));
}
Tensor log_ndtr_slope(const Tensor& x) {
  const NormalParts parts(x);
  return where(parts.is_low, 1 / root_of_two_pi / parts.low_scaled(), ndtr_slope(parts.rest) / parts.rest_value());
}

// Wichura 1988, algorithm AS 241 (PPND16): quotients of polynomials about 1/2, and of the root of -log(p) in the tails.
constexpr double middle_above[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                   1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                   3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double middle_below[] = {1.0,
                                   4.2313330701600911252e+1,
                                   6.8718700749205790830e+2,
                                   5.3941960214247511077e+3,
                                   2.1213794301586595867e+4,
                                   3.9307895800092710610e+4,
                                   2.8729085735721942674e+4,
                                   5.2264952788528545610e+3};
constexpr double tail_above[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                 3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double tail_below[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
constexpr double far_above[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double far_below[] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
Tensor quotient(const Tensor& t, std::span<const double> above, std::span<const double> below) {
  return polynomial(t, above) / polynomial(t, below);
}

Tensor ndtri_of(const Tensor& p) {
  const Tensor q = p - 0.5, is_middle = abs(q) <= 0.425, near = where(is_middle, q, 0);
  const Tensor middle = near * quotient(0.180625 - near * near, middle_above, middle_below);
  const Tensor outside = ~((p > 0) & (p < 1)), less = where(q < 0, p, 1 - p);
  const Tensor r = sqrt(-log(where(is_middle | outside, 0.25, less)));
  const Tensor is_far = r > 5;
  const Tensor tail = where(is_far, quotient(where(is_far, r, 5) - 5, far_above, far_below),
                            quotient(where(is_far, 5, r) - 1.6, tail_above, tail_below));
  const Tensor inside = where(is_middle, middle, where(q < 0, -tail, tail));
  const Tensor edge = where(p == 0, -infinity, where(p == 1, infinity, std::numeric_limits<double>::quiet_NaN()));
  return where(outside, edge, inside);
}
void differentiate_ndtri(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor y = in_f64(call.results[0]);
  put_gradient(call, gradients, 0, exp(y * y * 0.5) * root_of_two_pi);
}

// ---- elementary functions -------------------------------------------------------------------------------------------

void differentiate_entr(const CallValues& call, std::span<Tensor> gradients) {
  gradients[0] = in_wide(call.operands[0],
                         [&](const Tensor& x) { return -cast(call.gradients[0], type_of(x).dtype) * (log(x) + 1); });
}

// sin(pi x) / (pi x) by powers of x^2: (-1)^k pi^(2 k) / (2 k + 1)!, for |x| < 1/4.
constexpr std::array<double, 11> sinc_terms = [] {
  std::array<double, 11> terms{};
  long double term = 1;
  for (int k = 0; k < 11; ++k) {
    if (k > 0) term *= -9.86960440108935861883449099987615L / (2 * k * (2 * k + 1));
    terms[static_cast<std::size_t>(k)] = static_cast<double>(term);
  }
  return terms;
}();

}  // namespace

Tensor erfcx(At x) { return special_of_one("erfcx", x, erfcx_of, differentiate_erfcx); }
Tensor ndtr(At x) { return special_of_one("ndtr", x, ndtr_of, differentiate_by<ndtr_slope>); }
Tensor log_ndtr(At x) { return special_of_one("log_ndtr", x, log_ndtr_of, differentiate_by<log_ndtr_slope>); }
Tensor ndtri(At p) { return special_of_one("ndtri", p, ndtri_of, differentiate_ndtri); }

Tensor entr(At x) {
  Operation call("entr", x.loc);
  const auto body = [](const Tensor& value) {
    return in_wide(value, [](const Tensor& x) {
      const Tensor inside = x * -log(where(x > 0, x, 1)) + 0;  // no zero is negative
      return where(x >= 0, inside, where(isnan(x), x, -infinity));
    });
  };
  return composite_with(differentiate_entr, called("entr"), call.loc(), body, resolve(x, "entr"));
}

Tensor xlog1py(At x, At y) {
  constexpr const char* name = "xlog1py";
  Operation call(name, x.loc);
  Tensor values[] = {resolve(x, name), resolve(y, name)};
  unify(name, values, DTypeClass::floating, call.loc());
  const auto body = [](const Tensor& x, const Tensor& y) {
    return in_wide(x, [&](const Tensor& wide) {
      const Tensor other = cast(y, type_of(wide).dtype), none = (wide == 0) & ((other <= -1) | (other == infinity));
      return wide * log1p(where(none, 0, other)) + 0;  // no zero is negative
    });
  };
  return composite(called(name), call.loc(), body, values[0], values[1]);
}

// Beyond 1/4 the sine is that of the distance to the nearest whole number, whose parity gives the sign. No zero is
// negative.
Tensor sinc(At x) {
  Operation call("sinc", x.loc);
  const auto body = [](const Tensor& value) {
    return in_wide(value, [](const Tensor& x) {
      const Tensor is_small = abs(x) < 0.25, small = where(is_small, x, 0), large = where(is_small, 1, x);
      const Tensor whole = round(large), is_odd = whole - floor(whole * 0.5) * 2 == 1;
      const Tensor sine = sin((large - whole) * 3.1415926535897932);
      return where(is_small, polynomial(small * small, sinc_terms),
                   where(is_odd, -sine, sine) / (large * 3.1415926535897932) + 0);
    });
  };
  return composite(called("sinc"), call.loc(), body, resolve(x, "sinc"));
}

}  // namespace weft
