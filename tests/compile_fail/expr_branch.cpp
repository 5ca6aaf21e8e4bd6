// expect: a scalar expression has no value to branch on: write where(condition, a, b), minimum or maximum
#include "weft/expr.hpp"

constexpr auto relu = weft::elementwise([](auto x) {
  if (x > 0) return x;
  return x * 0;
});
