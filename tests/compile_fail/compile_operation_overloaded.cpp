// expect: weft: wrap an overloaded name in a lambda
#include "weft/compile.hpp"
#include "weft/ops.hpp"

int main() { weft::compile(weft::sum)(weft::ones({2})); }
