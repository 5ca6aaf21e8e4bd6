// expect: f must take it, as in
#include "weft/grad.hpp"

weft::Tensor gradient(weft::Tensor x) {
  return weft::grad([](int a, int b) { return weft::full({1}, a + b); }, x);
}
