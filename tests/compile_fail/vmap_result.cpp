// expect: a type that has no meaning to Weft (a Generator is captured by reference)
#include "weft/vmap.hpp"

void last(const weft::Tensor& xs) {
  weft::vmap([](const weft::Tensor& a) { return &a; })(xs);
}
