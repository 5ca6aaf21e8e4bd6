// expect: a scalar expression has no value to branch on: write where(condition, a, b), minimum or maximum
#include <algorithm>

#include "weft/expr.hpp"

constexpr auto larger = weft::elementwise([](auto x, auto y) { return std::max(x, y); });
