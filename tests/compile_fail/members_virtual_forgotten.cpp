// expect: weft: WEFT_MEMBERS must list every data member, in the order of declaration
#include "weft/compile.hpp"

struct Layer final {
  virtual ~Layer() = default;
  weft::Param weight, bias;
  WEFT_MEMBERS(weight)
};
int main() {
  auto f = weft::compile([](const Layer& layer, const weft::Tensor& x) { return weft::Tensor(layer.weight); });
  f(Layer(), weft::Tensor());
}
