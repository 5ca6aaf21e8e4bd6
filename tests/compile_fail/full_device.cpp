// expect: weft: a device is an option: full({3, 4}, 1, {.device = Device::cuda()})
// without: weft: a dtype is an option
#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  full({3, 4}, 2.0, x.device());
}
