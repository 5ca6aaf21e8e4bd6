// expect: weft: the sizes are one list: ones({3, 4}), ones({3})
#include "weft/tensor.hpp"

weft::Tensor x = weft::ones(3, 4);
