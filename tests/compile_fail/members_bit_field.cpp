// expect: weft: the members of this plain struct cannot be listed
#include "weft/nn.hpp"

struct Model {
  weft::Param weight;
  int depth : 4, mode : 4;
  int width;
};
int main() {
  Model model;
  return static_cast<int>(weft::nn::parameters(model).size());
}
