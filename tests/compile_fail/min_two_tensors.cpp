// expect: weft: amin(x, axis), argmin(x, axis); of two tensors minimum(x, y)
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  x = min(x, x);
}
