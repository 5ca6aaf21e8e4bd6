// expect: weft: compile() takes a lambda without captures, a function, or a model
#include "weft/compile.hpp"

int main() { weft::compile(3); }
