// Special functions. Names, values and edge cases are torch.special's. Operands are tensors and numbers that broadcast;
// integers become f32. But where a line says otherwise, all is computed in f64 and rounded once: f16, bf16 and f32 are
// within 0.51 ULP of the true value, and a line gives the bound of f64. All of them have gradients, to any order but
// where a line says otherwise. Throw Error on shapes that do not broadcast.
#pragma once
#include "weft/ops.hpp"

namespace weft {

// ---- Bessel functions -----------------------------------------------------------------------------------------------
// Of order 0 and 1. Power series and fitted polynomials below 8, beyond them Hankel's asymptotic forms (Abramowitz and
// Stegun 9.2, 9.6, 9.7). Modified ones are within 2e-15 of their value, and `..e` is exp(-|x|) times them.
// PyTorch's i0 and i1 of an infinity are NaN, and here infinite.
Tensor i0(At x);
Tensor i0e(At x);
Tensor i1(At x);
Tensor i1e(At x);
// Within 1e-15 of max(|y|, 1), for large x too; NaN at infinities. bessel_y0 and bessel_y1 are -inf at 0 and NaN below.
// PyTorch has no gradients of these four.
Tensor bessel_j0(At x);
Tensor bessel_j1(At x);
Tensor bessel_y0(At x);
Tensor bessel_y1(At x);

// ---- the normal distribution and the error function -----------------------------------------------------------------
// The standard normal distribution: its probability of less than x, within 2e-15 of the value in both tails.
Tensor ndtr(At x);
// The inverse of ndtr: -inf at 0, inf at 1, NaN outside. Within 2e-15 of the value (Wichura 1988, AS 241).
Tensor ndtri(At p);
// log(ndtr(x)), which does not underflow. Within 2e-15 of the value.
Tensor log_ndtr(At x);
// exp(x^2) erfc(x), within 2e-15 of the value (Shepherd and Laframboise 1981).
Tensor erfcx(At x);

// ---- the gamma function's -------------------------------------------------------------------------------------------
// The sum over k >= 0 of (q + k)^-s (Hurwitz), by Euler and Maclaurin's formula: inf for s = 1, NaN for s < 1. At q =
// 0, -1, ... it is inf, at other negative q NaN but for whole s. Within 1e-14 of the value for q > 0 and s <= 50. It
// has no derivative with respect to s: one is refused.
Tensor zeta(At s, At q);
// The regularized incomplete gamma functions: the integral of t^(a-1) exp(-t) from 0 to x, and from x on, over
// gamma(a). NaN for a < 0 or x < 0. By series, continued fraction (Lentz 1976) or Temme's expansion (1979), until all
// elements have converged. Within 1e-13 of the value above 1e-100, igammac where x < a + 1 and x < 1 within 1e-14 of 1.
// They have no derivative with respect to a: one is refused.
Tensor igamma(At a, At x);
Tensor igammac(At a, At x);
// The logarithm of the p-variate gamma function of x: p (p - 1) / 4 log(pi) plus the sum of lgamma(x - j / 2) over j
// from 0 to p - 1. Throws where p is not from 1 to 65,535.
Tensor mvlgamma(At x, std::int64_t p);

// ---- elementary functions -------------------------------------------------------------------------------------------
// Computed in the dtype, f16 and bf16 in f32 and rounded once; within 4 ULP.
Tensor entr(At x);           // -x log(x); 0 at 0, -inf below
Tensor xlog1py(At x, At y);  // x log(1 + y); 0 where x is 0 and y no NaN
Tensor sinc(At x);           // sin(pi x) / (pi x); 1 at 0, and 0 exactly at other whole numbers

// ---- floats and their parts: exact ----------------------------------------------------------------------------------
// The next value of the dtype after `from` on the way to `to`, which it is where they are equal. Floats alone; no
// gradient: one is refused.
Tensor nextafter(At from, At to);
// x 2^exponent, rounded once, without overflow on the way. The exponent may be an integer, which leaves the dtype of x,
// or a float, which need not be whole.
Tensor ldexp(At x, At exponent);
// x = mantissa 2^exponent, with 1/2 <= |mantissa| < 1 and an exponent in i32; of 0, infinities and NaN the mantissa is
// x and the exponent 0. The gradient is the mantissa's. Floats alone.
struct MantissaAndExponent {
  Tensor mantissa;  // in the dtype of x
  Tensor exponent;  // i32
  WEFT_MEMBERS(mantissa, exponent)
};
MantissaAndExponent frexp(At x);
// x rounded to so many decimals, halves to even: round(x 10^decimals) / 10^decimals, as PyTorch computes it; x where
// that overflows. Gradient 0. Integers are as they are, and negative decimals of theirs are refused.
Tensor round(At x, int decimals);
Tensor isposinf(At x);  // bool: x is inf
Tensor isneginf(At x);  // bool: x is -inf

// ---- integers -------------------------------------------------------------------------------------------------------
// The greatest common divisor by Euclid's method, and the least common multiple; neither is negative, but where it
// wraps. gcd(0, 0) and lcm with a 0 are 0. Integers alone.
Tensor gcd(At a, At b);
Tensor lcm(At a, At b);

}  // namespace weft
