// expect: weft: default arguments are no part of a function's type, and a compiled function has none
// without: too many or too few
#include "weft/compile.hpp"
#include "weft/ops.hpp"

int main() {
  auto f = weft::compile([](const weft::Tensor& x, double scale = 2.0) { return x * scale; });
  f(weft::Tensor());
}
