// expect: weft: print and host_call take tensors and numbers; text is written into the function
#include "weft/effects.hpp"

int main() { weft::print("{}: {}", "loss", weft::ones({})); }
