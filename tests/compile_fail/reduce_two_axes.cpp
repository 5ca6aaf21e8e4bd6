// expect: weft: keepdim is a bool, as in sum(x, 0, true); two axes are a list, sum(x, {0, 1})
#include <iostream>

#include "weft/ops.hpp"

int main() { std::cout << sum(weft::ones({3, 4}), 0, 1) << "\n"; }
