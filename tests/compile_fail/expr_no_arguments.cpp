// expect: elementwise takes a lambda of 1 to 16 values: [](auto x, auto y) { return ...; }
#include "weft/expr.hpp"

constexpr auto nothing = weft::elementwise([] { return 1; });
