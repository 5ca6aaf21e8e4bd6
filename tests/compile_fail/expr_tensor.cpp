// expect: a scalar expression works on its own values and on numbers: make everything else an operand
#include "weft/expr.hpp"
#include "weft/ops.hpp"

weft::Tensor bias;
constexpr auto shifted = weft::elementwise([](auto x) { return x + bias; });
