// expect: weft: functions are free: to(x, Device::cuda()), cast(x, DType::f64)
#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  x = x.to(Device::cuda());
}
