// expect: weft: name them: (x, w, {.stride = 2})
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  conv2d(x, x, x, 1, 1);
}
