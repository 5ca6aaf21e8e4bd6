// expect: in a scalar expression write & for &&, | for || and ~ for !
#include "weft/expr.hpp"

constexpr auto outside = weft::elementwise([](auto x) { return where(!(x > 0), x, 0); });
