// expect: weft: value_and_grad(f, wrt): f returns a number for the loss, which has no derivative
#include "weft/grad.hpp"

int main() {
  weft::grad([](const weft::Tensor& x) { return weft::sum(x * x).item(); }, weft::Tensor());
}
