// expect: weft: the sizes are one list: full({3, 4}, 1.0), full({3}, 1.0)
#include "weft/tensor.hpp"

weft::Tensor x = weft::full(3, 4, 1.0);
