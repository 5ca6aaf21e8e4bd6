// expect: a closure with no parameter would use its own copy of the parameters
#include "weft/grad.hpp"

weft::Tensor gradient(weft::Tensor x) {
  return weft::grad([=] { return weft::sum(x * x); }, x);
}
