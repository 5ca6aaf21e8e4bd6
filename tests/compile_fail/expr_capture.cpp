// expect: elementwise takes a lambda without captures: make what it captures an operand
#include "weft/expr.hpp"

weft::Tensor scale(const weft::Tensor& x, double factor) {
  return weft::elementwise([factor](auto value) { return value * factor; })(x);
}
