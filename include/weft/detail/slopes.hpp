// Parts of derivatives in weft/ops.def that are no line there, on tensors and on scalar expressions: quotients by
// squares, which neither overflow nor underflow on the way. Where they are not taken they have finite derivatives too.
#pragma once

namespace weft::detail {

// g * a / (a * a + b * b), and 0 where both are 0: the greater of the two is divided by first.
template <class T>
constexpr T over_sum_of_squares(const T& g, const T& a, const T& b) {
  const T is_zero = (a == 0) & (b == 0), by_a = abs(a) > abs(b);
  const T large = where(is_zero, 1, where(by_a, a, b)), ratio = where(by_a, b, a) / large;
  return where(is_zero, 0, where(by_a, g, g * ratio) / large / (ratio * ratio + 1));
}

// g / sqrt(a * a + 1)
template <class T>
constexpr T over_root_of_square(const T& g, const T& a) {
  const T size = abs(a), is_large = size > 1, large = where(is_large, size, 1), ratio = where(is_large, 1, a) / large;
  return g * rsqrt(ratio * ratio + 1) / large;
}

}  // namespace weft::detail
