// expect: weft: gather(x, index) takes rows, gather(x, axis, index) is torch.gather
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  gather(x);
}
