// expect: weft: x[i] = y would change nothing, as x[i] is a new value
#include "weft/ops.hpp"

void change(weft::Tensor& x) { x[0] += 1; }
