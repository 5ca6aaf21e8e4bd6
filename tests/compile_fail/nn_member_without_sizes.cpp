// expect: // weft: it is made as nn::Linear(in, out)
#include "weft/nn.hpp"

struct Model {
  weft::nn::Linear a;
};
int main() { Model model; }
