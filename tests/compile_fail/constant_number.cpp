// expect: weft: a number is an operand as it is; repeated it is full({2, 2}, 3.0)
#include "weft/tensor.hpp"

weft::Tensor x = weft::constant(3.0, {2, 2});
