// expect: weft: what host_call calls takes up to 8 const Tensor&, or one std::span<const Tensor>
#include <iostream>

#include "weft/effects.hpp"

int main() {
  weft::host_call([](double loss) { std::cout << loss << "\n"; }, weft::ones({}));
}
