// expect: weft: a Shape of these sizes is Shape::of(0, 3)
#include "weft/tensor.hpp"

weft::Tensor x = weft::zeros(weft::Shape{0, 3});
