// expect: f must take them, as in
#include "weft/vmap.hpp"

weft::Tensor total(const weft::Tensor& xs) {
  return weft::vmap([](const weft::Tensor& a, const weft::Tensor& b) { return a + b; })(xs);
}
