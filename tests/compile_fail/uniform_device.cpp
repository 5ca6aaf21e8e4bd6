// expect: weft: a device is an option: uniform({3}, {.device = Device::cuda()})
#include "weft/random.hpp"

using namespace weft;

int main() {
  Tensor x = uniform({3, 4}, {.device = Device::cuda()});
  uniform({3, 4}, x.device());
}
