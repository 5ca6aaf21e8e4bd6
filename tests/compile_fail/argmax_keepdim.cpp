// expect: weft: keepdim is a bool, as in argmax(x, 0, true)
#include <iostream>

#include "weft/ops.hpp"

int main() { std::cout << argmax(weft::ones({3, 4}), 0, 1) << "\n"; }
