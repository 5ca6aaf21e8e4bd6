// expect: // weft: it is made as nn::Linear(in, out)
#include "weft/nn.hpp"

int main() { weft::nn::Linear a; }
