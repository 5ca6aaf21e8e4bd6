// expect: a type here does not convert to its parameter's
#include <iostream>

#include "weft/compile.hpp"

int main() {
  auto f = weft::compile([](weft::Tensor& x) { return x; });
  std::cout << f(weft::Tensor()) << "\n";
}
