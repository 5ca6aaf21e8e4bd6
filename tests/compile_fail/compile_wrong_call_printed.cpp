// expect: there are too many or too few here
#include <iostream>

#include "weft/compile.hpp"

int main() {
  auto f = weft::compile([](const weft::Tensor& x) { return x; });
  std::cout << f(weft::Tensor(), weft::Tensor(), 0) << "\n";
}
