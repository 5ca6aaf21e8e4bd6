// expect: weft: keepdim is a bool, as in kthvalue(x, 2, 0, true)
#include <iostream>

#include "weft/ops.hpp"

int main() { std::cout << kthvalue(weft::ones({3, 4}), 2, 0, 1).values << "\n"; }
