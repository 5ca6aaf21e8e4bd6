// expect: weft: a device is an option: zeros({3, 4}, {.device = Device::cuda()})
// without: weft: a dtype is an option
#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  zeros({3, 4}, Device::cuda());
}
