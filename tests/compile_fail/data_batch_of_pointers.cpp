// expect: weft: batch stacks tensors, numbers, and structs and tuples of them: map the elements to such
#include "weft/data.hpp"

int main() {
  for (auto batch : std::vector<int*>(3) | weft::data::batch(2)) (void)batch;
}
