// expect: there are too many or too few here
#include "weft/compile.hpp"

int main() {
  auto f = weft::compile([](const weft::Tensor& x, const weft::Tensor&) { return x; });
  f(weft::Tensor());
}
