// expect: weft: from_span takes the sizes, too: from_span(v, {2, 3})
#include <vector>

#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  std::vector<float> v = {1, 2};
  from_span(v);
}
