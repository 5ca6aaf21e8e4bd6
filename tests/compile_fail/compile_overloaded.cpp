// expect: weft: wrap an overloaded name in a lambda
#include "weft/compile.hpp"
#include "weft/ops.hpp"

weft::Tensor twice(const weft::Tensor& x) { return x + x; }
weft::Tensor twice(const weft::Tensor& x, double y) { return x + x * y; }

int main() {
  auto f = weft::compile(twice);
  weft::Tensor y = f(weft::ones({2}));
}
