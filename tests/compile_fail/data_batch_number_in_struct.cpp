// expect: weft: batch can't stack a number or a text inside a struct or a container: make it a Tensor, or map
#include "weft/data.hpp"

struct Row {
  weft::Tensor x;
  int label;
};
int main() {
  for (auto [x, label] : std::vector<Row>(3) | weft::data::batch(2)) (void)label;
}
