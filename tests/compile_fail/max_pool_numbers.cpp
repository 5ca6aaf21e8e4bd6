// expect: weft: max_pool2d(x, 3, {.stride = 2})
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  max_pool2d(x, 2, 2);
}
