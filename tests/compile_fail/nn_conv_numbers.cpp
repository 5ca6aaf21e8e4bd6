// expect: weft: nn::Conv2d(3, 8, 5, {.stride = 2})
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  nn::Conv2d(3, 16, 3, 1, 1)(x);
}
