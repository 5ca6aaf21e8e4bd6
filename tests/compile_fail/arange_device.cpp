// expect: weft: a device is an option: arange(3, {.device = Device::cuda()})
#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  arange(x.size(0), x.device());
}
