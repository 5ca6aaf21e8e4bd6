// expect: weft: a pointer to a class with virtual functions can be followed where the class derives from weft::Polymorphic
#include <memory>
#include <vector>

#include "weft/nn.hpp"

struct Layer {
  virtual ~Layer() = default;
  weft::Param weight;
  WEFT_MEMBERS(weight)
};
int main() {
  std::vector<std::unique_ptr<Layer>> layers;
  weft::nn::parameters(layers);
}
