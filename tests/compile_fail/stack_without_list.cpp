// expect: weft: stack takes a list: stack({x, y}, axis)
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  stack(x, x, 0);
}
