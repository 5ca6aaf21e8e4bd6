// expect: weft: keepdim is a bool, as in vector_norm(x, 2, 0, true); two axes are a list
#include <iostream>

#include "weft/linalg.hpp"

int main() { std::cout << weft::linalg::vector_norm(weft::ones({3, 4}), 2, 0, 1) << "\n"; }
