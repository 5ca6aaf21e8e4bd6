// expect: weft: amax(x, axis), argmax(x, axis); of two tensors maximum(x, y)
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  x = max(x, 1);
}
