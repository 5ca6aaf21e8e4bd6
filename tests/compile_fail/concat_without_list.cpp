// expect: weft: concat takes a list: concat({x, y}, axis)
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  concat(x, x);
}
