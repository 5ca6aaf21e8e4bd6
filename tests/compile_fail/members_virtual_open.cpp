// expect: weft: a class with virtual functions and WEFT_MEMBERS must be final, or derive from weft::Polymorphic
#include "weft/compile.hpp"

struct Layer {
  virtual ~Layer() = default;
  weft::Param weight;
  WEFT_MEMBERS(weight)
};
int main() {
  auto f = weft::compile([](const Layer& layer, const weft::Tensor& x) { return weft::Tensor(layer.weight); });
  f(Layer(), weft::Tensor());
}
