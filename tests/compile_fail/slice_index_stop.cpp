// expect: weft: a length is a number: slice(x, axis, index, 8)
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({16, 4});
  Index i = 3;
  x = slice(x, 0, i, i + 8);
}
