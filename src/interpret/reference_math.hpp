// The functions that the `reference` column of weft/ops.def names, on doubles and on exact integers. In: numbers that
// already have their dtype's precision. Out: the exact or double result, rounded to the dtype by the caller. Written
// from the definitions (PyTorch's), scalar and obvious; shares nothing with the vector spelling.
#pragma once
#include <cmath>

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
// Halves go to the even neighbour.
inline Integer round(Integer a) { return a; }
inline double round(double a) { return std::nearbyint(a); }

}  // namespace weft::reference
