// expect: weft: compile() takes callables without captures: what is captured cannot be guarded. Make it a parameter, or
// bind it
#include "weft/compile.hpp"

int main() {
  weft::Tensor scale;
  auto f = weft::compile([&](const weft::Tensor& x) { return scale.defined() ? x : x; });
  f(weft::Tensor());
}
