// expect: weft: where(c, x, y) takes two values
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  where(x > 0, x);
}
