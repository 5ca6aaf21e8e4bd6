// expect: a scalar expression is not a number: call weft's functions (exp, not std::exp)
#include <cmath>

#include "weft/expr.hpp"

constexpr auto grow = weft::elementwise([](auto x) { return std::exp(x) * 2; });
