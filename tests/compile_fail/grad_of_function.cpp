// expect: weft: grad(f, x) computes the gradient at x
#include <weft/grad.hpp>
void f(weft::Tensor x) {
  weft::grad([](const weft::Tensor& a) { return sum(a); })(x);
}
