// expect: these are rows: from_list({{1.f, 2.f}, {3.f, 4.f}}), or stack()
#include <vector>

#include "weft/tensor.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  std::vector<std::vector<float>> rows = {{1, 2}, {3, 4}};
  from_span(rows, {2, 2});
}
