// expect: weft: a dtype is an option: zeros({3, 4}, {.dtype = DType::f64})
#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  zeros({3, 4}, DType::f64);
}
