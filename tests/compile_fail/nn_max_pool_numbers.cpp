// expect: weft: options: {.stride = 2}
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  nn::MaxPool2d(3, 2)(x);
}
