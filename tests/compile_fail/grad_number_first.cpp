// expect: weft: value_and_grad(f, wrt): f returns a number for the loss, which has no derivative
#include <utility>

#include "weft/grad.hpp"

int main() {
  auto [loss, slopes] =
      weft::value_and_grad([](const weft::Tensor& x) { return std::pair(2.0, weft::sum(x)); }, weft::Tensor());
}
