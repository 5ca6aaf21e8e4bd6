// expect: weft: several arguments are a tuple: grad(f, std::tuple(a, b))
#include <weft/grad.hpp>
void f(weft::Tensor x) {
  weft::grad([](const weft::Tensor& a, const weft::Tensor& b) { return sum(a * b); }, x, x);
}
