// expect: weft: a raw pointer is passed to or returned by a compiled function
#include "weft/compile.hpp"

int main() {
  auto f = weft::compile([](const weft::Tensor& x) { return &x; });
  f(weft::Tensor());
}
