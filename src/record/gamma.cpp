// The gamma function's relatives: Hurwitz's zeta, the incomplete gamma functions, the multivariate logarithm. All in
// f64.
#include <array>
#include <tuple>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/special.hpp"
#include "record/special_coefficients.hpp"
#include "weft/loops.hpp"
#include "weft/special.hpp"

namespace weft {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

void refuse_derivative(const CallValues& call, const char* function, const char* operand) {
  if (call.wanted[0])
    fail(function, recorder().loc, function, " has no derivative with respect to ", operand, ": use stop_gradient");
}

// ---- zeta -----------------------------------------------------------------------------------------------------------

// Of q > 0: ten terms, then an integral with its corrections B_2j / (2j)! s (s + 1) ... (s + 2j - 2) a^-(s + 2j - 1) by
// Euler and Maclaurin (Abramowitz and Stegun 23.1.30). Beyond s = 2000 the first term is all.
Tensor zeta_of_positive(const Tensor& s, const Tensor& q) {
  constexpr int terms = 10;
  constexpr double corrections[] = {8.3333333333333333e-2,   -1.3888888888888889e-3,  3.3068783068783069e-5,
                                    -8.2671957671957672e-7,  2.0876756987868099e-8,   -5.2841901386874932e-10,
                                    1.3382536530684679e-11,  -3.3896802963225829e-13, 8.5860620562778446e-15,
                                    -2.1748686985580619e-16, 5.5090028283602295e-18,  -1.3954464685812523e-19};
  const Tensor power = minimum(s, 2000);
  Tensor sum = pow(q, -s);
  for (int n = 1; n < terms; ++n) sum = sum + exp(-power * log(q + n));
  const Tensor a = q + terms, last = exp(-power * log(a)), inverse = 1 / a;
  Tensor term = power * last * inverse, rest = last * a / (power - 1) + last * 0.5;
  for (int j = 0; j < 12; ++j) {
    rest = rest + term * corrections[j];
    if (j < 11) term = term * ((power + (2 * j + 1)) * inverse) * ((power + (2 * j + 2)) * inverse);
  }
  return sum + rest;
}

// Left of 0 the terms on both sides of 0 are sums over positive numbers, one of them of finitely many terms.
Tensor zeta_of(const Tensor& s, const Tensor& q) {
  const Tensor is_positive = q > 0, is_defined = s > 1, is_finite = isfinite(q);
  const Tensor power = where(is_defined, s, 2), size = where(is_positive | ~is_finite, 0.5, -q);
  const Tensor part = size - floor(size), above = where(part == 0, 0.5, part);
  const Tensor right = zeta_of_positive(power, where(is_positive & is_finite, q, 1 - above));
  const Tensor left = zeta_of_positive(power, above) - zeta_of_positive(power, size + 1);
  const Tensor is_odd = power - floor(power * 0.5) * 2 == 1;
  const Tensor negative = where(floor(q) == q, infinity, where(floor(s) == s, right + where(is_odd, -left, left), nan));
  const Tensor value = where(is_positive, where(is_finite, right, 0), negative);
  return where(isnan(q) | isnan(s), nan, where(is_defined, value, where(s == 1, infinity, nan)));
}
void differentiate_zeta(const CallValues& call, std::span<Tensor> gradients) {
  refuse_derivative(call, "zeta", "s");
  const Tensor s = in_f64(call.operands[0]), q = in_f64(call.operands[1]);
  put_gradient(call, gradients, 1, -s * zeta_of(s + 1, q));
}

// ---- the incomplete gamma functions ---------------------------------------------------------------------------------

// m - log(1 + m) for |m| <= 0.3 by powers of r = m / (2 + m): log(1 + m) = 2 (r + r^3 / 3 + r^5 / 5 + ...).
Tensor excess_of_small(const Tensor& m) {
  constexpr std::array<double, 12> odd = [] {
    std::array<double, 12> terms{};
    for (int k = 0; k < 12; ++k) terms[static_cast<std::size_t>(k)] = 2.0 / (2 * k + 3);
    return terms;
  }();
  const Tensor r = m / (m + 2), square = r * r;
  return m * r - r * square * polynomial(square, odd);
}
constexpr double small_distance = 0.3, least_for_temme = 200, least_for_stirling = 10;

// Of a > 0 and x > 0, finite.
struct GammaParts {
  Tensor a, x, distance, is_near, excess;
  GammaParts(const Tensor& given_a, const Tensor& given_x) : a(given_a), x(given_x) {
    distance = (x - a) / a;
    is_near = abs(distance) <= small_distance;
    const Tensor far = where(is_near, 1, distance);
    excess = where(is_near, excess_of_small(where(is_near, distance, 0)), far - log1p(far));
  }
  // x^a exp(-x) / gamma(a + 1): for large a by Stirling's series (Abramowitz and Stegun 6.1.41), where all that is
  // large cancels exactly.
  Tensor factor() const {
    constexpr double stirling[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                   1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
    const Tensor is_large = a >= least_for_stirling, large = where(is_large, a, least_for_stirling),
                 small = where(is_large, 1, a), inverse = 1 / large;
    const Tensor rest = inverse * polynomial(inverse * inverse, stirling);
    const Tensor by_stirling = exp(-large * where(is_large, excess, 0) - rest) / sqrt(large * 6.2831853071795865);
    return where(is_large, by_stirling, exp(small * log(x) - x - lgamma(small + 1)));
  }
};

constexpr int steps_at_once = 4;  // of an iteration, which is a pass over memory

// The sum over k >= 0 of x^k / ((a + 1) ... (a + k)): Abramowitz and Stegun 6.5.29. Small for x < a + 1.
Tensor series_of_gamma(const Tensor& a, const Tensor& x) {
  using State = std::tuple<Tensor, Tensor, Tensor>;  // sum, term, k
  const Tensor one = x * 0 + 1;
  const State last = while_loop([](const State& state) { return any(get<1>(state) > get<0>(state) * 0x1p-54); },
                                [&](State state) {
                                  auto& [sum, term, k] = state;
                                  for (int step = 0; step < steps_at_once; ++step) {
                                    term = term * (x / (a + k));
                                    sum = sum + term;
                                    k = k + 1;
                                  }
                                  return state;
                                },
                                State{one, one, full({}, 1, {DType::f64, type_of(x).device})});
  return get<0>(last);
}
// exp(x) x^-a gamma(a, x): Abramowitz and Stegun 6.5.31, its even part, by Lentz's method. For x >= a + 1, where 80
// steps are enough; rounding moves a converged element by a few units, so the bound is above that.
Tensor fraction_of_gamma(const Tensor& a, const Tensor& x) {
  using State = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;  // value, change, c, d, k
  constexpr double most = 200;
  const Tensor first = x + 1 - a, start = 1 / first;
  const State last =
      while_loop([](const State& state) { return any(abs(get<1>(state) - 1) > 0x1p-50) & (get<4>(state) < most); },
                 [&](State state) {
                   auto& [value, change, c, d, k] = state;
                   for (int step = 0; step < steps_at_once; ++step) {
                     const Tensor below = first + k * 2, above = k * (a - k);
                     d = 1 / (above * d + below);
                     c = below + above / c;
                     change = c * d;
                     value = value * change;
                     k = k + 1;
                   }
                   return state;
                 },
                 State{start, x * 0, x * 0 + 1e300, start, full({}, 1, {DType::f64, type_of(x).device})});
  return get<0>(last);
}
// exp(-y) = exp(-a eta^2 / 2) times this is Q where x >= a, and P elsewhere.
Tensor temme(const GammaParts& parts) {
  const Tensor y = parts.a * parts.excess, is_above = parts.distance >= 0;
  const Tensor size = sqrt(where(parts.excess > 0, parts.excess * 2, 1));
  const Tensor eta = where(parts.excess > 0, where(is_above, size, -size), 0), inverse = 1 / parts.a;
  Tensor sum;
  const auto add = [&](std::span<const double> powers) {
    const Tensor own = polynomial(eta, powers);
    sum = sum.defined() ? sum * inverse + own : own;
  };
  using namespace coefficients;
  add(temme_6), add(temme_5), add(temme_4), add(temme_3), add(temme_2), add(temme_1), add(temme_0);
  const Tensor correction = sum / sqrt(parts.a * 6.2831853071795865);
  return erfcx(sqrt(where(y > 0, y, 1)) * where(y > 0, 1, 0)) * 0.5 + where(is_above, correction, -correction);
}

Tensor incomplete_gamma(const Tensor& a, const Tensor& x, bool upper) {
  const Tensor is_inside = (a > 0) & (x > 0) & (a < infinity) & (x < infinity);
  const GammaParts parts(where(is_inside, a, 1), where(is_inside, x, 1));
  const Tensor by_temme = is_inside & (parts.a >= least_for_temme) & parts.is_near;
  const Tensor by_series = is_inside & ~by_temme & (parts.x < parts.a + 1),
               by_fraction = is_inside & ~by_temme & ~by_series;
  const Tensor factor = parts.factor();
  const Tensor series = factor * series_of_gamma(where(by_series, parts.a, 1), where(by_series, parts.x, 0));
  const Tensor fraction =
      factor * parts.a * fraction_of_gamma(where(by_fraction, parts.a, 1), where(by_fraction, parts.x, 2));
  const GammaParts near(where(by_temme, parts.a, least_for_temme), where(by_temme, parts.x, least_for_temme));
  const Tensor tail = exp(-near.a * near.excess) * temme(near);
  // The lesser one, and which it is.
  const Tensor part = where(by_series, series, where(by_fraction, fraction, tail));
  const Tensor is_upper = by_fraction | (by_temme & (near.distance >= 0));
  const Tensor inside = where(upper ? is_upper : ~is_upper, part, 1 - part);
  // At the edges: all is above 0 for a = 0, below infinity; nothing is known of both.
  const Tensor all_below = (a == 0) | (x == infinity), all_above = (x == 0) | (a == infinity);
  const Tensor is_unknown = isnan(a) | isnan(x) | (a < 0) | (x < 0) | (all_below & all_above);
  const Tensor edge = cast(upper ? all_above : all_below, DType::f64);
  return where(is_unknown, nan, where(is_inside, inside, edge));
}
Tensor lower_gamma(const Tensor& a, const Tensor& x) { return incomplete_gamma(a, x, false); }
Tensor upper_gamma(const Tensor& a, const Tensor& x) { return incomplete_gamma(a, x, true); }

// x^(a - 1) exp(-x) / gamma(a).
Tensor gamma_density(const Tensor& a, const Tensor& x) {
  const Tensor is_inside = (a > 0) & (x > 0) & (a < infinity) & (x < infinity);
  const GammaParts parts(where(is_inside, a, 1), where(is_inside, x, 1));
  const Tensor at_zero = where(a < 1, infinity, where(a == 1, 1, 0));
  const Tensor edge = where((a >= 0) & (x >= 0), where(x == 0, at_zero, 0), nan);
  return where(is_inside, parts.factor() * parts.a / parts.x, edge);
}
void differentiate_lower(const CallValues& call, std::span<Tensor> gradients) {
  refuse_derivative(call, "igamma", "a");
  put_gradient(call, gradients, 1, gamma_density(in_f64(call.operands[0]), in_f64(call.operands[1])));
}
void differentiate_upper(const CallValues& call, std::span<Tensor> gradients) {
  refuse_derivative(call, "igammac", "a");
  put_gradient(call, gradients, 1, -gamma_density(in_f64(call.operands[0]), in_f64(call.operands[1])));
}

}  // namespace

Tensor zeta(At s, At q) { return special_of_two("zeta", s, q, zeta_of, differentiate_zeta); }
Tensor igamma(At a, At x) { return special_of_two("igamma", a, x, lower_gamma, differentiate_lower); }
Tensor igammac(At a, At x) { return special_of_two("igammac", a, x, upper_gamma, differentiate_upper); }

Tensor mvlgamma(At x, std::int64_t p) {
  constexpr const char* name = "mvlgamma";
  LooseComposite call(name, x.loc);
  if (p < 1) fail(name, call.loc(), "p must be 1 or more, it is ", p);
  check_recorded(name, "p", p, call.loc());
  const Tensor value = resolve(x, name), wide = in_f64(value);
  const auto count = static_cast<double>(p);
  Tensor sum = lgamma(wide) + count * (count - 1) * 0.25 * 1.1447298858494002;
  for (std::int64_t j = 1; j < p; ++j) sum = sum + lgamma(wide - static_cast<double>(j) * 0.5);
  return cast(sum, is_floating(type_of(value).dtype) ? type_of(value).dtype : DType::f32);
}

}  // namespace weft
