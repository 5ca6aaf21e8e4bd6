// expect: weft: vmap(f): f returns nothing
#include <weft/vmap.hpp>
void f(weft::Tensor x) {
  weft::vmap([](const weft::Tensor& a) { sum(a); })(x);
}
