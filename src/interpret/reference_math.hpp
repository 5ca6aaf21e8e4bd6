// The functions that the `reference` column of weft/ops.def names, on doubles and on exact integers. In: numbers that
// already have their dtype's precision. Out: the exact or double result, rounded to the dtype by the caller. Written
// from the definitions (PyTorch's), scalar and obvious; shares nothing with the vector spelling.
#pragma once
#include <cmath>
#include <limits>

namespace weft::reference {

using Integer = __int128;  // every sum, difference and product of two 64-bit integers is exact

// Quotient rounded down, and what it leaves, with the divisor's sign. A zero divisor gives what `/` gives for floats,
// and 0 for integers.
inline Integer floor_divide(Integer a, Integer b) {
  if (b == 0) return 0;
  Integer quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
inline Integer remainder(Integer a, Integer b) { return b == 0 ? 0 : a - b * floor_divide(a, b); }
inline double remainder(double a, double b) {
  double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  double rest = std::fmod(a, b), quotient = (a - rest) / b;  // whole, up to the rounding of the division
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient);
}

// Integers to a negative power: the truncated quotient 1 / a^-b, with 0 for 1 / 0.
inline Integer power(Integer a, Integer b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  unsigned __int128 result = 1, square = static_cast<unsigned __int128>(a);
  for (; b > 0; b /= 2, square *= square)
    if (b % 2) result *= square;
  return static_cast<Integer>(result);
}
inline double power(double a, double b) { return std::pow(a, b); }

// A NaN on either side gives NaN; -0 is less than +0.
inline Integer maximum(Integer a, Integer b) { return a < b ? b : a; }
inline Integer minimum(Integer a, Integer b) { return b < a ? b : a; }
inline double maximum(double a, double b) {
  if (a != a || b != b) return NAN;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}
inline double minimum(double a, double b) {
  if (a != a || b != b) return NAN;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

inline Integer absolute(Integer a) { return a < 0 ? -a : a; }
inline double absolute(double a) { return std::fabs(a); }
inline Integer floor(Integer a) { return a; }
inline double floor(double a) { return std::floor(a); }
inline Integer trunc(Integer a) { return a; }
inline double trunc(double a) { return std::trunc(a); }
// What trunc(a / b) leaves: the dividend's sign.
inline Integer fmod(Integer a, Integer b) { return b == 0 ? 0 : a % b; }
inline double fmod(double a, double b) { return std::fmod(a, b); }
// On as many bits as there are: what is beyond the dtype's goes when the caller wraps. A negative count shifts all out.
inline Integer shift_left(Integer a, Integer b) {
  return b < 0 || b > 63 ? 0 : static_cast<Integer>(static_cast<unsigned __int128>(a) << static_cast<int>(b));
}
inline Integer shift_right(Integer a, Integer b) { return a >> (b < 0 || b > 63 ? 63 : static_cast<int>(b)); }
// Halves go to the even neighbour.
inline Integer round(Integer a) { return a; }
inline double round(double a) { return std::nearbyint(a); }

// The number whose erf is x, by bisection.
inline double erfinv(double x) {
  const long double size = std::fabs(static_cast<long double>(x));
  if (!(size < 1)) return size == 1 ? std::copysign(std::numeric_limits<double>::infinity(), x) : NAN;
  if (size < 1e-9L) return static_cast<double>(x * 0.886226925452758013649083741670572591L);
  long double low = 0, high = 8;
  for (int i = 0; i < 80; ++i) {
    const long double middle = (low + high) / 2;
    const bool below = size < 0.5L ? std::erf(middle) < size : std::erfc(middle) > 1 - size;
    (below ? low : high) = middle;
  }
  return std::copysign(static_cast<double>(low), x);
}

// ---- the gamma function ---------------------------------------------------------------------------------------------

inline double lgamma(double a) {
  int sign;
  return ::lgamma_r(a, &sign);
}
inline long double sine_of_turn(long double x) {  // sin(pi x), without loss for large x
  const long double rest = x - 2 * std::nearbyint(x / 2);
  return std::sin(rest * 3.14159265358979323846264338327950288L);
}
inline double digamma(double a) {
  if (a == 0) return std::copysign(std::numeric_limits<double>::infinity(), -a);
  long double x = a, sum = 0;
  if (x < 0) {
    if (std::floor(x) == x) return NAN;
    const long double pi = 3.14159265358979323846264338327950288L;
    sum = -pi * sine_of_turn(x + 0.5L) / sine_of_turn(x);
    x = 1 - x;
  }
  for (; x < 40; x += 1) sum -= 1 / x;
  const long double u = 1 / (x * x);
  return static_cast<double>(
      sum + std::log(x) - 0.5L / x -
      u * (1 / 12.0L - u * (1 / 120.0L - u * (1 / 252.0L - u * (1 / 240.0L - u * (1 / 132.0L))))));
}
// The sum over k >= 0 of (x + k)^-s for x > 0: terms, then an integral with its corrections.
inline long double zeta(long double s, long double x) {
  constexpr long double bernoulli[] = {1 / 6.0L, -1 / 30.0L, 1 / 42.0L, -1 / 30.0L, 5 / 66.0L, -691 / 2730.0L};
  long double sum = 0;
  for (; x < 100 + 4 * s; x += 1) sum += std::pow(x, -s);
  sum += std::pow(x, 1 - s) / (s - 1) + std::pow(x, -s) / 2;
  for (int j = 1; j <= 6; ++j)  // B_2j / (2j)! s (s + 1) ... (s + 2j - 2) x^-(s + 2j - 1)
    sum += bernoulli[j - 1] * std::exp(std::lgamma(s + 2 * j - 1) - std::lgamma(s) - std::lgamma(2 * j + 1.0L)) *
           std::pow(x, 1 - s - 2 * j);
  return sum;
}
// Of an order from 0 to 30, rounded down. On the left of 0 the terms of both signs, each a sum of powers of positive
// numbers.
inline double polygamma(double given, double a) {
  const double order = std::floor(given);
  if (order == 0) return digamma(a);
  const double infinity = std::numeric_limits<double>::infinity();
  if (!(order >= 1 && order <= 30) || std::isnan(a) || a == -infinity) return NAN;
  const long double s = order + 1, x = a;
  const bool is_odd = std::fmod(order, 2) == 1;
  const double sign = is_odd ? 1 : -1;
  if (a <= 0 && std::floor(a) == a) return sign * infinity;
  if (a == infinity) return sign * 0.0;
  const long double below = -x - std::floor(-x);
  const long double sum = x > 0 ? zeta(s, x) : zeta(s, 1 - below) + sign * (zeta(s, below) - zeta(s, 1 - x));
  return static_cast<double>(sign * std::tgamma(s) * sum);
}

}  // namespace weft::reference
