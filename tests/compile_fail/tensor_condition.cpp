// expect: weft: a tensor is no condition: x.item(), all(x).item(), where(x, a, b)
#include "weft/ops.hpp"

int same(const weft::Tensor& x, const weft::Tensor& y) {
  if (x == y) return 1;
  return 0;
}
