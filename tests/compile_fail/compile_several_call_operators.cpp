// expect: one with several call operators, as Sequential, a lambda
#include "weft/compile.hpp"
#include "weft/nn.hpp"

int main() {
  weft::nn::Sequential model(weft::nn::Linear(2, 3), weft::nn::ReLU());
  weft::compile(model);
}
