// expect: weft: the text comes first: print("{}", x)
#include "weft/effects.hpp"

int main() { weft::print(weft::ones({3})); }
