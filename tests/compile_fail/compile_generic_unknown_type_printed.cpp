// expect: weft: a raw pointer is passed to or returned by a compiled function
#include <iostream>

#include "weft/compile.hpp"

int main() {
  weft::Tensor x;
  auto f = weft::compile([](const auto& a) { return *a; });
  std::cout << f(&x) << "\n";
}
